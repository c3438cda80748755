"""Custom experiments: a problem generator, solvers and a grid of parameters become tables, figures and a page."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ..common.checks import ParameterError
from ..common.timer import Timer
from ..loop.stopping import Rule
from .drawing import save
from .experiment import TUNING_SEEDS, Experiment, Instance, Method, Point
from .figures import figures
from .latex import write_latex
from .page import write_page
from .process_pool import run_in_pool
from .progress import Progress
from .runner import Runner, run_experiment
from .single_process import warm_up
from .store import Store
from .styles import label
from .tables import Tables, amount, average, stored, tables, write_csv

FORMATS = ("png", "pdf")
MODULE = "lorank_bench_"  # prefix of the modules that hold users' files


class Benchmark(Experiment):
    """Comparison of solvers on random problems over a grid of parameters.

    Parameters
    ----------
    problem : callable
        ``problem(seed=..., **params)`` returns a problem and its solution, or a problem alone. The generator of a parameter
        ``rank`` gets it, too; the solution stays outside the timed part of a run.
    solvers : mapping or sequence
        Names and solvers: a name of :data:`lorank.solvers`, an object such as ``RGD(MyMetric())``, or a list of candidates,
        of which one is selected on separate seeds. A sequence of names stands for the solvers of these names.
    grid : mapping or sequence of mappings
        Values of each parameter, of which all combinations are run; or the points themselves. ``rank`` is the rank of the
        solution; without it, that of the generator's solution.
    seeds : int or sequence of int
        Tests at each point.
    tol : float
        A run succeeds at this relative error, or relative residual where the solution is unknown.
    stop : callable, optional
        ``stop(instance)`` returns another stopping rule that means success.
    measure : callable, optional
        ``measure(X, instance)`` returns further numbers by name, for each iterate of traced runs and for results. It runs while
        the timer is paused.
    max_iter, max_seconds
        Limits of a run. After a run that exceeds the time, the method is left out on the later seeds of the point.
    traced : int
        Number of seeds whose runs are stored iteration by iteration, for convergence plots.
    tuning_seeds : sequence of int
        Seeds for the selection among candidates.
    tuning : {"point", "all"}
        Select candidates at each point, or one for all points: the fastest that fails on none.
    name, title : str
        Name of the files, and title of the page.

    Examples
    --------
    >>> import lorank as lr
    >>> def problem(seed, n, rank):
    ...     return lr.datasets.random_completion(n, n, rank, oversampling=6, seed=seed)
    >>> experiment = lr.experiments.Benchmark(problem, ["rgd", "rcg"], {"n": [40, 60], "rank": [2]}, seeds=2)
    >>> len(experiment.points("paper"))
    2
    """

    def __init__(
        self,
        problem: Callable[..., Any],
        solvers: Mapping[str, Any] | Sequence[str],
        grid: Mapping[str, Iterable[Any]] | Sequence[Mapping[str, Any]],
        *,
        seeds: int | Sequence[int] = 5,
        tol: float = 1e-4,
        stop: Callable[[Instance], Rule] | None = None,
        measure: Callable[[Any, Instance], Mapping[str, float]] | None = None,
        max_iter: int = 1000,
        max_seconds: float = 60.0,
        traced: int = 5,
        tuning_seeds: Sequence[int] = TUNING_SEEDS,
        tuning: str = "point",
        name: str = "experiment",
        title: str = "",
    ) -> None:
        if not callable(problem):
            raise ParameterError("problem", f"must be a function of seed and the parameters of the grid, got {problem!r}")
        if not solvers or isinstance(solvers, str):
            raise ParameterError("solvers", "must be a mapping of names to solvers, or a list of names")
        if tuning not in ("point", "all"):
            raise ParameterError("tuning", f"must be 'point' or 'all', got {tuning!r}")
        self.problem, self.name, self.title, self.tol = problem, name, title or name, tol
        self._stop, self._measure = stop, measure
        named = solvers if isinstance(solvers, Mapping) else {one: one for one in solvers}
        methods = [Method(one, tuple(s) if isinstance(s, (list, tuple)) else (s,)) for one, s in named.items()]
        values = [{}] if not grid else combinations(grid) if isinstance(grid, Mapping) else [dict(one) for one in grid]
        tests = range(seeds) if isinstance(seeds, int) else seeds
        limits: dict[str, Any] = {"max_iter": max_iter, "max_seconds": max_seconds, "tuning_seeds": tuning_seeds}
        limits |= {"traced": tuple(tests)[:traced]}
        shared: dict[str, Any] = {"tuned_at": values[0]} if tuning == "all" else {}
        self._points = [Point(params, methods, seeds=tests, **limits, **shared) for params in values]
        if tuning == "all":
            self._points[0] = Point(values[0], methods, seeds=tests, **limits, tuned_on=tuple(values))
        self.source: Path | None = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Other processes load the user's file, where there is one."""
        return (_from_file, (self.source, self.name)) if self.source else super().__reduce_ex__(protocol)

    def points(self, scale: str) -> Sequence[Point]:
        return self._points

    def instance(self, point: Point, seed: int) -> Instance:
        """The generator's problem; ValueError if it returns something else."""
        made = self.problem(seed=seed, **point.params)
        if isinstance(made, Instance):
            return made
        problem, truth = made if isinstance(made, tuple) else (made, None)
        rank = point.params.get("rank", getattr(truth, "rank", None))
        if rank is None:
            raise ParameterError("grid", "needs a parameter rank, since the generator returns no solution of known rank")
        return Instance(problem, rank, truth)

    def stop(self, point: Point, instance: Instance) -> Rule:
        from ..loop.stopping import RelativeResidual

        if self._stop is not None:
            return self._stop(instance)
        return RelativeResidual(self.tol) if instance.truth is None else super().stop(point, instance)

    def measure(self, point: Point, instance: Instance, X: Any) -> dict[str, float]:
        found = super().measure(point, instance, X)
        return found if self._measure is None else found | dict(self._measure(X, instance))


