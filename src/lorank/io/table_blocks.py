"""Tables with gaps, block after block: files larger than memory are read, filled and written a few rows at a time."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .archive import FileError, atomic
from .delimited_text import Part, head, polars, read_cells, without_empty_lines
from .format_hints import DECIMAL_COMMA, check_is_local
from .missing import NOTHING, Missing
from .ragged_rows import ShortLines
from .tables import _blame
from .text_columns import parts

ROWS = 1 << 16  # of a block of a Parquet file


@dataclass(frozen=True)
class TableBlocks:
    """A table in a file whose columns were looked at once, from the first row to the last.

    Attributes
    ----------
    path : Path
    names : list of str
    kinds : dict
        ``"number"``, ``"whole"`` or ``"text"`` for each column of a text file; empty for Parquet, whose columns have types.
    rows : int
    separator : str
    named : bool
        Whether the first line holds the names.
    missing : Missing
        What else stands for a gap.
    """

    path: Path
    names: list[str]
    kinds: dict[str, str]
    rows: int
    separator: str = ","
    named: bool = True
    missing: Missing = NOTHING

    def blocks(self) -> Iterator[Any]:
        """Frames of a few rows; cells of text files are text."""
        if self.path.suffix.lower() == ".parquet":
            yield from _parquet(self.path, self.rows)
        else:
            yield from (frame for _, frame in _text(self.path, self.separator, self.names, self.named))

    def typed(self, block: Any) -> Any:
        """A block with numbers as numbers, and null in its gaps."""
        pl = polars()
        if not self.kinds:
            return self.missing.nulled(self._finite(block))
        found = []
        for name in self.names:
            cells = _stripped(block, name)
            cells = cells.set(self.missing.gaps(cells), None)
            kind = self.kinds[name]
            found.append(cells if kind == "text" else cells.cast(pl.Float64).cast(pl.Int64 if kind == "whole" else pl.Float64))
        return pl.DataFrame(dict(zip(self.names, found, strict=True)))  # a name may be empty, as pandas writes its index

    def _finite(self, block: Any) -> Any:
        """A block with null for nan; a FileError where a number is infinite."""
        for column in block.iter_columns():
            if column.dtype.is_float() and column.is_infinite().any():
                raise FileError(f"{self.path}, column {column.name!r}: holds an infinite number; leave such cells empty")
        return block.fill_nan(None)

    def sample(self, count: int, rng: np.random.Generator) -> Any:
        """That many rows, all as likely as each other and in their order; all where there are no more."""
        pl = polars()
        kept, keys, places, at = None, np.zeros(0), np.zeros(0, np.int64), 0
        for block in self.blocks():
            typed = self.typed(block)
            kept = typed if kept is None else pl.concat([kept, typed])
            keys = np.concatenate([keys, rng.random(len(block))])
            places = np.concatenate([places, np.arange(at, at + len(block))])
            at += len(block)
            if len(keys) > count:
                best = np.sort(np.argpartition(keys, count)[:count])
                kept, keys, places = kept[best.tolist()], keys[best], places[best]
        return kept

    @contextmanager
    def writing(self, path: str | Path) -> Iterator[Callable[[Any, Any], None]]:
        """A function of a block and the same filled, which writes it; the file is there as a whole or not at all.

        Cells of text that were there stay as they are, letter by letter.
        """
        path = Path(path)
        with atomic(path) as temporary:
            if path.suffix.lower() == ".parquet":
                with _parquet_writer(temporary) as write:
                    yield lambda block, filled: write(filled)
                return
            plain = path.name.lower().removesuffix(".gz")
            separator = "\t" if plain.endswith((".tsv", ".tab")) else ","
            with gzip.open(temporary, "wb") if path.suffix.lower() == ".gz" else open(temporary, "wb") as file:
                first = True

                def write_text(block: Any, filled: Any) -> None:
                    nonlocal first
                    try:
                        self._merged(block, filled).write_csv(file, separator=separator, include_header=first)
                    except polars().exceptions.ComputeError as error:  # lists and durations, say
                        said = str(error).splitlines()[0]
                        raise FileError(f"{path}: {said}; write a .parquet file instead, or leave such columns out") from None
                    first = False

                yield write_text

    def _merged(self, block: Any, filled: Any) -> Any:
        if not self.kinds:
            return filled
        pl = polars()
        columns = []
        for name in self.names:
            cells, new = _stripped(block, name), filled.get_column(name)
            gaps = self.missing.gaps(cells) & new.is_not_null()
            columns.append(block.get_column(name).zip_with(~gaps, new.cast(pl.String)))
        return pl.DataFrame(dict(zip(self.names, columns, strict=True)))


def open_table(path: str | Path, missing: Missing = NOTHING) -> TableBlocks:
    """Look at a table from its first row to its last: which columns hold numbers, and how many rows there are.

    Parameters
    ----------
    path : path
        CSV, TSV (also compressed, .gz) or Parquet.
    missing : Missing
        What stands for a gap beside what always does.
    """
    path = Path(path)
    pl = polars()
    check_is_local(path)
    if not path.exists():
        raise FileError(f"{path} does not exist")
    if path.suffix.lower() == ".parquet":
        try:
            lazy = pl.scan_parquet(path, glob=False)
            names, rows = lazy.collect_schema().names(), int(lazy.select(pl.len()).collect().item())
        except (pl.exceptions.PanicException, Exception) as error:
            raise FileError(f"{path} is no Parquet file, or a damaged one: {str(error).splitlines()[0]}") from None
        _some(path, rows)
        return TableBlocks(path, names, {}, rows, missing=missing)
    separator, names, named, _ = head(path)
    kinds, rows = dict.fromkeys(names, "whole"), 0
    numbers, others, commas = (dict.fromkeys(names, 0) for _ in range(3))
    short = ShortLines(path, separator, len(names))
    for part, block in _text(path, separator, names, named):
        short.add(part, block, named and not rows)
        rows += len(block)
        for name in names:
            cells = _stripped(block, name)
            there = ~missing.gaps(cells)
            value = cells.cast(pl.Float64, strict=False)
            good = there & value.is_finite().fill_null(False)
            numbers[name] += int(good.sum())
            others[name] += int(there.sum()) - int(good.sum())
            commas[name] += int((there & cells.str.contains(DECIMAL_COMMA)).sum())
            if kinds[name] == "whole" and not cells.filter(good).str.contains(r"^[+-]?\d{1,15}$").all():
                kinds[name] = "number"
    for name in names:
        if others[name] and (numbers[name] > others[name] or commas[name] == others[name]):
            _blame(path, separator, names, named, name)
        elif others[name]:
            kinds[name] = "text"
        elif not numbers[name]:
            kinds[name] = "number"
    _some(path, rows)
    short.warn()
    return TableBlocks(path, names, kinds, rows, separator, named, missing)


def _some(path: Path, rows: int) -> None:
    if not rows:
        raise FileError(f"{path} has no rows")


def _stripped(block: Any, name: str) -> Any:
    return block.get_column(name).fill_null("").str.strip_chars()


def _text(path: Path, separator: str, names: list[str], named: bool) -> Iterator[tuple[Part, Any]]:
    """One part of the file after the other, with a frame of its cells."""
    for part in parts(path, separator):
        whole = without_empty_lines(part.text, separator) if len(names) > 1 else part.text
        if not whole:
            continue
        frame = read_cells(whole, path, separator, names, named and part.first)
        if len(frame):
            yield part, frame


def _parquet(path: Path, rows: int) -> Iterator[Any]:
    lazy = polars().scan_parquet(path, glob=False)
    for at in range(0, rows, ROWS):
        yield lazy.slice(at, ROWS).collect()


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Callable[[Any], None]]:
    """Blocks go to files of their own, beside where the whole will be; then these are joined, again block by block."""
    pl = polars()
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".parts-") as folder:
        parts: list[Path] = []

        def write(frame: Any) -> None:
            parts.append(Path(folder) / f"{len(parts):08d}.parquet")
            frame.write_parquet(parts[-1])

        yield write
        pl.scan_parquet(parts, glob=False).sink_parquet(path)
