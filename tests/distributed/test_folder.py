"""Folders of partitions: round trips, checksums, damaged and changing files."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import lorank as lr
from lorank.distributed.folder import MANIFEST, block_arrays, file_checksum, manifest_checksum, open_folder, row_edges
from lorank.io.archive import FileError


def problem_of(weights=False, seed=0, **options):
    problem, truth = lr.datasets.random_completion(60, 45, 3, oversampling=4, seed=seed, **options)
    if not weights:
        return problem, truth
    w = np.random.default_rng(seed).uniform(0.5, 2, problem.m)
    return lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, weights=w), truth


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("options", [{}, {"dtype": np.float32}, {"dtype": np.complex128}])
def test_round_trip(tmp_path, weights, options):
    problem, _ = problem_of(weights, **options)
    lr.distributed.save_partitions(problem, tmp_path / "p", n_partitions=4)
    again = lr.distributed.from_partitions(tmp_path / "p")
    assert again.shape == problem.shape
    assert again.dtype == problem.dtype
    for a, b in zip(problem.observations.host(), again.observations.host(), strict=True):
        np.testing.assert_array_equal(b, a)
    np.testing.assert_array_equal(again.rows, problem.rows)
    open_folder(tmp_path / "p").verify()
    lr.distributed.save_partitions(again, tmp_path / "q")  # from a folder to a folder: the same files
    for part in sorted((tmp_path / "p").rglob("*.npy")):
        assert part.read_bytes() == (tmp_path / "q" / part.relative_to(tmp_path / "p")).read_bytes()


def test_no_pickle_and_no_temporary_files(tmp_path):
    problem, _ = problem_of()
    lr.distributed.save_partitions(problem, tmp_path / "p", n_partitions=3)
    assert {f.suffix for f in (tmp_path / "p").rglob("*.*")} == {".json", ".npy"}
    assert [f.name for f in tmp_path.iterdir()] == ["p"]
    again = lr.distributed.from_partitions(tmp_path / "p")
    lr.solve(again, 3, max_iter=3, stop=lr.stopping.Iterations(3))
    del again
    import gc

    gc.collect()
    assert [f.name for f in tmp_path.iterdir()] == ["p"]  # scratch files are gone with the problem


def test_a_block_in_both_orders():
    problem, _ = problem_of(True)
    entries = problem.observations.host()
    block = block_arrays(entries, problem.shape[1])
    dense = problem.observations.matrix(problem.y).toarray()
    m = problem.m
    rows, cols = block.rows[:m], np.repeat(np.arange(problem.shape[1]), np.diff(block.colptr))
    np.testing.assert_array_equal(block.column_values, dense[rows, cols])
    np.testing.assert_array_equal(entries.values[block.order], block.column_values)
    np.testing.assert_array_equal(entries.weights[block.order], block.column_weights)
    assert not block.rows[m:].any()
    assert not block.indices[m:].any()


@pytest.mark.parametrize("n_partitions", [1, 2, 5, 9])
def test_rows_are_cut_evenly_and_no_block_is_empty(n_partitions):
    rng = np.random.default_rng(n_partitions)
    for counts in (rng.integers(0, 9, 50), np.r_[1000, np.ones(8, int)], np.r_[np.zeros(20, int), np.ones(9, int)]):
        edges = row_edges(counts, n_partitions)
        assert edges[0] == 0
        assert edges[-1] == len(counts)
        sums = np.add.reduceat(counts, edges[:-1])
        assert (np.diff(edges) > 0).all()
        assert (sums > 0).all()
        assert sums.max() <= counts.sum() / n_partitions + counts.max()


def test_more_partitions_than_rows_are_refused(tmp_path):
    problem, _ = problem_of()
    with pytest.raises(ValueError, match=r"n_partitions.*61"):
        lr.distributed.save_partitions(problem, tmp_path / "p", n_partitions=61)
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_not_overwritten(tmp_path):
    problem, _ = problem_of()
    lr.distributed.save_partitions(problem, tmp_path / "p")
    with pytest.raises(FileError, match="not empty"):
        lr.distributed.save_partitions(problem, tmp_path / "p")


def flip(file, bit):
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(bytes(content))


def change(folder, change):
    """Change a manifest, with a checksum that fits."""
    found = json.loads((folder / MANIFEST).read_text())
    change(found)
    del found["crc32"]
    (folder / MANIFEST).write_text(json.dumps({**found, "crc32": manifest_checksum(found)}))


def damage_size(folder):
    file = folder / "00001" / "values.npy"
    file.write_bytes(file.read_bytes()[:-4])
    return "values.npy"


def damage_missing(folder):
    (folder / "00001" / "rows.npy").unlink()
    return "rows.npy"


def damage_index(folder):
    file = folder / "00001" / "indices.npy"
    a = np.load(file)
    a[3] = 10**6
    np.save(file, a)
    return r"indices\.npy"


def damage_index_with_its_checksum(folder):
    damage_index(folder)
    file = folder / "00001" / "indices.npy"
    change(folder, lambda found: found["parts"][1]["files"].update(indices=[file.stat().st_size, file_checksum(file)]))
    return "00001.*damaged"


def damage_json(folder):
    (folder / MANIFEST).write_text("{")
    return r"manifest\.json"


def damage_encoding(folder):
    (folder / MANIFEST).write_bytes(b"\xff\xfe\x80")
    return r"manifest\.json"


def damage_kind(folder):
    (folder / MANIFEST).write_text("[1, 2]")
    return r"manifest\.json"


def damage_manifest(folder):
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text.replace('"weighted": false', '"weighted": true'))
    return r"manifest\.json"


def damage_manifest_alone(folder):
    """Nothing else would notice."""
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text.replace('"lorank": "', '"lorank": "9'))
    return r"manifest\.json"


def damage_version(folder):
    change(folder, lambda found: found.update(version=99))
    return "later format"


def damage_gap(folder):
    change(folder, lambda found: found["parts"].pop(1))
    return "begins at row"


def damage_name(folder):
    change(folder, lambda found: found["parts"][1].update(name="../elsewhere"))
    return r"\.\./elsewhere"


def damage_empty(folder):
    change(folder, lambda found: found["parts"][1].update(m=0))
    return "empty"


def damage_parts(folder):
    change(folder, lambda found: found.update(parts=[], shape=[0, 45], m=0))
    return "0 partitions"


def damage_files(folder):
    change(folder, lambda found: found["parts"][1]["files"].pop("order"))
    return "files of partition 00001"


def damage_dtype(folder):
    change(folder, lambda found: found.update(dtype="|O"))
    return "object"


def damage_swapped_ids(folder):
    one, two = (folder / f"{side}_ids.npy" for side in ("row", "col"))
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    return "_ids"


def damage_deleted_ids(folder):
    (folder / "col_ids.npy").unlink()
    return r"col_ids\.npy"


def damage_shortened_ids(folder):
    file = folder / "row_ids.npy"
    np.save(file, np.load(file)[:-1])
    return r"row_ids\.npy"


def damage_changed_ids(folder):
    flip(folder / "row_ids.npy", 8 * 150)
    return r"row_ids\.npy"


def damage_too_few_ids(folder):
    """With the right checksum."""
    file = folder / "row_ids.npy"
    np.save(file, np.arange(59))

    def ids(found):
        found["files"] = {"row_ids.npy": [file.stat().st_size, file_checksum(file)]}

    change(folder, ids)
    return r"row_ids\.npy"


def damage_kind_of_ids(folder):
    """With the right checksum."""
    file = folder / "row_ids.npy"
    np.save(file, np.linspace(0, 1, 60))

    def ids(found):
        found["files"] = {"row_ids.npy": [file.stat().st_size, file_checksum(file)]}

    change(folder, ids)
    return "integers or strings"


def damage_other_files_of_ids(folder):
    change(folder, lambda found: found["files"].update({"row_names.npy": [1, 1]}))
    return "row_names"


DAMAGES = [function for name, function in sorted(globals().items()) if name.startswith("damage_")]


@pytest.fixture
def written(tmp_path):
    problem, _ = problem_of()
    problem.row_ids = np.array([f"user {k}" for k in range(60)])
    problem.col_ids = np.array([f"item {k}" for k in range(45)])
    lr.distributed.save_partitions(problem, tmp_path / "p", n_partitions=3)
    return tmp_path / "p"


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(written, damage):
    named = damage(written)
    with pytest.raises(FileError, match=named):
        lr.distributed.from_partitions(written)


def test_every_flipped_bit_is_found(written):
    """In any file, when the folder is opened: no number and no id differs silently."""
    rng = np.random.default_rng(0)
    files = sorted(file for file in written.rglob("*") if file.is_file())
    assert len(files) == 1 + 2 + 3 * 7
    for k in range(150):
        file = files[k % len(files)]
        bit = int(rng.integers(8 * file.stat().st_size))
        flip(file, bit)
        with pytest.raises(FileError, match=re.escape(file.name) if file.suffix == ".npy" else "manifest|format"):
            lr.distributed.from_partitions(written)
        flip(file, bit)
    open_folder(written).verify()


@pytest.mark.parametrize("name", ["values", "rows", "indptr"])
@pytest.mark.parametrize("how", ["truncated", "rewritten"])
def test_files_changed_during_a_run_are_named(written, name, how):
    """Before the next pass: to read a mapped page that is gone would end the process."""
    problem = lr.distributed.from_partitions(written)
    file = written / "00001" / f"{name}.npy"

    def change(problem, state, clock):
        if state.iteration == 2 and how == "truncated":
            os.truncate(file, 100)
        elif state.iteration == 2:
            time.sleep(0.02)  # the resolution of the time of modification
            file.write_bytes(file.read_bytes())

    with pytest.raises(FileError, match=rf"{name}\.npy"):
        lr.solve(problem, 3, callbacks=[change])


def test_files_deleted_or_replaced_during_a_run_stay_mapped(written, tmp_path):
    problem = lr.distributed.from_partitions(written, scratch=tmp_path)
    expected = lr.solve(lr.distributed.from_partitions(written), 3).numpy()
    shutil.copytree(written, tmp_path / "copy")
    (tmp_path / "copy" / "00001" / "values.npy").write_bytes(b"another file")
    os.replace(tmp_path / "copy" / "00001" / "values.npy", written / "00001" / "values.npy")
    shutil.rmtree(written / "00002")
    np.testing.assert_array_equal(lr.solve(problem, 3).numpy().X.U, expected.X.U)


def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path, monkeypatch):
    problem, _ = problem_of()

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(FileError, match=r"p cannot be written: No space left"):
        lr.distributed.save_partitions(problem, tmp_path / "p")
    assert not list(tmp_path.iterdir())


FULL_DISK = """
import os, resource, signal, sys
import numpy as np
import lorank as lr
from lorank.io.archive import FileError

