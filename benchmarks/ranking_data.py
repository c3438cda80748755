"""Public ratings and implicit feedback for benchmarks/ranking.py.

Nothing is stored here. The folder LORANK_RANKING has the files below, or the compressed copies that ``python
benchmarks/ranking_data.py FOLDER`` writes.

| file | from |
|---|---|
| ml-100k.zip, ml-1m.zip | files.grouplens.org/datasets/movielens |
| filmtrust.txt | github.com/Coder-Yu/QRec, dataset/FilmTrust/ratings.txt |
| lastfm.txt (play counts, HetRec 2011) | the same, dataset/lastfm/ratings.txt |
| Toys_and_Games.txt, Beauty.txt (Amazon, five reviews and more, in order of time) | github.com/RUCAIBox/CIKM2020-S3Rec, data |
| Video.txt (Amazon, in order of time) | github.com/kang205/SASRec, data |
| movietweetings.dat | github.com/sidooms/MovieTweetings, snapshots/100K/ratings.dat |
| citeulike-a.dat | github.com/js05212/citeulike-a, users.dat |
| anonymous-msweb.data | archive.ics.uci.edu/dataset/4 |
| Jester5k.rda (read with the package rdata) | github.com/mhahsler/recommenderlab, data |

The defaults of lorank were settled on ``TUNING`` sets with seeds from 100 on; the sets of ``TEST`` were drawn once they stood.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Interactions:
    """Pairs of user and item, numbered from 0, with ratings or counts and times where there are any."""

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray | None = None
    times: np.ndarray | None = None

    def where(self, flags: np.ndarray) -> Interactions:
        """Some of the pairs, numbered anew."""
        users, items = (np.unique(a[flags], return_inverse=True)[1] for a in (self.users, self.items))
        return Interactions(users, items, *(None if a is None else a[flags] for a in (self.values, self.times)))


def folder() -> Path:
    return Path(os.environ.get("LORANK_RANKING", "."))


def _columns(file: object, separator: str, n: int) -> Interactions:
    """Users, items, values and times in the columns of a text file."""
    text = file.read().decode("latin1") if hasattr(file, "read") else (folder() / str(file)).read_text(encoding="latin1")
    table = np.loadtxt(io.StringIO(text.replace(separator, " ")), usecols=range(n), ndmin=2).T
    return Interactions(table[0].astype(int), table[1].astype(int), *table[2:])


def _zipped(archive: str, name: str, separator: str) -> Interactions:
    with zipfile.ZipFile(folder() / archive) as file, file.open(name) as ratings:
        return _columns(ratings, separator, 4)


def _baskets(name: str, first: int, ordered: bool) -> Interactions:
    """A user in each line, with the items from a column on."""
    lines = [line.split()[first:] for line in (folder() / name).read_text().splitlines()]
    users = np.repeat(np.arange(len(lines)), [len(one) for one in lines])
    items = np.concatenate([np.array(one, int) for one in lines])
    return Interactions(users, items, None, np.arange(len(items)) if ordered else None)


def _ordered(name: str) -> Interactions:
    found = _columns(name, " ", 2)
    return Interactions(found.users, found.items, None, np.arange(len(found.users)))


def _msweb() -> Interactions:
    pairs, user = [], -1
    for line in (folder() / "anonymous-msweb.data").read_text(encoding="latin1").splitlines():
        if line.startswith("C,"):
            user += 1
        elif line.startswith("V,"):
            pairs.append((user, int(line.split(",")[1])))
    return Interactions(*np.array(pairs).T)


def _jester() -> Interactions:
    import rdata

    data = rdata.read_rda(folder() / "Jester5k.rda")["Jester5k"].data
    return Interactions(np.asarray(data.i, int), np.repeat(np.arange(len(data.p) - 1), np.diff(data.p)), np.asarray(data.x))


READERS = {
    "ml-100k": lambda: _zipped("ml-100k.zip", "ml-100k/u.data", "\t"),
    "ml-1m": lambda: _zipped("ml-1m.zip", "ml-1m/ratings.dat", "::"),
    "filmtrust": lambda: _columns("filmtrust.txt", " ", 3),
    "toys": lambda: _baskets("Toys_and_Games.txt", 1, ordered=True),
    "msweb": _msweb,
    "lastfm": lambda: _columns("lastfm.txt", "\t", 3),
    "citeulike-a": lambda: _baskets("citeulike-a.dat", 0, ordered=False),
    "beauty": lambda: _baskets("Beauty.txt", 1, ordered=True),
    "video": lambda: _ordered("Video.txt"),
    "movietweetings": lambda: _columns("movietweetings.dat", "::", 4),
    "jester": _jester,
}
POSITIVE = {"ml-100k": 4, "ml-1m": 4, "filmtrust": 3, "movietweetings": 8, "jester": 5}  # ratings from here on are positives
TUNING = ("ml-100k", "filmtrust", "ml-1m", "toys")
TEST = ("msweb", "lastfm", "citeulike-a", "beauty", "video", "movietweetings")


def load(name: str) -> Interactions:
    """A data set by its name."""
    packed = folder() / f"{name}.npz"
    if not packed.is_file():
        found = READERS[name]()
        return found.where(np.ones(len(found.users), bool))
    with np.load(packed) as file:
        kinds = {"users": np.int64, "items": np.int64, "values": np.float64, "times": np.float64}
        return Interactions(*(file[one].astype(kind) if one in file else None for one, kind in kinds.items()))


def positives(name: str) -> Interactions:
    """Its positives, numbered anew: of ratings, those from a threshold on."""
    found = load(name)
    return found.where(found.values >= POSITIVE[name]) if name in POSITIVE else found


def made_ratings(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs and ratings of 1,000 users and 400 items: of rank 4, 15 % of them observed at random."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1000, 4)) @ rng.standard_normal((4, 400)) + rng.standard_normal(400)
    pairs = np.argwhere(rng.random(X.shape) < 0.15)
    return pairs, X[tuple(pairs.T)] + 0.5 * rng.standard_normal(len(pairs))


def pack(name: str, target: Path) -> None:
    """Write a compressed copy."""
    found = load(name)
    order = np.lexsort((found.items, found.users))
    arrays = {"users": found.users, "items": found.items, "values": found.values, "times": found.times}
    if found.times is not None:  # their order is enough
        arrays["times"] = np.unique(found.times, return_inverse=True)[1]
    small = {k: a[order] for k, a in arrays.items() if a is not None}
    narrow = {
        k: a.astype(np.float32 if k == "values" else np.int32 if a.max() > 65535 else np.uint16) for k, a in small.items()
    }
    np.savez_compressed(target / f"{name}.npz", **narrow)


if __name__ == "__main__":
    for one in READERS:
        pack(one, Path(sys.argv[1]))
        print(one, load(one).users.max() + 1, load(one).items.max() + 1, len(load(one).users))
