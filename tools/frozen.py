"""Freeze what lorank computes, so that code can be moved and renamed without changing a bit of it.

    python tools/frozen.py record FILE             run all cases, write FILE (JSON) and the model files in FILE's folder
    python tools/frozen.py compare FILE            run them again: each is the same, or its first difference is shown
    python tools/frozen.py compare FILE --no-text  compare numbers only, not advice, notes, warnings and names in JSON
    --only 'phase_*'                               cases whose names match (several patterns: commas between them)
    --jobs 2                                       so many processes

The cases are in ``frozen_problems.py`` (solves) and ``frozen_fits.py`` (estimators, model files, commands); ``list`` shows
their names. What they use of lorank beyond its public names is imported at the top of ``frozen_problems.py``. Of a solve each
iteration is compared: a digest of the point, residual, step, whether it began anew, and the point before it. Of a fit: what the
estimator predicts, its model file, and what it predicts when that file is read, also the file that was recorded. Of a command:
its exit code, its JSON and the files it writes.

Bits are the same on one machine, with one thread and the same NumPy and SciPy; elsewhere record anew, from the commit that is
compared with. Times, paths and lorank's version are left out. The exit code of ``compare`` is 1 where anything differs.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1"
)  # before NumPy

import argparse
import concurrent.futures
import fnmatch
import functools
import hashlib
import itertools
import json
import multiprocessing
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from frozen_fits import COMMANDS, FITS, write_tables
from frozen_problems import SOLVES

import lorank as lr

TRACE = ("iteration", "X", "residual", "step", "began anew", "previous X")  # of each iteration
NUMBER = r"-?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?"
LEFT_OUT = ("seconds", "lorank")  # keys in JSON: times, and the version
Record = dict[str, dict[str, Any]]  # {"numbers": {...}, "text": {...}}

# ------------------------------------------------------------------------------------------------------------------ digests


def digest(value: Any) -> Any:
    """A number as it is; an array or data frame as its type, shape, sum and a hash of its bytes; of a tuple, each part."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [digest(part) for part in value]
    if hasattr(value, "columns"):
        return {"columns": [str(name) for name in value.columns]} | {str(k): digest(value[k].to_numpy()) for k in value.columns}
    array = np.asarray(value)
    if array.dtype.kind not in "biufcmM":
        return f"{array.dtype} {array.shape} {_hash(json.dumps(array.tolist(), default=str).encode())}"
    plain = np.ascontiguousarray(array)
    total = f" sum {plain.sum().item()!r}" if array.dtype.kind in "biufc" else ""
    return f"{array.dtype} {array.shape} {_hash(plain.tobytes())}{total}"


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def point(X: Any) -> str:
    """Of U, s and V."""
    return _hash(*(np.ascontiguousarray(X.backend.to_numpy(part)).tobytes() for part in (X.U, X.s, X.V)))


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """All that is no list and no mapping, with its place."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in LEFT_OUT:
                yield from leaves(part, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for k, part in enumerate(value):
            yield from leaves(part, f"{at}[{k}]")
    else:
        yield at, value


def split(value: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """JSON as its numbers, in order, and its texts. ``at`` is not compared where texts are not."""
    found = list(leaves(value))
    numbers = [{"at": at, "value": leaf} for at, leaf in found if not isinstance(leaf, str)]
    return numbers, {at: leaf for at, leaf in found if isinstance(leaf, str)}


# -------------------------------------------------------------------------------------------------------------------- cases


def solve_record(name: str, _models: Path, _recording: bool) -> Record:
    make, rank, solver, options = SOLVES[name]
    trace, notes = [], {}

    def watch(_problem: Any, state: Any, _clock: Any) -> None:
        compared = None if state.provisional else state.previous  # by rules on the change of X
        previous = None if compared is None else point(compared)
        trace.append([state.iteration, point(state.X), state.residual, state.step, state.restarted, previous])
        if state.note:
            notes[str(state.iteration)] = state.note

    problem = make()
    result = lr.solve(problem, rank, solver if isinstance(solver, str) else solver(), callbacks=[watch], **options).numpy()
    numbers = {"trace": trace, "n_iter": result.n_iter, "success": result.status.success, "residual": result.residual}
    numbers |= {"X": point(result.X), "s": np.asarray(result.X.s).tolist(), "noise": result.noise, "noted": list(notes)}
    numbers |= {
        "history": [digest(result.history.residual), digest(result.history.step)],
        "signal": digest(getattr(result, "signal", None)),
    }
    numbers |= {"rank path": [list(trial) for trial in result.rank_path]}
    if result.outliers is not None:
        numbers["outliers"] = [digest(result.outliers.mask), digest(result.outliers.weights), result.outliers.limit]
    loss = repr(result.loss)  # its class, and what it has learned
    numbers["loss"] = [float(one) for one in re.findall(NUMBER, loss)]
    text = {"status": str(result.status), "advice": result.status.advice, "notes": notes, "loss": loss}
    return {"numbers": numbers, "text": text | {"solver": repr(result.solver)}}


def archive_record(path: Path) -> Record:
    """Of a model file: its arrays and its JSON."""
    arrays, said = [], {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".npy") and "seconds" not in name:
                with archive.open(name) as file:
                    arrays.append({"at": name, "value": digest(np.lib.format.read_array(file, allow_pickle=False))})
            elif name.endswith(".json"):
                said[name] = json.loads(archive.read(name))
    numbers, text = split(said)
    return {"numbers": {"arrays": arrays, "json": numbers}, "text": text}


def fit_record(name: str, models: Path, recording: bool) -> Record:
    fit, ask = FITS[name]
    estimator = fit()
    answers = {key: digest(value) for key, value in ask(estimator).items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(estimator.save(Path(folder) / f"{name}.lorank"))
        record = archive_record(path)
        loaded = {key: digest(value) for key, value in ask(lr.load(path)).items()}
        kept = models / path.name
        if recording:
            kept.write_bytes(path.read_bytes())
    try:
        old: Any = {key: digest(value) for key, value in ask(lr.load(kept)).items()}
    except ValueError:  # the format of this model has changed
        old = "not readable"
    numbers = {"answers": answers, "answers after load": loaded, "answers of the recorded file": old}
    return {"numbers": numbers | {"file": record["numbers"]}, "text": {"file": record["text"]}}


def command_record(name: str, _models: Path, _recording: bool) -> Record:
    numbers, text = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder))
        for k, line in enumerate(COMMANDS[name]):
            words, step = shlex.split(line), f"{k + 1} {line.split()[0]}"
            asked = [sys.executable, "-m", lr.__name__, *words]
            done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
            told = [one for one in done.stderr.splitlines() if one.startswith(f"{lr.__name__}:")]  # the others are times
            numbers[step], text[step] = {"exit code": done.returncode}, {"stderr": told}
            if done.stdout:
                numbers[step]["json"], text[step]["json"] = split(json.loads(done.stdout))
            for path in [Path(folder, word) for before, word in itertools.pairwise(words) if before in ("-o", "--model")]:
                if path.suffix == ".lorank" and path.exists():
                    record = archive_record(path)
                    numbers[step][path.name], text[step][path.name] = record["numbers"], record["text"]
                elif path.exists():
                    header, _, body = path.read_text().partition("\n")
                    numbers[step][path.name], text[step][path.name] = body.count("\n"), header
                    numbers[step][f"{path.name} lines"] = [_hash(one.encode()) for one in body.splitlines()]
    return {"numbers": numbers, "text": text}


KINDS: dict[str, tuple[dict[str, Any], Callable[[str, Path, bool], Record]]] = {
    "solve": (SOLVES, solve_record),
    "fit": (FITS, fit_record),
    "command": (COMMANDS, command_record),
}


def run_case(case: str, models: Path, recording: bool) -> Record:
    """A case's record, as JSON has it; where it raises, the error is the record."""
    kind, _, name = case.partition("/")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record = KINDS[kind][1](name, models, recording)
        except Exception as error:  # whatever it is, the other cases go on
            record = {"numbers": {"raised": True}, "text": {"error": repr(error)}}
    said = [f"{one.category.__name__}: {one.message}" for one in caught if issubclass(one.category, UserWarning)]
    record["text"]["warnings"] = said
    return json.loads(json.dumps(record))


