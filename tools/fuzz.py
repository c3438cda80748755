"""Random attacks on files, runs and inputs, bounded and seeded.

    python tools/fuzz.py                       all families: some CPU minutes
    python tools/fuzz.py --short               the short form that CI runs (tests/test_fuzz.py): about a CPU minute
    python tools/fuzz.py csv solve --seed 7 --count 2000

A family is a generator of cases. A case is a description and a function that returns the outcome in a word, such as "refused",
and raises an exception where a promise of docs/project/reliability.md is broken. The outcomes are counted and printed; the exit
code is 1 if a case failed. A case is repeated by its family, seed and number: ``--seed S --case K``.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lorank as lr
from lorank.io import read_ratings
from lorank.io.archive import FileError, read_archive, write_archive

Case = tuple[str, Callable[[], str]]
Family = Callable[[np.random.Generator, Path], Iterator[Case]]


# -- text files against Python's csv ---------------------------------------------------------------------------------
def csv_files(rng: np.random.Generator, place: Path) -> Iterator[Case]:
    """Files with quotation marks, separators and line ends in columns that are not read."""

    def field() -> str:
        text = "".join(rng.choice(list('ab"7, \n\té;')) for _ in range(rng.integers(0, 7)))
        if rng.random() < 0.5:
            return '"' + text.replace('"', '""') + '"'
        return "x" + text.replace(",", "").replace("\n", "")

    while True:
        end = str(rng.choice(["\n", "\r\n"]))
        rows = [f"{field()},{k},{k % 7},{k % 5},{field()}" for k in range(rng.integers(1, 40))]
        text = "note,user,item,rating,title" + end + end.join(rows) + str(rng.choice(["", end, end + end]))
        yield repr(text), functools.partial(_read_csv, place / "r.csv", text)


def _read_csv(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8", newline="")
    expected = [record for record in csv.reader(io.StringIO(text, newline=""), strict=True) if record][1:]
    found = read_ratings(file, "user", "item", "rating")
    assert found.row_ids[found.rows].tolist() == [int(record[1]) for record in expected]
    assert found.values.tolist() == [float(record[3]) for record in expected]
    problem = lr.distributed.from_csv(str(file), "user", "item", "rating")
    assert problem.m == len(expected)
    np.testing.assert_array_equal(np.asarray(problem.y), found.values)
    return "same"


# -- damaged files ---------------------------------------------------------------------------------------------------
def _damaged(rng: np.random.Generator, content: bytes) -> tuple[str, bytes]:
    """Content with a flipped bit, an end cut off or added, a range of zeros, or two ranges swapped."""
    at, other = sorted(int(k) for k in rng.integers(0, len(content), 2))
    how = rng.choice(["bit", "bit", "bit", "cut", "more", "zeros", "swap"])
    if how == "bit":
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        return f"bit of byte {at}", bytes(changed)
    if how == "cut":
        return f"cut at {at}", content[:at]
    if how == "more":
        return "more bytes", content + rng.bytes(int(rng.integers(1, 50)))
    if how == "zeros":
        return f"zeros in {at}:{other}", content[:at] + bytes(other - at) + content[other:]
    return f"rotated at {at}", content[at:] + content[:at]


def archives(rng: np.random.Generator, place: Path) -> Iterator[Case]:
    """Model files with damage: refused, or (in padding of the container) the same model."""
    pairs = np.argwhere(np.ones((12, 9), bool))
    values = rng.standard_normal(len(pairs))
    file = lr.MatrixCompletion(2, 1.0, max_iter=3, intervals=True).fit(pairs, values).save(place / "model.lorank")
    content, expected = file.read_bytes(), lr.load(file).predict(pairs)

    def check(damaged: bytes) -> str:
        file.write_bytes(damaged)
        try:
            found = lr.load(file).predict(pairs)
        except FileError:
            return "refused"
        np.testing.assert_array_equal(found, expected)
        return "same"

    while True:
        how, damaged = _damaged(rng, content)
        yield how, functools.partial(check, damaged)


def folders(rng: np.random.Generator, place: Path) -> Iterator[Case]:
    """Folders of partitions with damage in one file, or with a file missing or exchanged: refused when opened."""
    problem, _ = lr.datasets.random_completion(40, 30, 2, oversampling=4)
    problem.row_ids, problem.col_ids = (np.array([f"id {k}" for k in range(n)]) for n in problem.shape)
    whole = place / "p"
    lr.distributed.save_partitions(problem, whole, n_partitions=3)
    files = sorted(file for file in whole.rglob("*") if file.is_file())

    def check(file: Path, damaged: bytes | None) -> str:
        before = file.read_bytes()
        if damaged == before:
            return "same"
        file.unlink()
        if damaged is not None:
            file.write_bytes(damaged)
        try:
            lr.distributed.from_partitions(whole)
        except FileError:
            return "refused"
        finally:
            file.write_bytes(before)
        raise AssertionError("damage was not found")

    while True:
        file = files[rng.integers(len(files))]
        what = rng.random()
        if what < 0.8:
            how, damaged = _damaged(rng, file.read_bytes())
        elif what < 0.9:
            how, damaged = "missing", None
        else:
            other = files[rng.integers(len(files))]
            how, damaged = f"replaced by {other.name}", other.read_bytes()
        yield f"{file.relative_to(whole)}: {how}", functools.partial(check, file, damaged)


# -- processes that are killed ---------------------------------------------------------------------------------------
WRITER = """
import itertools, sys
from pathlib import Path
import numpy as np
import lorank as lr
from lorank.io.archive import write_archive

