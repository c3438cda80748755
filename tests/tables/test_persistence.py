"""Model files of imputers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr
from lorank.io.archive import FileError, read_archive, write_archive


def grouped_table() -> np.ndarray:
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((25, 5))[rng.integers(0, 25, 150)] + 0.1 * rng.standard_normal((150, 5))
    return np.where(rng.random(whole.shape) < 0.15, np.nan, whole)


DAMAGES = {
    "shorter": lambda x: x[:-1],
    "empty": lambda x: x.reshape(-1)[:0],
    "text": lambda x: x.astype("U3"),
    "extreme": lambda x: np.full_like(x, np.nan if x.dtype.kind == "f" else 100),
}


@pytest.mark.parametrize("options", [{"refine": "trees"}, {"method": "low-rank", "rank": 2}, {"time": True}], ids=str)
@pytest.mark.parametrize("damage", DAMAGES)
def test_forged_arrays_are_refused_or_give_finite_answers(options, damage, tmp_path):
    table = grouped_table()
    path = lr.TableImputer(**options).fit(table).save(tmp_path / "model.lorank")
    kind, meta, arrays = read_archive(path)
    refused = 0
    for name in list(arrays)[:: 1 + len(arrays) // 30]:
        forged = write_archive(tmp_path / "forged.lorank", kind, meta, arrays | {name: DAMAGES[damage](arrays[name])})
        try:
            imputer = lr.load(forged)
        except FileError:
            refused += 1
        else:
            assert np.isfinite(imputer.transform(table)).all(), name
    assert refused > 0


def test_text_for_a_number_is_refused(tmp_path):
    path = lr.TableImputer(method="low-rank", rank=1).fit(grouped_table()).save(tmp_path / "model.lorank")
    kind, meta, arrays = read_archive(path)
    meta["fitted"]["model_"]["factors"]["noise"] = "none"
    with pytest.raises(FileError, match=r"forged\.lorank"):
        lr.load(write_archive(tmp_path / "forged.lorank", kind, meta, arrays))
