"""MovieLens ratings, read from a folder or downloaded from their publisher.

Their license does not permit redistribution (https://grouplens.org/datasets/movielens/), so lorank does not include them.
"""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..common.checks import ParameterError

Size = Literal["100k", "1m"]
FOLDER = "LORANK_DATA"  # environment variable: the folder with the files
SOURCE = "https://files.grouplens.org/datasets/movielens/"


@dataclass(frozen=True)
class _Edition:
    """A data set: archive, file of ratings in it, separator of the columns, and checksum of the archive."""

    archive: str
    ratings: str
    separator: str
    sha256: str  # of the publisher's archive; not checked for files in a folder


EDITIONS = {
    "100k": _Edition("ml-100k.zip", "ml-100k/u.data", "\t", "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229"),
    "1m": _Edition("ml-1m.zip", "ml-1m/ratings.dat", "::", "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"),
}


@dataclass(frozen=True)
class MovieLens:
    """Ratings of movies by users: user ``rows[k]`` gave movie ``cols[k]`` the rating ``ratings[k]``.

    Attributes
    ----------
    rows, cols : (m,) integer arrays
        Users and rated movies, numbered from 0 without gaps.
    ratings : (m,) float array
        From 1 to 5.
    users, movies : integer arrays
        The publisher's ids: row i is user ``users[i]``, column j movie ``movies[j]``.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> data = lr.datasets.MovieLens(np.array([0, 1]), np.array([0, 0]), np.array([4.0, 5.0]), np.array([7, 9]), np.array([50]))
    >>> data.shape
    (2, 1)
    """

    rows: np.ndarray
    cols: np.ndarray
    ratings: np.ndarray
    users: np.ndarray
    movies: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Users and rated movies."""
        return len(self.users), len(self.movies)

    def __repr__(self) -> str:
        n1, n2 = self.shape
        return f"MovieLens({len(self.ratings):,} ratings of {n2:,} movies by {n1:,} users)"


def load_movielens(size: Size = "1m") -> MovieLens:
    """Load the MovieLens ratings.

    The files are read from the folder named by the environment variable ``LORANK_DATA`` (``ml-1m.zip`` or ``ml-100k.zip``, or
    either unpacked). If it is not set, they are downloaded once with pooch and cached.

    Parameters
    ----------
    size : {"100k", "1m"}
        100 000 or one million ratings; by default one million.

    Returns
    -------
    MovieLens

    Raises
    ------
    ValueError
        If the size is unknown, or a file is not a MovieLens file.
    FileNotFoundError
        If ``LORANK_DATA`` is set and the folder has no such file.
    ImportError
        If the data must be downloaded and pooch is not installed.

    Examples
    --------
    >>> import lorank as lr
    >>> data = lr.datasets.load_movielens("100k")  # doctest: +SKIP
    """
    if size not in EDITIONS:
        raise ParameterError("size", f"must be one of {', '.join(map(repr, EDITIONS))}, got {size!r}")
    edition = EDITIONS[size]
    folder = os.environ.get(FOLDER)
    content = _from_folder(Path(folder), edition) if folder else _from_archive(_download(edition), edition)
    return _parse(content, edition)


def _from_folder(folder: Path, edition: _Edition) -> bytes:
    for unpacked in (folder / edition.ratings, folder / Path(edition.ratings).name):
        if unpacked.is_file():
            return unpacked.read_bytes()
    archive = folder / edition.archive
    if not archive.is_file():
        raise FileNotFoundError(
            f"{folder} ({FOLDER}) has no file {edition.archive}: download it from {SOURCE}{edition.archive}, or unset {FOLDER} "
            "for an automatic download"
        )
    return _from_archive(archive, edition)


def _from_archive(path: Path, edition: _Edition) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(edition.ratings)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"{path} is not the MovieLens archive with {edition.ratings}: {error}") from None


def _download(edition: _Edition) -> Path:
    try:
        import pooch  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            f'downloading MovieLens needs pooch: pip install "lorank[cli]"; or set {FOLDER} to a folder with {edition.archive}'
        ) from None
    try:
        return Path(
            pooch.retrieve(
                SOURCE + edition.archive,
                known_hash=f"sha256:{edition.sha256}",
                fname=edition.archive,
                path=pooch.os_cache("lorank"),
            )
        )
    except Exception as error:  # network libraries raise many types
        raise OSError(
            f"cannot download {SOURCE}{edition.archive} ({type(error).__name__}): get the file by other means and set {FOLDER} "
            "to its folder"
        ) from error


def _parse(content: bytes, edition: _Edition) -> MovieLens:
    """Parse the columns user, movie and rating."""
    text = content.decode("latin-1").replace(edition.separator, " ")
    try:
        table: Any = np.loadtxt(io.StringIO(text), dtype=np.int64, usecols=(0, 1, 2), ndmin=2)
    except ValueError as error:
        raise ValueError(f"{edition.ratings} does not contain columns of integers: {error}") from None
    if not len(table):
        raise ValueError(f"{edition.ratings} contains no ratings")
    users, rows = np.unique(table[:, 0], return_inverse=True)
    movies, cols = np.unique(table[:, 1], return_inverse=True)
    return MovieLens(rows, cols, table[:, 2].astype(np.float64), users, movies)
