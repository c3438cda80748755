"""The paper's Figure 1 at ranks 50 and 100: iterations and seconds to a relative error of 1e-4, with every grid's winner.

    python benchmarks/paper_ranks.py run --log runs.jsonl [--seconds 270]
    python benchmarks/paper_ranks.py run --on cpu --log cpu.jsonl [--workers 6]
    python benchmarks/paper_ranks.py table [--on cpu] --log runs.jsonl [--out docs/reproduction/ranks-gpu.md]

The methods, their grids and the number of candidates are those of ``lorank reproduce`` at paper scale. Settings are chosen at
one n, on seeds of their own, and used at all n. On a GPU up to n = 20 000, with PyTorch and Triton; on the CPU rank 50 at
smaller n. An interrupted command continues from its log.
"""

from __future__ import annotations

import argparse
import csv
import functools
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

from common import markdown, write_csv
from lorank.datasets import random_completion
from lorank.experiments import TUNING_SEEDS, Experiment, Instance, Point
from lorank.experiments.progress import Progress
from lorank.experiments.runner import run_experiment
from lorank.experiments.store import read
from lorank.experiments.tables import average, counted, plain, tables
from lorank.paper.completion import completion_params
from lorank.paper.methods import PROTOCOL, completion_methods

NAMES = ("prgd", "rgd", "adaptive-rgd", "shampoo", "adaptive-shampoo", "niht", "prgd-relaxed", "prgd-guarded", "auto")
MAX_ITER = 2000


@dataclass(frozen=True)
class Scale:
    """Rank and observations per degree of freedom; n with tuning and others, with tests; limits in seconds; tuning seeds."""

    cases: tuple[tuple[int, int], ...]
    tuned: tuple[int, int]
    others: tuple[tuple[int, int], ...]
    seconds: float
    tuning_seconds: float
    seeds: tuple[int, ...]
    names: tuple[str, ...]


SCALES = {
    "cuda": Scale(((100, 7), (50, 6)), (8000, 2), ((20_000, 2), (14_000, 2)), 8.0, 2.5, TUNING_SEEDS[:1], NAMES),
    "cpu": Scale(((50, 6),), (1500, 5), (), 60.0, 20.0, TUNING_SEEDS, ("prgd", "rgd", "adaptive-rgd", "shampoo", "auto")),
    "cpu-quick": Scale(((5, 6),), (150, 2), ((200, 1),), 5.0, 5.0, TUNING_SEEDS[:1], ("prgd", "rgd", "auto")),
}


class Ranks(Experiment):
    """Uniform factors; on a GPU drawn there: not the problems of the experiment on the CPU, but of the same kind."""

    name, title = "completion-ranks", "Completion at ranks 50 and 100"
    protocol, instances_kept = PROTOCOL, 1

    def __init__(self, device: str) -> None:
        self.device = device

    def points(self, scale: str) -> list[Point]:
        given = SCALES[self.device]
        methods = [method for method in completion_methods("paper") if method.name in given.names]

        def point(rank: int, ratio: int, n: int, tests: int) -> Point:
            own = completion_params(n, rank, ratio)
            tuned = completion_params(given.tuned[0], rank, ratio)
            return Point(
                own,
                methods,
                seeds=range(tests),
                max_iter=MAX_ITER,
                max_seconds=given.seconds,
                tuning_seeds=given.seeds,
                tuning_seconds=given.tuning_seconds,
                tuned_at=None if own == tuned else tuned,
            )

        return [point(*case, *size) for size in (given.tuned, *given.others) for case in given.cases]

    def instance(self, point: Point, seed: int) -> Instance:
        p = point.params
        if self.device != "cuda":
            found = random_completion(p["n1"], p["n2"], p["rank"], oversampling=p["oversampling"], seed=seed)
            return Instance(found[0], p["rank"], found[1])
        import torch

        from gpu import random_problem

        torch.cuda.empty_cache()
        problem, truth, _ = random_problem(int(p["n1"]), int(p["m"]), int(p["rank"]), torch.float64, seed)
        return Instance(problem, int(p["rank"]), truth)


