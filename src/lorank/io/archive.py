"""Model files: arrays and JSON in one archive, without pickle.

A file is an uncompressed ZIP archive of ``meta.json``, one ``.npy`` for each array, and ``SHA256SUMS`` of all of them. Reading
a file runs no code: arrays are read with ``allow_pickle=False``.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import io
import json
import math
import os
import platform
import re
import secrets
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.checks import PATH, check

FORMAT, VERSION = "lorank", 2
ESTIMATORS = ("lorank.estimators", "lorank.tables")  # modules that register formats of files
META, SUMS = "meta.json", "SHA256SUMS"


class FileError(ValueError):
    """A file that cannot be read or written."""


def reason_of(error: OSError) -> str:
    """Why a file cannot be written. NumPy reports the numbers of a partial write alone, as on a full disk."""
    return error.strerror or f"the disk may be full: {error}"


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str], *, folder: bool = False) -> Iterator[Path]:
    """Write a file completely or not at all: yields a temporary path that replaces ``path`` at the end.

    The temporary file has a random name in the same folder and is created exclusively, so that concurrent writers never share
    it and a planted symbolic link is not followed. File and folder are synchronized to disk. An existing file keeps its mode;
    if ``path`` is a symbolic link, the file that it points to is replaced. Temporary files of killed processes are removed.

    Parameters
    ----------
    path : path
    folder : bool, default False
        Yield an empty temporary folder instead of a file; ``path`` must not exist.

    Raises
    ------
    FileError
        If the path cannot be written.
    """
    path = Path(path)
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    temporary = temporary_path(target)
    try:
        if folder:
            temporary.mkdir(parents=True)
        else:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        for one in sorted(temporary.rglob("*")) if folder else [temporary]:
            _synchronize(one)
        if not folder and target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
        _synchronize(target.absolute().parent)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {reason_of(error)}") from error
    except Exception as error:
        if "os error" in str(error) and type(error).__module__.partition(".")[0] == "polars":  # which reports a full disk so
            raise FileError(f"{path} cannot be written: {error}") from error
        raise
    finally:
        _remove(temporary)


_PROCESS = hashlib.sha256(platform.node().encode()).hexdigest()[:8]  # of this machine: process numbers of others mean nothing


def temporary_path(target: Path) -> Path:
    """A new name in the same folder; temporary files of the target that killed processes of this machine left are removed."""
    with contextlib.suppress(OSError):  # a folder that does not exist, or cannot be listed
        _remove_leftovers(target)
    return target.with_name(f".{target.name}.{_PROCESS}-{os.getpid()}-{secrets.token_hex(8)}.tmp")


def _remove_leftovers(target: Path) -> None:
    pattern = re.compile(rf"\.{re.escape(target.name)}\.{_PROCESS}-(\d+)-[0-9a-f]{{16}}\.tmp\w*")
    with os.scandir(target.absolute().parent) as entries:
        found = [(entry.path, pattern.fullmatch(entry.name)) for entry in entries]
    for name, match in found:
        if match is not None and not _is_running(int(match[1])):
            _remove(Path(name))


def _is_running(process: int) -> bool:
    if os.name == "nt":  # where os.kill cannot ask
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _synchronize(path: Path) -> None:
    """Flush a file or folder to disk, where the system can."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):  # file systems without synchronization
            raise
    finally:
        os.close(handle)


