"""Folders of partitions: what is written is read again, bit by bit, and what is damaged is refused by name."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import lorank as lr
from lorank.distributed.blocks import block_arrays, row_edges
from lorank.distributed.folder import MANIFEST, open_folder
from lorank.io.archive import FileError


def problem_of(weights=False, seed=0, **options):
    problem, truth = lr.datasets.random_completion(60, 45, 3, oversampling=4, seed=seed, **options)
    if not weights:
        return problem, truth
    w = np.random.default_rng(seed).uniform(0.5, 2, problem.m)
    return lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, weights=w), truth


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("options", [{}, {"dtype": np.float32}, {"dtype": np.complex128}])
def test_what_is_written_is_read_again(tmp_path, weights, options):
    problem, _ = problem_of(weights, **options)
    lr.distributed.save_partitions(problem, tmp_path / "p", partitions=4)
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


def test_nothing_is_pickled_and_nothing_is_left_behind(tmp_path):
    problem, _ = problem_of()
    lr.distributed.save_partitions(problem, tmp_path / "p", partitions=3)
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


@pytest.mark.parametrize("partitions", [1, 2, 5, 9])
def test_rows_are_cut_evenly_and_no_block_is_empty(partitions):
    rng = np.random.default_rng(partitions)
    for counts in (rng.integers(0, 9, 50), np.r_[1000, np.ones(8, int)], np.r_[np.zeros(20, int), np.ones(9, int)]):
        edges = row_edges(counts, partitions)
        assert edges[0] == 0
        assert edges[-1] == len(counts)
        sums = np.add.reduceat(counts, edges[:-1])
        assert (np.diff(edges) > 0).all()
        assert (sums > 0).all()
        assert sums.max() <= counts.sum() / partitions + counts.max()


def test_more_partitions_than_rows_are_refused(tmp_path):
    problem, _ = problem_of()
    with pytest.raises(ValueError, match="partitions=61"):
        lr.distributed.save_partitions(problem, tmp_path / "p", partitions=61)
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_not_overwritten(tmp_path):
    problem, _ = problem_of()
    lr.distributed.save_partitions(problem, tmp_path / "p")
    with pytest.raises(FileError, match="not empty"):
        lr.distributed.save_partitions(problem, tmp_path / "p")


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
    return "00001.*damaged"


def damage_json(folder):
    (folder / MANIFEST).write_text("{")
    return "manifest.json"


def damage_version(folder):
    found = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**found, "version": 99}))
    return "later format"


def damage_gap(folder):
    found = json.loads((folder / MANIFEST).read_text())
    del found["parts"][1]
    (folder / MANIFEST).write_text(json.dumps(found))
    return "begins at row"


def damage_name(folder):
    found = json.loads((folder / MANIFEST).read_text())
    found["parts"][1]["name"] = "../elsewhere"
    (folder / MANIFEST).write_text(json.dumps(found))
    return "no name of a partition"


def damage_empty(folder):
    found = json.loads((folder / MANIFEST).read_text())
    found["parts"][1]["m"] = 0
    (folder / MANIFEST).write_text(json.dumps(found))
    return "empty"


DAMAGES = [damage_size, damage_missing, damage_index, damage_json, damage_version, damage_gap, damage_name, damage_empty]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(tmp_path, damage):
    problem, _ = problem_of()
    lr.distributed.save_partitions(problem, tmp_path / "p", partitions=3)
    named = damage(tmp_path / "p")
    with pytest.raises(ValueError, match=named):
        lr.distributed.from_partitions(tmp_path / "p")


def test_a_changed_byte_is_found_by_its_checksum(tmp_path):
    problem, _ = problem_of()
    lr.distributed.save_partitions(problem, tmp_path / "p", partitions=3)
    file = tmp_path / "p" / "00002" / "values.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(FileError, match=r"00002.values\.npy"):
        open_folder(tmp_path / "p").verify()


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(FileError, match="is no folder"):
        lr.distributed.from_partitions(tmp_path / "nothing")
    with pytest.raises(FileError, match=r"no manifest\.json"):
        lr.distributed.from_partitions(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a folder that cannot be written")
def test_a_folder_that_cannot_be_written(tmp_path):
    problem, _ = problem_of()
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(FileError, match="cannot be written"):
        lr.distributed.save_partitions(problem, tmp_path / "locked" / "p")