def combinations(grid: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """All combinations of the values of each parameter.

    Examples
    --------
    >>> combinations({"n": [10, 20], "rank": [2]})
    [{'n': 10, 'rank': 2}, {'n': 20, 'rank': 2}]
    """
    return [dict(zip(grid, values, strict=True)) for values in product(*(list(one) for one in grid.values()))]


@dataclass(frozen=True)
class Results:
    """The runs of experiments, and the files written.

    Attributes
    ----------
    tables : Tables
        Runs, curves and tuning runs as objects.
    files : list of Path
        CSV files, figures, LaTeX tables and the page.

    Examples
    --------
    >>> import tempfile
    >>> import lorank as lr
    >>> def problem(seed, n):
    ...     return lr.datasets.random_completion(n, n, 2, oversampling=6, seed=seed)
    >>> experiment = lr.experiments.Benchmark(problem, ["rcg"], {"n": [40]}, seeds=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = lr.experiments.run(experiment, folder, formats=())
    >>> sorted({path.suffix for path in results.files})
    ['.csv', '.html', '.tex']
    """

    tables: Tables
    files: list[Path]

    def __str__(self) -> str:
        lines = []
        for name in self.tables.experiments():
            for case, means in average(self.tables.of(name)).items():
                for method, mean in means.items():
                    spent = f"{amount(mean.of('iterations').mean, 'iterations')} iterations"
                    lines.append(f"{case.label()}, {label(method)}: {spent}, {mean.reached} of {len(mean.rows)} solved")
        return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def run(
    experiments: Experiment | Sequence[Experiment],
    out: str | os.PathLike[str],
    *,
    jobs: int = 1,
    threads: int = 1,
    formats: Sequence[str] = FORMATS,
    scale: str = "paper",
    progress: Callable[[str], Progress] | None = None,
) -> Results:
    """Make the runs of experiments that are not stored yet, and write tables, figures and a page.

    Parameters
    ----------
    experiments : Experiment or sequence of Experiment
        For example :class:`Benchmark`.
    out : path
        Folder. ``runs`` in it has the stored runs, so that an interrupted call resumes; ``results.csv``, ``traces.csv``,
        ``tuning.csv``, ``figures``, ``tables`` and ``index.html`` are written from them.
    jobs : int
        Number of processes. With more than one, generator and solvers must be importable from a module, or stand in the file
        given to ``lorank bench``.
    threads : int
        Threads of each process. With one thread, times are CPU times.
    formats : sequence of {"png", "pdf", "svg"}
    scale : str
        For experiments with several scales.
    progress : callable, optional
        Returns the :class:`~lorank.experiments.Progress` for a name; by default nothing is printed.

    Returns
    -------
    Results

    Examples
    --------
    >>> import tempfile
    >>> import lorank as lr
    >>> def problem(seed, n):
    ...     return lr.datasets.random_completion(n, n, 2, oversampling=6, seed=seed)
    >>> experiment = lr.experiments.Benchmark(problem, ["rcg", "auto"], {"n": [40]}, seeds=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = lr.experiments.run(experiment, folder)
    >>> [row.reached for row in results.tables.results]
    [True, True, True, True]
    """
    chosen = [experiments] if isinstance(experiments, Experiment) else list(experiments)
    if len({one.name for one in chosen}) < len(chosen) or not chosen:
        raise ParameterError("experiments", "must be at least one, with different names: pass name= to each")
    if wrong := [name for name in formats if name not in ("png", "pdf", "svg")]:
        raise ParameterError("formats", f"are png, pdf and svg, got {wrong[0]!r}")
    folder = Path(out)
    execute(chosen, folder, scale, jobs=jobs, threads=threads, progress=progress or (lambda name: Progress(name, _silent)))
    return render(folder, {one.name: one.title for one in chosen}, formats)


def execute(
    chosen: Sequence[Experiment], out: Path, scale: str, *, jobs: int, threads: int, progress: Callable[[str], Any]
) -> None:
    """Make the runs that are not stored yet. ``progress`` returns a Progress, or a context manager that gives one."""
    from threadpoolctl import threadpool_limits

    def path(one: Experiment) -> Path:
        return out / "runs" / f"{one.name}.jsonl"

    with contextlib.ExitStack() as stack:

        def shown(name: str) -> Progress:
            made = progress(name)
            return made if isinstance(made, Progress) else stack.enter_context(made)

        if jobs > 1:  # all experiments in one pool, so that the last runs of one do not leave processes idle
            stores = [stack.enter_context(Store(path(one), one.name, scale)) for one in chosen]
            runners = [Runner(one, scale, store, threads) for one, store in zip(chosen, stores, strict=True)]
            run_in_pool(runners, jobs, shown(f"{len(chosen)} experiments"), threads)
            return
        warm_up()  # also loads the libraries whose threads are limited next
        stack.enter_context(threadpool_limits(threads))
        stack.enter_context(Timer.by(time.thread_time if threads == 1 else time.perf_counter))
        for count, one in enumerate(chosen, 1):
            title = one.name if len(chosen) == 1 else f"{one.name} ({count} of {len(chosen)})"
            with contextlib.ExitStack() as bar:
                made = progress(title)
                found = made if isinstance(made, Progress) else bar.enter_context(made)
                run_experiment(one, path(one), scale, threads=threads, progress=found)


def render(out: Path, titles: Mapping[str, str], formats: Sequence[str] = FORMATS) -> Results:
    """Write tables, figures and the page from stored runs."""
    records = stored(out, list(titles))
    found = tables(records)
    drawn = {name: figures(found, name) for name in titles if name in found.experiments()}
    files = write_csv(out, records)
    for name, panels in drawn.items():
        for figure, some in panels.items():
            files += [save(some, out / "figures" / f"{name}-{figure}.{suffix}") for suffix in formats]
        files.append(write_latex(average(found.of(name)), out / "tables" / f"{name}.tex"))
    title = ", ".join(titles.values())
    return Results(found, [*files, write_page(found, out, title, drawn)])


def _silent(text: str) -> None:
    """Print nothing."""


# -- files of experiments ----------------------------------------------------------------------------------------------
def load_file(path: str | os.PathLike[str]) -> list[Experiment]:
    """The experiments that a Python file defines, in their order; those without a name of their own get that of the file.

    Raises a ValueError where there are none.
    """
    source = Path(path).resolve()
    if not source.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    name = MODULE + source.stem
    spec = importlib.util.spec_from_file_location(name, source)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # other processes find its functions there
    spec.loader.exec_module(module)
    found = list(dict.fromkeys(one for one in vars(module).values() if isinstance(one, Experiment)))
    if not found:
        raise ValueError(f"{path} defines no experiment: write experiment = lr.experiments.Benchmark(problem, solvers, grid)")
    for one in found:
        if isinstance(one, Benchmark):
            one.source = source
            if one.name == "experiment":
                one.title = source.stem if one.title == one.name else one.title
                one.name = source.stem
    return found


def _from_file(path: Path, name: str) -> Experiment:
    return next(one for one in load_file(path) if one.name == name)