def write_archive(path: str | os.PathLike[str], kind: str, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Path:
    """Write arrays and metadata to a file, completely or not at all.

    Parameters
    ----------
    path : path
    kind : str
        Content of the file, such as ``"model"``.
    meta : mapping
        Values that JSON can represent.
    arrays : mapping from names to arrays of numbers
    """
    from ..common.version import __version__

    path = Path(path)
    members: dict[str, bytes] = {}
    header = {"format": FORMAT, "version": VERSION, "kind": kind, "lorank": __version__, "meta": dict(meta)}
    members[META] = json.dumps(header, indent=1, allow_nan=True).encode()
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in members.items())
    with atomic(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.writestr(zipfile.ZipInfo(SUMS), sums)
    return path


def read_archive(path: str | os.PathLike[str], kind: str | None = None) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Read a file of :func:`write_archive`: kind, metadata and arrays.

    Raises
    ------
    FileError
        If the file is missing, of another format, truncated, changed, of a later version or of another kind.
    """
    path = Path(path)
    try:
        members = _members(path)
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from None
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        NotImplementedError,
        RuntimeError,
        EOFError,
        KeyError,
        ValueError,
    ) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} is not a lorank file, or truncated ({error}): write it again") from None
    header = _header(path, members)
    if kind is not None and header["kind"] != kind:
        raise FileError(f"{path} holds a {header['kind']} instead of a {kind}")
    arrays: dict[str, np.ndarray] = {}
    for name, content in members.items():
        if name.endswith(".npy"):
            try:
                arrays[name[:-4]] = _read_array(content)
            except (ValueError, EOFError, OSError, SyntaxError, TypeError, MemoryError, OverflowError) as error:
                raise FileError(f"{path} is damaged: {name} is not an array of numbers ({error})") from None
    return header["kind"], header["meta"], arrays


def _read_array(content: bytes) -> np.ndarray:
    """The array of an ``.npy`` file; a ValueError if its size is not that of its header (arrays of empty items have any)."""
    stream, formats = io.BytesIO(content), np.lib.format
    first = formats.read_magic(stream) == (1, 0)
    shape, _, dtype = (formats.read_array_header_1_0 if first else formats.read_array_header_2_0)(stream)
    count = math.prod(int(n) for n in shape)  # as Python integers, which do not overflow
    if dtype.kind not in "biufcmMSU" or count * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("its size differs from that of its header")
    if count and not dtype.itemsize:
        raise ValueError("its items are empty")
    return np.asarray(formats.read_array(io.BytesIO(content), allow_pickle=False))


def written_by(path: str | os.PathLike[str]) -> str:
    """Version of lorank that wrote a file."""
    with zipfile.ZipFile(path) as archive:
        return str(json.loads(archive.read(META)).get("lorank"))


def _members(path: Path) -> dict[str, bytes]:
    """Members of the archive, checked against their sums."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        total = path.stat().st_size
        if any(info.compress_type != zipfile.ZIP_STORED or info.file_size > total for info in infos):
            raise FileError(f"{path} is not a lorank file: its parts are compressed or too large")
        names = [info.filename for info in infos]
        if META not in names or SUMS not in names or len(set(names)) != len(names):
            raise FileError(f"{path} is not a lorank file: {META} or {SUMS} is missing")
        members = {name: archive.read(name) for name in names}
    sums = dict(line.split("  ", 1)[::-1] for line in members.pop(SUMS).decode("ascii", "replace").splitlines() if "  " in line)
    if set(sums) != set(members):
        raise FileError(f"{path} is damaged: parts are missing or have been added")
    for name, content in members.items():
        if hashlib.sha256(content).hexdigest() != sums[name]:
            raise FileError(f"{path} is damaged: {name} has changed since it was written")
    return members


def _header(path: Path, members: dict[str, bytes]) -> dict[str, Any]:
    try:
        header = json.loads(members[META])
    except (ValueError, RecursionError):
        raise FileError(f"{path} is damaged: {META} is not JSON") from None
    version = header.get("version") if isinstance(header, dict) and header.get("format") == FORMAT else None
    if type(version) is not int or version < 1:
        raise FileError(f"{path} is not a lorank file")
    if version > VERSION:
        raise FileError(f"{path} was written by lorank {header.get('lorank')}, in a later format: update lorank to read it")
    if version < VERSION:
        raise FileError(f"{path} was written by lorank {header.get('lorank')}, in an earlier format: write it again")
    if not isinstance(header.get("kind"), str) or not isinstance(header.get("meta"), dict):
        raise FileError(f"{path} is damaged: {META} is incomplete")
    return header


class ModelFormat(NamedTuple):
    """Conversion of the estimators of a class to metadata and arrays, and back."""

    write: Callable[[Any], tuple[dict[str, Any], dict[str, np.ndarray]]]
    read: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]


_formats: dict[str, ModelFormat] = {}


def register_model(
    name: str,
    write: Callable[[Any], tuple[dict[str, Any], dict[str, np.ndarray]]],
    read: Callable[[dict[str, Any], dict[str, np.ndarray]], Any],
) -> None:
    """Register a class of estimators for :func:`save_model` and :func:`load_model`.

    Parameters
    ----------
    name : str
        Name of the class.
    write : callable
        From a fitted estimator to metadata for JSON and arrays.
    read : callable
        From metadata and arrays to a fitted estimator.
    """
    _formats[name] = ModelFormat(write, read)


def save_model(estimator: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator of a registered class."""
    name = next(one.__name__ for one in type(estimator).__mro__ if one.__name__ in _formats)
    meta, arrays = _formats[name].write(estimator)
    return write_archive(path, "model", {"class": name} | meta, arrays)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator, or a result of :func:`~lorank.solve`.

    Parameters
    ----------
    path : path
        That the method ``save`` of an estimator or of a :class:`~lorank.Result` wrote.

    Returns
    -------
    MatrixCompletion, ImplicitFactorization, EASE, TableImputer or Result

    Raises
    ------
    FileError
        A ValueError, if the file is missing, truncated or changed, or is not a model.
    ImportError
        If the file has an estimator, and scikit-learn is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import lorank as lr
    >>> pairs, values = [[0, 0], [0, 1], [1, 0], [1, 1]], [1.0, 2.0, 2.0, 3.0]
    >>> model = lr.MatrixCompletion(rank=0, regularization=1.0).fit(pairs, values)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = model.save(pathlib.Path(folder) / "model.lorank")
    ...     again = lr.load(path)
    >>> bool((again.predict(pairs) == model.predict(pairs)).all())
    True
    """
    check("path", path, PATH)
    _, meta, arrays = read_archive(path, "model")
    _import_estimators(meta.get("class"))
    try:
        return _formats[meta["class"]].read(meta, arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FileError(
            f"{path} is incomplete, or from another version of lorank: {error!r}; fit and save the model again, "
            "or read it with the version that wrote it"
        ) from None


def _import_estimators(name: Any) -> None:
    """Import the modules that register the formats of estimators, unless the format of this class is known."""
    if name in _formats:
        return
    try:
        for module in ESTIMATORS:
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(f'a file of {name} needs {error.name}: pip install "lorank[sklearn]"') from None


def plain(value: Any) -> Any:
    """The value in types of JSON: NumPy scalars as numbers, tuples as lists."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a model file holds numbers and text, not {value!r}: set that parameter to a number")
