"""The MovieLens loader, on synthetic archives: no test needs the data or a network."""

from __future__ import annotations

import importlib
import os
import zipfile

import numpy as np
import pytest

from lorank.datasets import load_movielens

loader = importlib.import_module("lorank.datasets.movielens")

RATINGS = "7::30::5::978300760\n7::10::3::978302109\n2::30::1::0\n9::99::4::0\n"


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch):
    monkeypatch.delenv("LORANK_DATA", raising=False)


def archive(path, name="ml-1m/ratings.dat", content=RATINGS):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, content)
    return path


def check(data):
    assert data.shape == (3, 3)
    assert data.users.tolist() == [2, 7, 9]
    assert data.movies.tolist() == [10, 30, 99]
    assert data.rows.tolist() == [1, 1, 0, 2]
    assert data.cols.tolist() == [1, 0, 1, 2]
    assert data.ratings.dtype == np.float64
    assert data.ratings.tolist() == [5, 3, 1, 4]
    assert repr(data) == "MovieLens(4 ratings of 3 movies by 3 users)"


def test_from_an_archive_in_the_folder(tmp_path, monkeypatch):
    archive(tmp_path / "ml-1m.zip")
    monkeypatch.setenv("LORANK_DATA", str(tmp_path))
    check(load_movielens("1m"))


@pytest.mark.parametrize("where", ["ml-1m/ratings.dat", "ratings.dat"])
def test_from_unpacked_files(where, tmp_path, monkeypatch):
    path = tmp_path / where
    path.parent.mkdir(exist_ok=True)
    path.write_text(RATINGS)
    monkeypatch.setenv("LORANK_DATA", str(tmp_path))
    check(load_movielens("1m"))


def test_the_smaller_one_has_tabs(tmp_path, monkeypatch):
    archive(tmp_path / "ml-100k.zip", "ml-100k/u.data", RATINGS.replace("::", "\t"))
    monkeypatch.setenv("LORANK_DATA", str(tmp_path))
    check(load_movielens("100k"))


def test_a_folder_without_it(tmp_path, monkeypatch):
    monkeypatch.setenv("LORANK_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"ml-1m\.zip.*LORANK_DATA"):
        load_movielens()


@pytest.mark.parametrize(("name", "content"), [("else.dat", RATINGS), ("ml-1m/ratings.dat", "a::b\n")])
def test_a_file_that_is_something_else(name, content, tmp_path, monkeypatch):
    archive(tmp_path / "ml-1m.zip", name, content)
    monkeypatch.setenv("LORANK_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"ratings\.dat"):
        load_movielens()


def test_no_archive_at_all(tmp_path, monkeypatch):
    (tmp_path / "ml-1m.zip").write_bytes(b"not a zip")
    monkeypatch.setenv("LORANK_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"ml-1m\.zip"):
        load_movielens()


def test_an_unknown_size():
    with pytest.raises(ValueError, match="size must be one of '100k', '1m', got '20m'"):
        load_movielens("20m")


def test_downloads_from_the_publisher_with_its_checksum(tmp_path, monkeypatch):
    pooch = pytest.importorskip("pooch")
    asked = {}

    def retrieve(url, known_hash, fname, path):
        asked.update(url=url, known_hash=known_hash)
        return str(archive(tmp_path / fname))

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    check(load_movielens("1m"))
    assert asked["url"] == "https://files.grouplens.org/datasets/movielens/ml-1m.zip"
    assert asked["known_hash"] == "sha256:a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"


def test_offline_it_says_what_to_do(monkeypatch):
    pooch = pytest.importorskip("pooch")

    def fail(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(pooch, "retrieve", fail)
    with pytest.raises(OSError, match=r"ml-1m\.zip.*ConnectionError.*LORANK_DATA"):
        load_movielens()


@pytest.mark.needs("movielens")
def test_the_data_here(monkeypatch):
    monkeypatch.setenv("LORANK_DATA", os.environ["LORANK_TEST_DATA"])
    data = load_movielens("1m")
    assert (data.shape, len(data.ratings)) == ((6040, 3706), 1_000_209)