def run(log: Path, device: str, seconds: float, workers: int) -> None:
    """Make the runs; after so many seconds stop, and keep what has ended."""
    from lorank.experiments.single_process import warm_up

    shown = Progress("ranks", functools.partial(print, flush=True))
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise SystemExit("benchmarks/paper_ranks.py run needs a CUDA GPU, and PyTorch sees none: pass --on cpu")
    warm_up()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored where a shell starts this in the background
    stop = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    stop.daemon = True
    stop.start()
    try:
        run_experiment(Ranks(device), log, workers=workers, progress=shown)
    except KeyboardInterrupt:
        print("time is up: go on with the same command")


def table(log: Path, device: str, out: Path) -> None:
    """Iterations and seconds, means over the tests: a page, and the table that the reproduction's page shows."""
    _, records = read(log)
    found = tables([{"experiment": Ranks.name, "scale": "paper", **record} for record in records])
    lines = []
    for case, means in average(found.results).items():
        for name in NAMES:
            if name not in means:
                continue
            mean = means[name]
            bound = "≥ " if mean.at_least else ""
            lines.append(
                {
                    "rank": case.rank,
                    "n": plain(case.n1),
                    "m": plain(case.m),
                    "method": name,
                    "recovered": f"{mean.reached} of {len(mean.rows)}",
                    "iterations": "failed" if mean.failed else f"{bound}{mean.of('iterations').mean:.0f}",
                    "seconds": "" if mean.failed else f"{bound}{mean.of('seconds').mean:.2f}",
                    "protocol": str(mean.rows[0].protocol),
                }
            )
    new = {(str(line["rank"]), line["n"]) for line in lines}
    if out.with_suffix(".csv").exists():  # points that were not run anew
        with out.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
            lines += [
                line | {"protocol": line.get("protocol", "2")}
                for line in csv.DictReader(file)
                if (line["rank"], line["n"]) not in new
            ]
    lines.sort(key=lambda line: (int(line["rank"]), int(line["m"].replace("\N{NO-BREAK SPACE}", ""))))
    settings = {
        (record["params"]["rank"], record["method"]): record["chosen"] for record in records if record["kind"] == "tuning"
    }
    about, grid, given = found.results[0], len(completion_methods("paper")[0].grid), SCALES[device]
    on = "one NVIDIA H200, double precision, wall-clock" if device == "cuda" else f"{about.machine}, one thread, CPU"
    text = [
        "# Ranks 50 and 100 on a GPU" if device == "cuda" else "# Rank 50 with wide grids",
        "",
        f"`benchmarks/paper_ranks.py`, {about.date}, {on} seconds. These runs are a table",
        "of their own: compare methods within it. Every method had the same budget:",
        f"{grid} candidates at n = {plain(given.tuned[0])}, {counted(len(given.seeds), 'tuning seed')}, at most",
        f"{given.tuning_seconds:g} s each; adaptive-RGD, guarded PRGD and auto have nothing to choose. A run ends at an error",
        f"of 1e-4, after {plain(MAX_ITER)} iterations or {given.seconds:g} s; where the first test runs out of time the others",
        "are left out. Rows of protocol 2 are of 16 November: 8 candidates from narrower grids, in which RGD's steps ended",
        "at 0.35/p. Seconds of protocol 3 were measured while the host's processors were busy, and are up to three",
        "times as long: compare iterations between protocols.",
        "",
        *markdown(lines),
        "",
        "Settings chosen:",
        "",
        *(f"- rank {rank}, {name}: `{chosen}`" for (rank, name), chosen in sorted(settings.items())),
        "",
    ]
    out.write_text("\n".join(text), encoding="utf-8")
    write_csv(lines, out.with_suffix(".csv"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--on", choices=SCALES, default="cuda")
    parser.add_argument("--seconds", type=float, default=270.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.what == "run":
        run(args.log, args.on, args.seconds, args.workers)
    else:
        folder = Path("docs/reproduction")
        table(args.log, args.on, args.out or folder / ("ranks-gpu.md" if args.on == "cuda" else "ranks-cpu.md"))


if __name__ == "__main__":
    main()