place = Path(sys.argv[1])
problem, _ = lr.datasets.random_completion(60, 40, 2, oversampling=4)
for k in itertools.count(1):
    write_archive(place / "archive", "test", {"k": k}, {"a": np.full(40_000, k), "b": np.full(7, k)})
    lr.distributed.save_partitions(problem, place / f"p{k}", n_partitions=2)
    lr.solve(problem, 2, "rcg", tol=1e-12, checkpoint=place / "checkpoint", checkpoint_every=0)
    if k == 1:
        print("ready", flush=True)
"""


def kills(rng: np.random.Generator, place: Path) -> Iterator[Case]:
    """A process that writes archives, partitions and checkpoints, and is killed: each file is whole, the next run cleans up."""
    problem, _ = lr.datasets.random_completion(60, 40, 2, oversampling=4)

    def check(seconds: float) -> str:
        home = Path(tempfile.mkdtemp(dir=place))
        with subprocess.Popen([sys.executable, "-c", WRITER, str(home)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            time.sleep(seconds)
            child.kill()
        _, meta, arrays = read_archive(home / "archive", "test")
        assert all((a == meta["k"]).all() for a in arrays.values()), "an archive of two versions"
        for folder in home.glob("p*"):
            lr.distributed.from_partitions(folder)
        assert lr.solve(problem, 2, "rcg", checkpoint=home / "checkpoint").converged
        left = list(home.glob(".*.tmp*"))
        write_archive(home / "archive", "test", {}, {})
        assert not list(home.glob(".archive*")), "a temporary file of the killed process is still there"
        shutil.rmtree(home, ignore_errors=True)  # scratch folders of the partitions are deleted with their problems
        return "interrupted a write" if left else "killed between writes"

    while True:
        seconds = float(rng.uniform(0, 0.5))
        yield f"killed after {seconds:.3f} s", functools.partial(check, seconds)


def commands(rng: np.random.Generator, place: Path) -> Iterator[Case]:
    """``lorank complete`` over an existing model, killed at a random moment: the old model or the new one is there."""
    rows, cols = np.nonzero(rng.random((30, 20)) < 0.6)
    lines = [f"{i},{j},{i % 5 + j % 3}" for i, j in zip(rows, cols, strict=True)]
    (place / "ratings.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    model, pairs = place / "model.lorank", np.argwhere(np.ones((30, 20), bool))
    command = [sys.executable, "-m", "lorank", "complete", str(place / "ratings.csv"), "-o", str(model), "--rank", "1"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    known, whole = [], 0.0
    for strength in ("1", "50"):
        began = time.monotonic()
        subprocess.run([*command, "--regularization", strength], check=True, **quiet)
        whole = time.monotonic() - began
        known.append(lr.load(model).predict(pairs))

    def check(strength: str, seconds: float) -> str:
        with subprocess.Popen([*command, "--regularization", strength], **quiet) as child:
            time.sleep(seconds)
            child.kill()
        found = lr.load(model).predict(pairs)
        assert any(np.array_equal(found, one) for one in known), "neither the old model nor the new one"
        return "killed" if child.returncode == -signal.SIGKILL else "finished"

    while True:
        strength, seconds = str(rng.choice(["1", "50"])), float(rng.uniform(0.3, 1.0)) * whole
        yield f"killed after {seconds:.2f} s", functools.partial(check, strength, seconds)


def workers(rng: np.random.Generator, place: Path) -> Iterator[Case]:
    """A worker of a cluster killed at a random moment of a solve: the same bits as in one process."""
    distributed = __import__("distributed")
    problem, _ = lr.datasets.random_completion(120, 80, 2, oversampling=4)
    lr.distributed.save_partitions(problem, place / "p", n_partitions=4)
    stop = {"stop": lr.stopping.Iterations(4), "max_iter": 4}
    alone = lr.solve(lr.distributed.from_partitions(place / "p"), 2, "rcg", **stop).numpy()

    def check(client: Any, victim: int, program: int) -> str:
        client.wait_for_workers(2, timeout=120)
        shared = lr.distributed.from_partitions(place / "p", client=client)
        engine = shared.observations.graph.engine
        pids = client.run(os.getpid, workers=[actor.address for actor in engine._actors])

        def kill(graph: Any) -> None:
            if graph.trips == program:
                os.kill(list(pids.values())[victim % len(pids)], signal.SIGKILL)

        shared.observations.graph.watch = kill
        found = lr.solve(shared, 2, "rcg", **stop).numpy()
        np.testing.assert_array_equal(found.X.U, alone.X.U)
        np.testing.assert_array_equal(found.X.V, alone.X.V)
        return "recovered" if engine.recoveries else "killed at the end"

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, direct_to_workers=True) as client:
        while True:
            victim, program = int(rng.integers(2)), int(rng.integers(1, 40))
            yield f"worker {victim} after program {program}", functools.partial(check, client, victim, program)


# -- extreme inputs --------------------------------------------------------------------------------------------------
def _values(rng: np.random.Generator, m: int) -> tuple[str, np.ndarray]:
    """Values of a random kind."""
    kinds: dict[str, Callable[[], Any]] = {
        "normal": lambda: rng.standard_normal(m),
        "whole": lambda: rng.integers(-3, 4, m),
        "equal": lambda: np.full(m, rng.standard_normal()),
        "zero": lambda: np.zeros(m),
        "large": lambda: rng.standard_normal(m) * 1e150,
        "small": lambda: rng.standard_normal(m) * 1e-150,
        "extreme": lambda: rng.standard_normal(m) * 1e307,
        "mixed": lambda: rng.standard_normal(m) * 10.0 ** rng.integers(-12, 12, m),
        "outlier": lambda: np.where(np.arange(m) == 0, 1e12, rng.standard_normal(m)),
        "not finite": lambda: np.where(np.arange(m) == 0, rng.choice([np.nan, np.inf]), 1.0),
        "single": lambda: rng.standard_normal(m).astype(np.float32),
        "complex": lambda: rng.standard_normal(m) + 1j * rng.standard_normal(m),
    }
    name = str(rng.choice(list(kinds)))
    return name, kinds[name]()


def _pattern(rng: np.random.Generator) -> tuple[tuple[int, int], np.ndarray, np.ndarray]:
    n1, n2 = (int(n) for n in rng.integers(1, 13, 2))
    at = np.flatnonzero(rng.random(n1 * n2) < rng.uniform(0.1, 1.0))
    at = at if len(at) else np.array([0])
    return (n1, n2), at // n2, at % n2


SOLVERS = ("auto", "auto", "rcg", "gauss-newton", "prgd", "adaptive-prgd", "rgd", "shampoo", "iht", "niht")


def solves(rng: np.random.Generator, place: Path) -> Iterator[Case]:
    """``solve`` on tiny random problems: a finite point whose residual is the one that is reported, or a refusal."""
    while True:
        shape, rows, cols = _pattern(rng)
        kind, y = _values(rng, len(rows))
        rank: Any = int(rng.integers(1, min(shape) + 1)) if rng.random() < 0.9 else "auto"
        loss = str(rng.choice(["squares", "squares", "squares", "huber", "cauchy", "robust"]))
        weights = None if rng.random() < 0.7 else 10.0 ** rng.uniform(-6, 6, len(rows))
        solver = str(rng.choice(SOLVERS)) if loss == "squares" else "auto"
        backend = str(rng.choice(["native", "numpy", "partitions:2"]))
        about = f"{shape}, {len(rows)} {kind}, rank {rank}, {solver}, {loss}, {backend}, weights {weights is not None}"
        given = {"loss": loss, "weights": weights, "backend": backend}
        yield about, functools.partial(_solve, shape, rows, cols, y, given, rank, solver)


def _accepted(function: Callable[[], Any]) -> Any:
    """Result of a call; None if it refuses its arguments, by a statement that raises a ValueError or TypeError."""
    try:
        return function()
    except np.linalg.LinAlgError:
        raise
    except (ValueError, TypeError) as error:
        line = traceback.extract_tb(error.__traceback__)[-1].line or ""
        if not line.startswith("raise"):  # NumPy refuses arrays that lorank has made
            raise
        return None


def _solve(shape: Any, rows: Any, cols: Any, y: Any, given: dict[str, Any], rank: Any, solver: str) -> str:
    result = _accepted(lambda: lr.solve(lr.Completion(rows, cols, y, shape, **given), rank, solver, max_iter=30))
    if result is None:
        return "refused"
    assert np.isfinite(y).all(), "values that are not finite were accepted"
    X = result.X.numpy()
    assert all(np.isfinite(a).all() for a in (X.U, X.s, X.V)), "the point is not finite"
    assert np.isfinite(result.residual), "the residual is not finite"
    if given["loss"] == "squares" and given["weights"] is None and np.any(y):
        scale = np.abs(y).max()
        d = (X.entries(rows, cols) / scale - y / scale).astype(complex)
        expected = np.linalg.norm(d) / np.linalg.norm(y / scale)
        assert abs(result.residual - expected) <= 1e-3 * expected + 1e-5, f"residual {result.residual}, but {expected}"
    return "solved"


def estimators(rng: np.random.Generator, place: Path) -> Iterator[Case]:
    """``MatrixCompletion`` and ``ImplicitFactorization`` on tiny random data: finite predictions, or a refusal."""
    while True:
        shape, rows, cols = _pattern(rng)
        kind, y = _values(rng, len(rows))
        rank: Any = int(rng.integers(0, min(shape) + 1)) if rng.random() < 0.8 else "auto"
        strength: Any = [1.0, 1e-6, 1e6, "auto", "learned"][rng.integers(5)]
        options = {"rank": rank, "regularization": strength, "max_iter": 5, "random_state": 0}
        if rng.random() < 0.3:
            options = {"rank": max(rank, 1) if rank != "auto" else 2, "max_iter": 5, "random_state": 0}
            yield f"implicit, {shape}, {kind}, {options}", functools.partial(_implicit, rows, cols, y, options)
        else:
            options["loss"] = str(rng.choice(["squares", "squares", "huber", "robust"]))
            yield (
                f"{shape}, {len(rows)} {kind}, {options}",
                functools.partial(_fit, rows, cols, y, options),
            )


def _fit(rows: Any, cols: Any, y: Any, options: dict[str, Any]) -> str:
    pairs = np.column_stack([rows, cols])
    model = _accepted(lambda: lr.MatrixCompletion(**options).fit(pairs, y))
    if model is None:
        return "refused"
    assert np.isfinite(model.predict(pairs)).all(), "a prediction is not finite"
    return "fitted"


def _implicit(rows: Any, cols: Any, y: Any, options: dict[str, Any]) -> str:
    model = _accepted(lambda: lr.ImplicitFactorization(**options).fit(np.column_stack([rows, cols]), y))
    if model is None:
        return "refused"
    assert np.isfinite(model.user_factors_).all(), "a factor is not finite"
    assert np.isfinite(model.item_factors_).all(), "a factor is not finite"
    return "fitted"


def tables(rng: np.random.Generator, place: Path) -> Iterator[Case]:
    """``TableImputer`` on tiny random tables: all cells filled, observed cells unchanged, or a refusal."""
    while True:
        n, d = int(rng.integers(2, 16)), int(rng.integers(1, 7))
        kind, values = _values(rng, n * d)
        table = np.where(rng.random((n, d)) < rng.uniform(0, 0.6), np.nan, values.reshape(n, d))
        time_series = bool(rng.random() < 0.4)
        yield f"{n} x {d}, {kind}, time {time_series}", functools.partial(_impute, table, time_series)


def _impute(table: np.ndarray, time_series: bool) -> str:
    found = _accepted(lambda: lr.TableImputer(time=time_series, random_state=0).fit_transform(table))
    if found is None:
        return "refused"
    there = ~np.isnan(table)
    np.testing.assert_array_equal(found[there], table[there])
    assert np.isfinite(found[:, there.any(0)]).all(), "a filled cell is not finite"
    return "filled"


# -- driver ----------------------------------------------------------------------------------------------------------
FAMILIES: dict[str, tuple[Family, int, int]] = {  # with the numbers of cases of the short and of the long form
    "csv": (csv_files, 150, 3000),
    "archives": (archives, 150, 3000),
    "folders": (folders, 100, 1500),
    "kills": (kills, 3, 40),
    "commands": (commands, 2, 30),
    "workers": (workers, 2, 30),
    "solve": (solves, 150, 4000),
    "estimators": (estimators, 60, 1500),
    "tables": (tables, 15, 300),
}


def attack(name: str, count: int, seed: int = 0, only: int | None = None) -> tuple[Counter[str], list[str]]:
    """Outcomes of so many cases of a family, and the failures, each with its input and error."""
    outcomes: Counter[str] = Counter()
    failures = []
    with tempfile.TemporaryDirectory(prefix="lorank.fuzz.") as place:
        cases = FAMILIES[name][0](np.random.default_rng([seed, *name.encode()]), Path(place))
        for number, (about, case) in enumerate(itertools.islice(cases, count if only is None else only + 1)):
            if only is not None and number != only:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    warnings.simplefilter("ignore", UserWarning)  # those of lorank; others are those of NumPy
                    outcomes[case()] += 1
            except Exception:
                failures.append(f"{name} --seed {seed} --case {number}: {about}\n{traceback.format_exc(limit=-6)}")
        cases.close()  # type: ignore[attr-defined]
    return outcomes, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, help="cases of each family")
    parser.add_argument("--case", type=int, help="one case alone")
    args = parser.parse_args()
    failed = False
    for name in args.families:
        count = args.count or FAMILIES[name][1 if args.short else 2]
        outcomes, failures = attack(name, count, args.seed, args.case)
        total = sum(outcomes.values()) + len(failures)
        text = "".join(f"{n:,} {outcome}, " for outcome, n in sorted(outcomes.items()))
        print(f"{name}, seed {args.seed}: {total:,} cases: {text}{len(failures)} FAILED", flush=True)
        print("\n".join(failures[:20]), end="\n" if failures else "", flush=True)
        failed = failed or bool(failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
