"""The paper's Figure 1 at ranks 50 and 100 up to n = 20 000, on a GPU: iterations and seconds to a relative error of 1e-4.

    python benchmarks/paper_ranks.py run --log runs.jsonl [--seconds 270]
    python benchmarks/paper_ranks.py table --log runs.jsonl [--out docs/reproduction/ranks-gpu.md]

The methods, their grids and the number of candidates are those of ``lorank reproduce`` at paper scale. Settings are chosen at
n = 8 000, on a seed of its own, and used at all n. Needs a CUDA GPU and PyTorch with Triton.
"""

from __future__ import annotations

import argparse
import functools
import os
import signal
import threading
from pathlib import Path

from common import markdown, write_csv
from lorank.experiments import TUNING_SEEDS, Experiment, Instance, Point
from lorank.experiments.progress import Progress
from lorank.experiments.runner import run_experiment
from lorank.experiments.store import read
from lorank.experiments.tables import average, plain, tables
from lorank.paper.completion import completion_params
from lorank.paper.methods import PROTOCOL, completion_methods

NAMES = ("prgd", "rgd", "adaptive-rgd", "shampoo", "adaptive-shampoo", "niht", "prgd-relaxed", "prgd-guarded", "auto")
CASES = ((100, 7), (50, 6))  # rank, observations for each degree of freedom
TUNED, SIZES = 8000, (20_000, 14_000)
SECONDS, TUNING_SECONDS, MAX_ITER = 8.0, 2.5, 2000


class Ranks(Experiment):
    """Uniform factors, drawn on the GPU: not the problems of the experiment on the CPU, but of the same kind."""

    name, title = "completion-ranks-gpu", "Completion at ranks 50 and 100 on a GPU"
    protocol, instances_kept = PROTOCOL, 1

    def points(self, scale: str) -> list[Point]:
        methods = [method for method in completion_methods("paper") if method.name in NAMES]

        def point(rank: int, ratio: int, n: int, tests: int) -> Point:
            own = completion_params(n, rank, ratio)
            tuned = completion_params(TUNED, rank, ratio)
            return Point(
                own,
                methods,
                seeds=range(tests),
                max_iter=MAX_ITER,
                max_seconds=SECONDS,
                tuning_seeds=TUNING_SEEDS[:1],
                tuning_seconds=TUNING_SECONDS,
                tuned_at=None if own == tuned else tuned,
            )

        small = [point(rank, ratio, TUNED, 2) for rank, ratio in CASES]
        return [*small, *(point(rank, ratio, n, 2) for n in SIZES for rank, ratio in CASES)]

    def instance(self, point: Point, seed: int) -> Instance:
        import torch

        from gpu import random_problem

        p = point.params
        torch.cuda.empty_cache()
        problem, truth, _ = random_problem(int(p["n1"]), int(p["m"]), int(p["rank"]), torch.float64, seed)
        return Instance(problem, int(p["rank"]), truth)


def run(log: Path, seconds: float) -> None:
    """Make the runs; after so many seconds stop, and keep what has ended."""
    import torch

    from lorank.experiments.single_process import warm_up

    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/paper_ranks.py run needs a CUDA GPU, and PyTorch sees none")
    warm_up()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored where a shell starts this in the background
    stop = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    stop.daemon = True
    stop.start()
    try:
        run_experiment(Ranks(), log, progress=Progress("ranks", functools.partial(print, flush=True)))
    except KeyboardInterrupt:
        print("time is up: go on with the same command")


def table(log: Path, out: Path) -> None:
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
                }
            )
    settings = {
        (record["params"]["rank"], record["method"]): record["chosen"] for record in records if record["kind"] == "tuning"
    }
    about, grid = found.results[0], len(completion_methods("paper")[0].grid)
    text = [
        "# Ranks 50 and 100 on a GPU",
        "",
        f"`benchmarks/paper_ranks.py`, {about.date}, one NVIDIA H200, double precision, wall-clock seconds. These runs",
        "are a table of their own: other problems of the same kind than those of the page, on other hardware; compare",
        f"methods within the table. Every method had the same budget: {grid} candidates at n = {plain(TUNED)}, one tuning",
        f"seed, at most {TUNING_SECONDS:g} s each; adaptive-RGD, guarded PRGD and auto have nothing to choose. A run ends at",
        f"an error of 1e-4, after {plain(MAX_ITER)} iterations or {SECONDS:g} s; where the first test runs out of time the",
        "second is left out.",
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
    parser.add_argument("--seconds", type=float, default=270.0)
    parser.add_argument("--out", type=Path, default=Path("docs/reproduction/ranks-gpu.md"))
    args = parser.parse_args()
    if args.what == "run":
        run(args.log, args.seconds)
    else:
        table(args.log, args.out)


if __name__ == "__main__":
    main()
