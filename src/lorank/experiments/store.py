"""Storage of runs: a file of JSON lines, one a run, written when the run ends."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

# The order of parameters in keys and tables; others follow alphabetically.
PARAMETERS = ("n1", "n2", "rank", "oversampling", "m", "noise", "field")
SCHEMA = 1

Record = dict[str, Any]


def key(kind: str, params: Mapping[str, Any], method: str, seed: int | None = None) -> str:
    """The identifier of a run within its experiment's file."""
    return json.dumps(_plain([kind, {name: params[name] for name in ordered(params)}, method, seed]))


def ordered(names: Iterable[str]) -> list[str]:
    """Distinct parameters in the order of keys and tables."""
    found = set(names)
    return [*(name for name in PARAMETERS if name in found), *sorted(found - set(PARAMETERS))]


class Store:
    """The finished runs of one experiment at one scale. A context manager that holds the file open and locked."""

    def __init__(self, path: Path, experiment: str, scale: str) -> None:
        self.path, self.experiment, self.scale = path, experiment, scale
        self.records: dict[str, Record] = {}

    def __enter__(self) -> Store:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "a+b")
        try:
            _lock(self._file, self.path)
            good = _drop_torn_line(self._file)
            if good:
                header, records = read(self.path)
                check_header(self.path, header, self.scale)
                self.records = {record["key"]: record for record in records}
            else:
                self._write({"schema": SCHEMA, "experiment": self.experiment, "scale": self.scale})
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def get(self, kind: str, params: Mapping[str, Any], method: str, seed: int | None = None) -> Record | None:
        """The record of a run, or None."""
        return self.records.get(key(kind, params, method, seed))

    def add(self, kind: str, params: Mapping[str, Any], method: str, seed: int | None, values: Mapping[str, Any]) -> Record:
        """Store a finished run; it is on disk when this returns."""
        name = key(kind, params, method, seed)
        record = {"key": name, "kind": kind, "method": method, "params": dict(params), "seed": seed, **values}
        self._write(record)
        self.records[name] = record
        return record

    def _write(self, record: Record) -> None:
        line = json.dumps(_plain(record), allow_nan=False) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())


def _plain(value: Any) -> Any:
    """A value for JSON: NumPy scalars as Python numbers, nan and inf as None."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lock(file: Any, path: Path) -> None:
    """Lock the file against other processes, on systems that support it."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ValueError(f"{path} is in use by another process") from None


def _drop_torn_line(file: Any) -> int:
    """Remove an unfinished last line of a killed process. Returns the number of remaining bytes."""
    file.seek(0)
    content = file.read()
    good = content.rfind(b"\n") + 1
    if good < len(content):
        file.truncate(good)
        file.seek(0, os.SEEK_END)
    return good


def read(path: Path) -> tuple[Record, list[Record]]:
    """The header and the records of a file; an unfinished last line is ignored."""
    lines = path.read_bytes().split(b"\n")[:-1]
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except ValueError:
            raise ValueError(f"{path}, line {number}, is damaged: remove the line to repeat its run") from None
    if not found or "schema" not in found[0]:
        raise ValueError(f"{path} is not a file of runs: remove it, or choose another --out")
    return found[0], found[1:]


def check_header(path: Path, header: Record, scale: str | None) -> None:
    """Raise a ValueError for a file of another format version or of another scale."""
    if header["schema"] != SCHEMA:
        raise ValueError(
            f"{path} was written by another version of lorank (format {header['schema']}, this one reads {SCHEMA}): "
            "choose another --out"
        )
    if scale is not None and header["scale"] != scale:
        raise ValueError(f"{path} holds runs at --scale {header['scale']}, not {scale}: choose another --out")