def run_cases(cases: list[str], jobs: int, models: Path, recording: bool) -> Iterator[Record]:
    run = functools.partial(run_case, models=models, recording=recording)
    if jobs == 1:
        yield from map(run, cases)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run, cases)


# -------------------------------------------------------------------------------------------------------------- differences


def same(a: Any, b: Any) -> bool:
    """In every bit, as JSON writes it: nan is nan, and 0.0 is not -0.0."""
    return json.dumps(a) == json.dumps(b)


def first_difference(a: Any, b: Any, at: str, text: bool) -> str | None:
    """Where two records part, or None."""
    if same(a, b):
        return None
    if at.endswith(".trace"):
        return trace_difference(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            if key not in a or key not in b:
                return f"{at}.{key}: only {'before' if key in a else 'now'}"
            inside = f"{at} at {a['at']}" if key == "value" and "at" in a else f"{at}.{key}"
            if (text or key != "at") and (found := first_difference(a[key], b[key], inside, text)):
                return found
        return None
    if isinstance(a, list) and isinstance(b, list):
        for k, (one, other) in enumerate(zip(a, b, strict=False)):
            if found := first_difference(one, other, f"{at}[{k}]", text):
                return found
        return None if len(a) == len(b) else f"{at}: {len(a)} before, {len(b)} now"
    return f"{at}: {textwrap.shorten(repr(a), 300)} before, {textwrap.shorten(repr(b), 300)} now"


def trace_difference(a: list[list[Any]], b: list[list[Any]]) -> str:
    for one, other in zip(a, b, strict=False):
        if not same(one, other):
            parts = [f"{name} {x!r} before, {y!r} now" for name, x, y in zip(TRACE, one, other, strict=True) if not same(x, y)]
            beside = "" if not same(one[2], other[2]) else f" (residual {one[2]!r} in both)"
            return f"iteration {one[0]}: {'; '.join(parts)}{beside}"
    return f"the same for {min(len(a), len(b)) - 1} iterations, then it ends: {len(a) - 1} before, {len(b) - 1} now"


def difference(before: Record | None, now: Record, text: bool) -> str | None:
    if before is None:
        return "not in the reference"
    fields = ("numbers", "text") if text else ("numbers",)
    return next((found for one in fields if (found := first_difference(before[one], now[one], one, text))), None)


# ----------------------------------------------------------------------------------------------------------------- commands


def machine() -> dict[str, str]:
    versions = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    return versions | {"machine": f"{platform.machine()} {platform.system()}", "cpu": _cpu()}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare", "list"])
    parser.add_argument("file", type=Path, nargs="?", default=Path("build/frozen/frozen.json"))
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cases to run, with or without their kind (solve/...)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-text", action="store_true", help="compare numbers only")
    asked = parser.parse_args()
    patterns = asked.only.split(",")
    every = [f"{kind}/{name}" for kind, (table, _) in KINDS.items() for name in table]
    cases = [
        case for case in every if any(fnmatch.fnmatch(case, p) or fnmatch.fnmatch(case.split("/")[1], p) for p in patterns)
    ]
    if asked.action == "list":
        print("\n".join(cases))
        return 0
    recording = asked.action == "record"
    models = asked.file.with_suffix(".models")
    if recording:
        models.mkdir(parents=True, exist_ok=True)
    print(f"lorank {lr.__version__} of {Path(lr.__file__).parent}, {len(cases)} cases", flush=True)
    began, records = time.perf_counter(), run_cases(cases, asked.jobs, models, recording)
    failed = record_all(asked.file, cases, records) if recording else compare_all(asked, every, cases, records)
    used = os.times()
    cpu = used.user + used.system + used.children_user + used.children_system
    print(f"{time.perf_counter() - began:.0f} s, {cpu:.0f} s of CPU")
    return int(failed > 0)


def record_all(file: Path, cases: list[str], records: Iterator[Record]) -> int:
    found = {}
    for case, record in zip(cases, records, strict=True):
        found[case] = record
        print(f"{case}: {record['text'].get('error', 'recorded')}", flush=True)
    body = ",\n".join(f"{json.dumps(case)}: {json.dumps(record)}" for case, record in found.items())
    file.write_text(f'{{"machine": {json.dumps(machine())},\n"cases": {{\n{body}\n}}}}\n')
    raised = sum("error" in record["text"] for record in found.values())
    print(f"{len(found)} cases recorded in {file}" + (f", {raised} of which raised an error" if raised else ""))
    return raised


def compare_all(asked: argparse.Namespace, every: list[str], cases: list[str], records: Iterator[Record]) -> int:
    reference = json.loads(asked.file.read_text())
    if reference["machine"] != machine():
        print(f"recorded on another machine, where bits may differ:\n  {reference['machine']}\n  {machine()}")
    differ = 0
    for case, now in zip(cases, records, strict=True):
        found = difference(reference["cases"].get(case), now, not asked.no_text)
        differ += found is not None
        print(f"{case}: {found or 'same'}", flush=True)
    gone = sorted(set(reference["cases"]) - set(every)) if asked.only == "*" else []
    for case in gone:
        print(f"{case}: no longer there")
    print(f"{len(cases) - differ} same, {differ + len(gone)} different" + (" (numbers only)" if asked.no_text else ""))
    return differ + len(gone)


if __name__ == "__main__":
    sys.exit(main())
