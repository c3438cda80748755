"""Tables too large to hold, written some rows at a time: one CSV file, or a folder of Parquet files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from ..io.archive import FileError
from ..io.delimited_text import polars


class BlockWriter:
    """Writes a table block by block; used as a context, and there as a whole or not at all.

    Parameters
    ----------
    path : path
        ``.csv`` or ``.tsv``: one file. ``.parquet``: a folder of files ``part-00000.parquet``, as Spark and Dask write it; it
        must not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if self.path.is_dir() or (self.path.exists() and self.path.suffix.lower() == ".parquet"):
            raise FileError(f"{path} exists: delete it, or choose another name")
        self.work = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        self.count = 0

    def __enter__(self) -> BlockWriter:
        self._remove()
        try:
            if self.path.suffix.lower() == ".parquet":
                self.work.mkdir()
            else:
                self.work.touch()
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}") from error
        return self

    def add(self, columns: dict[str, Any]) -> None:
        """The next rows."""
        frame = polars().DataFrame(columns)
        if self.path.suffix.lower() == ".parquet":
            frame.write_parquet(self.work / f"part-{self.count:05d}.parquet")
        else:
            with open(self.work, "ab") as file:
                separator = "\t" if self.path.suffix.lower() == ".tsv" else ","
                frame.write_csv(file, include_header=not self.count, separator=separator)
        self.count += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                os.replace(self.work, self.path)
        except OSError as problem:
            raise FileError(f"{self.path} cannot be written: {problem.strerror or problem}") from problem
        finally:
            self._remove()

    def _remove(self) -> None:
        if self.work.is_dir():
            shutil.rmtree(self.work, ignore_errors=True)
        self.work.unlink(missing_ok=True)
