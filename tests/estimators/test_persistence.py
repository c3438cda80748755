"""Model files: what is read is what was written, and nothing else is read."""

from __future__ import annotations

import io
import json
import os
import zipfile

import numpy as np
import pytest

pytest.importorskip("sklearn")

from hypothesis import given
from hypothesis import strategies as st

import lorank as lr
from lorank.io.archive import VERSION, FileError, read_archive, write_archive


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((40, 30)) < 0.4)
    values = 3 + rng.standard_normal((40, 1))[rows, 0] + rng.standard_normal(len(rows))
    pairs = np.column_stack([rows, cols])
    return lr.MatrixCompletion(rank=2, regularization="learned", intervals=True, bounds=(1, 5)).fit(pairs, values), pairs


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    return model[0].save(tmp_path_factory.mktemp("models") / "m.lorank").read_bytes()


def test_a_model_comes_back_as_it_was(model, tmp_path):
    fitted, pairs = model
    again = lr.load(fitted.save(tmp_path / "m.lorank"))
    assert os.listdir(tmp_path) == ["m.lorank"]
    np.testing.assert_array_equal(again.predict(pairs), fitted.predict(pairs))
    for a, b in zip(again.predict_interval(pairs), fitted.predict_interval(pairs), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(again.recommend([0, 3], by="rating")[0], fitted.recommend([0, 3], by="rating")[0])
    np.testing.assert_array_equal(again.fold_in([1, 2], [3, 4]).predictions, fitted.fold_in([1, 2], [3, 4]).predictions)
    assert again.get_params() == fitted.get_params()
    assert again.diagnosis_ == fitted.diagnosis_
    assert again.history_.residual.tolist() == fitted.history_.residual.tolist()
    assert (again.status_, again.status_.advice) == (fitted.status_, fitted.status_.advice)
    again.save(tmp_path / "again.lorank")
    assert (tmp_path / "again.lorank").read_bytes() == (tmp_path / "m.lorank").read_bytes()


def test_the_order_of_recommendations_is_kept(tmp_path):
    rng = np.random.default_rng(1)
    pairs = np.argwhere(rng.random((40, 30)) < 0.4)
    fitted = lr.MatrixCompletion(rank=1, regularization=1.0, ranking=True).fit(pairs, rng.standard_normal(len(pairs)))
    best, scores = fitted.recommend(np.arange(40), n=5)
    again = lr.load(fitted.save(tmp_path / "m.lorank"))
    assert again.state_.ranking is not None
    for a, b in zip(again.recommend(np.arange(40), n=5), (best, scores), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_imputer_comes_back_as_it_was(tmp_path):
    rng = np.random.default_rng(0)
    gaps = np.where(rng.random((50, 6)) < 0.2, np.nan, rng.standard_normal((50, 6)))
    imputer = lr.TableImputer(method="low-rank", rank=2, regularization="learned").fit(gaps)
    np.testing.assert_array_equal(lr.load(imputer.save(tmp_path / "i")).transform(gaps), imputer.transform(gaps))


def test_every_truncation_is_an_error(saved, tmp_path):
    path = tmp_path / "m.lorank"
    for length in [*range(0, 60, 7), *np.linspace(60, len(saved) - 1, 40).astype(int)]:
        path.write_bytes(saved[:length])
        with pytest.raises(FileError, match=r"m\.lorank"):
            lr.load(path)


@given(st.integers(0, 10**9), st.integers(1, 255))
def test_every_changed_byte_is_an_error_or_changes_nothing(model, saved, tmp_path_factory, place, change):
    """A byte of the archive's own book-keeping may not matter; one of the content always does."""
    spoiled = bytearray(saved)
    spoiled[place % len(saved)] ^= change
    path = tmp_path_factory.getbasetemp() / "spoiled.lorank"
    path.write_bytes(bytes(spoiled))
    fitted, pairs = model
    try:
        again = lr.load(path)
    except FileError:
        return
    np.testing.assert_array_equal(again.predict(pairs), fitted.predict(pairs))


def repacked(saved, change):
    """The archive with members changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for name, content in change({name: old.read(name) for name in old.namelist()}).items():
            new.writestr(name, content)
    return out.getvalue()


def test_changed_members_are_found(saved, tmp_path):
    path = tmp_path / "m.lorank"
    rank = lambda members: members | {"meta.json": members["meta.json"].replace(b'"rank": 2', b'"rank": 3')}  # noqa: E731
    more = lambda members: members | {"evil.py": b"print()"}  # noqa: E731
    fewer = lambda members: {k: v for k, v in members.items() if k != "model.rows.npy"}  # noqa: E731
    for change, match in ((rank, "meta.json|changed"), (more, "added"), (fewer, "missing")):
        path.write_bytes(repacked(saved, change))
        with pytest.raises(FileError, match=match):
            lr.load(path)


def test_foreign_files(tmp_path, saved):
    path = tmp_path / "x"
    with pytest.raises(FileError, match="does not exist"):
        lr.load(path)
    for content in (b"", b"a,b\n1,2\n", b"PK\x03\x04" + bytes(100)):
        path.write_bytes(content)
        with pytest.raises(FileError, match="lorank file"):
            lr.load(path)
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(FileError, match="lorank file"):
        lr.load(tmp_path / "x.npz")
    with pytest.raises(FileError, match=r"cannot be read|lorank file"):
        lr.load(tmp_path)
    write_archive(path, "checkpoint", {}, {})
    with pytest.raises(FileError, match=r"checkpoint .* model"):
        lr.load(path)
    write_archive(path, "model", {"class": "os.system"}, {})
    with pytest.raises(FileError, match="complete"):
        lr.load(path)


def test_objects_are_neither_written_nor_read(tmp_path):
    path = tmp_path / "x"
    with pytest.raises(ValueError, match="Object arrays"):
        write_archive(path, "model", {}, {"a": np.array([print], object)})
    assert not path.exists()
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], object), allow_pickle=True)
    import hashlib

    write_archive(path, "model", {}, {"a": np.zeros(1)})

    def put(members):
        members = {**members, "a.npy": buffer.getvalue()}
        del members["SHA256SUMS"]
        sums = "".join(f"{hashlib.sha256(v).hexdigest()}  {k}\n" for k, v in members.items())
        return members | {"SHA256SUMS": sums.encode()}

    path.write_bytes(repacked(path.read_bytes(), put))
    with pytest.raises(FileError, match="not an array of numbers"):
        read_archive(path)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("{", "JSON"),
        ("[" * 200_000, "JSON"),
        ("[1]", "lorank file"),
        ('{"format": "lorank", "version": "1"}', "lorank file"),
        ('{"format": "FORMAT", "version": VERSION, "kind": 3, "meta": {}}', "complete"),
        ('{"format": "FORMAT", "version": VERSION, "kind": "model", "meta": []}', "complete"),
    ],
    ids=range(6),
)
def test_headers_that_are_none(tmp_path, header, said):
    """With sums that are right: somebody else's file, say."""
    import hashlib

    from lorank.io.archive import FORMAT, META

    path = tmp_path / "x"
    write_archive(path, "model", {}, {})

    def put(members):
        content = header.replace("FORMAT", FORMAT).replace("VERSION", str(VERSION)).encode()
        return {META: content, "SHA256SUMS": f"{hashlib.sha256(content).hexdigest()}  {META}\n".encode()}

    path.write_bytes(repacked(path.read_bytes(), put))
    with pytest.raises(FileError, match=said):
        read_archive(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda meta, arrays: meta.update(n_iter="many"),
        lambda meta, arrays: meta["state"].update(bounds=["low", "high"]),
        lambda meta, arrays: meta["state"].update(bounds=[1]),
        lambda meta, arrays: meta.update({"model.mean": "text"}),
        lambda meta, arrays: meta.update({"model.noise": "text"}),
        lambda meta, arrays: meta["state"].update(calibration_size="text"),
        lambda meta, arrays: meta["state"].update(count_scaling="text"),
        lambda meta, arrays: meta["diagnosis"].update(oversampling="text"),
        lambda meta, arrays: arrays.update({"model.rows": np.full_like(arrays["model.rows"], np.nan)}),
        lambda meta, arrays: arrays.update({"model.cols": arrays["model.cols"] + np.inf}),
        lambda meta, arrays: arrays.update(calibration=arrays["calibration"].astype(str)),
    ],
)
def test_forged_numbers_are_refused(saved, tmp_path, change):
    """Text for numbers, and factors that are not finite, raise an error when the file is read, not in use."""
    (tmp_path / "m.lorank").write_bytes(saved)
    _, meta, arrays = read_archive(tmp_path / "m.lorank")
    change(meta, arrays)
    write_archive(tmp_path / "m.lorank", "model", meta, arrays)
    with pytest.raises(FileError, match=r"m\.lorank"):
        lr.load(tmp_path / "m.lorank")


def test_other_versions_are_refused_with_a_remedy(tmp_path, monkeypatch):
    for version, remedy in ((VERSION + 1, "update lorank"), (VERSION - 1, "write it again")):
        monkeypatch.setattr("lorank.io.archive.VERSION", version)
        write_archive(tmp_path / "x", "model", {}, {})
        monkeypatch.undo()
        with pytest.raises(FileError, match=remedy):
            read_archive(tmp_path / "x")


def test_a_failed_write_leaves_the_old_file(tmp_path, saved):
    path = tmp_path / "m.lorank"
    path.write_bytes(saved)
    with pytest.raises(TypeError):
        write_archive(path, "model", {"a": object()}, {})
    assert path.read_bytes() == saved
    assert os.listdir(tmp_path) == ["m.lorank"]
    with pytest.raises(FileError, match="cannot be written"):
        write_archive(tmp_path / "nowhere" / "m.lorank", "model", {}, {})
    assert json.loads(zipfile.ZipFile(path).read("meta.json"))["version"] == VERSION
