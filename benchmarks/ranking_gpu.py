"""Whole-matrix least squares and top-10 lists on a GPU: seconds a sweep, and for all users' lists.

    python benchmarks/ranking_gpu.py --pairs 50_000_000 --users 1_000_000 --items 200_000 --factors 64
    python benchmarks/ranking_gpu.py --lists 1_000_000 --items 1_000_000 --factors 64

Pairs are made on the device, the share of an item falling with its number as 1 / (10 + number); repeated ones are dropped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from lorank.backends import device_backend
from lorank.backends.top_k import top_columns
from lorank.factorization.implicit import ImplicitSettings, fit_implicit, random_factors, ridge_penalties


def objective(observations, backend, settings, sides):
    """The objective of implicit-feedback ALS, see lorank.factorization.implicit."""
    left = observations.residual(*sides)
    everywhere = np.sum(np.prod([backend.gram(side, side).astype(float) for side in sides], axis=0))
    penalties = zip(ridge_penalties(observations, backend, settings), sides, strict=True)
    penalty = sum(float((ridge * backend.astype(backend.row_squares(side), np.float64)).sum()) for ridge, side in penalties)
    return float((left * left).sum()) + settings.zeros * float(everywhere) + penalty


def clock():
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def observations(backend, device, pairs, users, items, seed=0):
    """Ones at random places, row by row."""
    generator = torch.Generator(device).manual_seed(seed)
    share = torch.cumsum(1 / (10 + torch.arange(items, device=device, dtype=torch.float64)), 0)
    col = torch.searchsorted(share / share[-1], torch.rand(pairs, device=device, generator=generator, dtype=torch.float64))
    row = torch.randint(users, (pairs,), device=device, generator=generator)
    keys = torch.unique(row * items + col.clamp(max=items - 1))
    del row, col
    rows, cols = keys // items, (keys % items).to(torch.int32)
    del keys
    indptr = torch.zeros(users + 1, dtype=torch.int64, device=device)
    indptr[1:] = torch.cumsum(torch.bincount(rows, minlength=users), 0)
    return backend.make_observations(indptr, cols, torch.ones(len(cols), device=device), items)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--lists", type=int, default=0, help="users whose top-10 lists are made")
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    backend, device = device_backend(arguments.device), torch.device(arguments.device)
    line = {"device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu", "factors": arguments.factors}
    if arguments.pairs:
        found = observations(backend, device, arguments.pairs, arguments.users, arguments.items)
        settings = ImplicitSettings(arguments.factors, 5 * found.m / (arguments.users * arguments.items), 0.02, max_iter=5)
        start = random_factors(backend, found.shape, settings, np.float32)
        times = [clock()]
        sides = fit_implicit(found, backend, settings, start, after_sweep=lambda _: times.append(clock()))
        line |= {
            "pairs": found.m,
            "users": arguments.users,
            "items": arguments.items,
            "sweeps": np.diff(times).round(4).tolist(),
        }
        line |= {"objective": [objective(found, backend, settings, s) for s in (start, sides)]}
        if torch.cuda.is_available():
            line["peak_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
    if arguments.lists:
        generator = torch.Generator(device).manual_seed(1)
        left, right = (
            torch.randn(n, arguments.factors, device=device, generator=generator) for n in (arguments.lists, arguments.items)
        )
        top_columns(backend, left[:256], right, 10)
        begin = clock()
        cols, scores = top_columns(backend, left, right, 10)
        line |= {"lists": arguments.lists, "of": arguments.items, "seconds": round(clock() - begin, 2)}
        some = np.random.default_rng(0).integers(0, arguments.lists, 64)  # against full sorts
        whole = left[torch.from_numpy(some).to(device)].double() @ right.double().T
        exact = whole.sort(dim=1, descending=True).values[:, :10].cpu().numpy()
        line["largest_difference"] = float(abs(exact - scores[some]).max())
        line["lists_alike"] = int((whole.topk(10, dim=1).indices.cpu().numpy() == cols[some]).all(1).sum())
    print(json.dumps(line))


if __name__ == "__main__":
    main()