os.chdir(sys.argv[1])
pairs = np.argwhere(np.ones((300, 200), bool))
problem = lr.Completion(*pairs.T, np.sin(pairs.sum(1)) + pairs[:, 0], (300, 200))
lr.distributed.save_partitions(problem, "whole", n_partitions=2)
with open("r.csv", "w") as file:
    file.write("a,b,c\\n" + "".join(f"{i},{j},{i + j}\\n" for i, j in pairs))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    if sys.argv[2] == "built":
        lr.distributed.from_csv("r.csv", "a", "b", "c", folder="built")
    elif sys.argv[2] == "saved":
        lr.distributed.save_partitions(problem, "saved")
    else:
        lr.solve(lr.distributed.from_partitions("whole", scratch="."), 2, max_iter=3)
except FileError as error:
    print(error)
"""


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
@pytest.mark.parametrize("what", ["built", "saved", "scratch"])
def test_files_that_become_too_large_are_an_error_that_names_them(tmp_path, what):
    """While partitions are built or saved, and for the scratch files of a solve."""
    pytest.importorskip("polars")
    ended = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path), what], capture_output=True, text=True, check=True)
    assert "cannot be written" in ended.stdout
    assert ended.stdout.startswith("scratch=" if what == "scratch" else f"{what} ")
    assert "disk" in ended.stdout or "too large" in ended.stdout
    assert sorted(os.listdir(tmp_path)) == ["r.csv", "whole"]


def test_a_partitioned_problem_cannot_be_pickled(written):
    problem = lr.distributed.from_partitions(written)
    for one in (problem, problem.y, problem.observations):
        with pytest.raises(TypeError, match="from_partitions"):
            pickle.dumps(one)


class OwnLoss(lr.losses.Huber):
    """A loss without a repr of its own."""

    __repr__ = object.__repr__


def test_the_fingerprint_depends_on_data_and_settings(written, tmp_path):
    """Loss, precision, weights and dtype; two objects with the same parameters have the same one."""
    losses = ["squares", "huber", "cauchy", lr.losses.Huber(threshold=2.0), OwnLoss(threshold=2.0)]
    problems = [lr.distributed.from_partitions(written, loss=loss) for loss in losses]
    problems.append(lr.distributed.from_partitions(written, precision="double"))
    for name, options in {"weights": {"weights": True}, "float32": {"dtype": np.float32}}.items():
        lr.distributed.save_partitions(problem_of(**options)[0], tmp_path / name, n_partitions=3)
        problems.append(lr.distributed.from_partitions(tmp_path / name))
    found = [problem.fingerprint() for problem in problems]
    assert len(set(found)) == len(found)
    assert lr.distributed.from_partitions(written, loss=OwnLoss(threshold=2.0)).fingerprint() == found[4]


@pytest.mark.parametrize("loss", ["huber", lr.losses.Huber(threshold=2.0)])
def test_a_checkpoint_of_another_loss_is_refused(written, tmp_path, loss):
    problem = lr.distributed.from_partitions(written)
    lr.solve(problem, 3, "rcg", max_iter=2, stop=lr.stopping.Iterations(2), checkpoint=tmp_path / "c", checkpoint_every=0)
    with pytest.raises(FileError, match="another problem"):
        lr.solve(lr.distributed.from_partitions(written, loss=loss), 3, "rcg", checkpoint=tmp_path / "c")
    assert lr.solve(lr.distributed.from_partitions(written), 3, "rcg", checkpoint=tmp_path / "c").converged


def test_the_robust_loss_is_refused(written, tmp_path):
    with pytest.raises(lr.ParameterError, match="huber") as caught:
        lr.distributed.from_partitions(written, loss="robust")
    assert caught.value.name == "loss"
    (tmp_path / "r.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(lr.ParameterError, match="huber"):
        lr.distributed.from_csv(tmp_path / "r.csv", "a", "b", "c", loss="robust")


def test_a_path_that_is_not_a_folder_of_partitions(tmp_path):
    with pytest.raises(FileError, match="not a folder"):
        lr.distributed.from_partitions(tmp_path / "nothing")
    with pytest.raises(FileError, match=r"no manifest\.json"):
        lr.distributed.from_partitions(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a folder that cannot be written")
def test_a_folder_that_cannot_be_written(tmp_path):
    problem, _ = problem_of()
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(FileError, match="cannot be written"):
        lr.distributed.save_partitions(problem, tmp_path / "locked" / "p")
