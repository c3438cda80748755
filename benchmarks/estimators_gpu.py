"""The estimators on a GPU: seconds of whole fits, from NumPy arrays in main memory to a model there.

    python benchmarks/estimators_gpu.py [--device cuda] [--only 10M default 100M 1B]

Noisy values of rank 5 with offsets; at 100 million and a billion, rows and columns are drawn with frequencies ~ k^-0.5. Prints
for each case the seconds of the first fit, which warms up, and of a second one, the peak of the device's memory, and the error
against the truth on entries that were not observed. A case that does not fit is refused beforehand: the refusal is printed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

import lorank as lr
from common import versions

CASES: dict[str, dict[str, Any]] = {
    "10M": {"m": 10_000_000, "shape": (100_000, 20_000), "options": {"rank": 10, "regularization": "learned"}},
    "default": {"m": 10_000_000, "shape": (100_000, 20_000), "options": {}},
    "100M": {
        "m": 100_000_000,
        "shape": (500_000, 50_000),
        "options": {"rank": 16, "regularization": "learned"},
        "uneven": True,
    },
    "1B": {
        "m": 1_000_000_000,
        "shape": (5_000_000, 200_000),
        "options": {"rank": 16, "regularization": "learned"},
        "uneven": True,
        "on_device": True,
        "repeat": 1,
    },
    "small": {"m": 200_000, "shape": (2_000, 1_000), "options": {}, "uneven": True},  # to try the script
    "small, drawn there": {
        "m": 200_000,
        "shape": (2_000, 1_000),
        "options": {"rank": 5, "regularization": "learned"},
        "uneven": True,
        "on_device": True,
    },
}
NOISE = 0.5


def drawn(draw: np.random.Generator, n: int, count: int, uneven: bool) -> np.ndarray:
    """Indices below n: all alike likely, or with frequencies ~ k^-0.5, which the square of a uniform number has."""
    if not uneven:
        return draw.integers(0, n, count, dtype=np.int32)
    return np.minimum(n * draw.random(count, dtype=np.float32) ** 2, n - 1).astype(np.int32)


def made(m: int, shape: tuple[int, int], uneven: bool) -> tuple[np.ndarray, np.ndarray, Any]:
    """Different pairs and their values; and the truth at any pairs."""
    draw = np.random.default_rng(0)
    left, right = (draw.standard_normal((n, 5), dtype=np.float32) for n in shape)

    def truth(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        out = np.empty(len(rows), np.float32)
        for k in range(0, len(rows), 1 << 22):
            part = slice(k, k + (1 << 22))
            x, y = left[rows[part]], right[cols[part]]
            out[part] = 3.0 + 0.5 * np.einsum("ij,ij->i", x, y) + 0.3 * x[:, 0]
        return out

    more = int(1.2 * m) if uneven else m + 20 * int(m**0.5) + m * m // (shape[0] * shape[1])
    keys = drawn(draw, shape[0], more, uneven).astype(np.int64) * shape[1] + drawn(draw, shape[1], more, uneven)
    keys = np.unique(keys)[:m] if not uneven else draw.permutation(np.unique(keys))[:m]
    pairs = np.empty((len(keys), 2), np.int32)
    np.floor_divide(keys, shape[1], out=pairs[:, 0], casting="unsafe")
    np.remainder(keys, shape[1], out=pairs[:, 1], casting="unsafe")
    del keys
    values = truth(pairs[:, 0], pairs[:, 1])
    values += np.float32(NOISE) * draw.standard_normal(len(values), dtype=np.float32)
    return pairs, values, truth


def made_on(device: str, m: int, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, Any]:
    """The same, uneven, about m of them, drawn on the device: a billion pairs take minutes to sort in main memory."""
    import torch

    draw = torch.Generator(device).manual_seed(0)

    def indices(n: int) -> Any:
        return (n * torch.rand(int(1.2 * m), generator=draw, device=device) ** 2).long().clamp_(max=n - 1)

    keys = (indices(shape[0]).mul_(shape[1]).add_(indices(shape[1]))).unique()
    if len(keys) > m:
        keys = keys[torch.rand(len(keys), generator=draw, device=device) < m / len(keys)]
    left, right = (torch.randn(n, 5, generator=draw, device=device) for n in shape)
    pairs, values = np.empty((len(keys), 2), np.int32), np.empty(len(keys), np.float32)

    def truth_there(rows: Any, cols: Any) -> Any:
        x = left[rows]
        return 3.0 + 0.5 * (x * right[cols]).sum(1) + 0.3 * x[:, 0]

    for k in range(0, len(keys), 1 << 26):
        part = keys[k : k + (1 << 26)]
        rows, cols = part // shape[1], part % shape[1]
        found = truth_there(rows, cols) + NOISE * torch.randn(len(part), generator=draw, device=device)
        pairs[k : k + len(part)] = torch.stack([rows, cols], 1).int().cpu().numpy()
        values[k : k + len(part)] = found.cpu().numpy()
    left, right = left.cpu(), right.cpu()

    def truth(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        return truth_there(torch.as_tensor(rows).long(), torch.as_tensor(cols).long()).numpy()

    return pairs, values, truth


def measure(name: str, case: dict[str, Any], device: str) -> None:
    shape, uneven = case["shape"], case.get("uneven", False)
    begin = time.perf_counter()
    on_device = case.get("on_device", False)
    pairs, values, truth = made_on(device, case["m"], shape) if on_device else made(case["m"], shape, uneven)
    reset(device)
    print(f"{name}: {len(values):,} values of a {shape[0]:,} x {shape[1]:,} matrix, {case['options']}", flush=True)
    print(f"  drawn in {time.perf_counter() - begin:.1f} s", flush=True)
    draw = np.random.default_rng(1)
    new = np.column_stack([drawn(draw, n, 1_000_000, uneven) for n in shape])
    for turn in range(case.get("repeat", 2)):
        reset(device)
        begin = time.perf_counter()
        try:
            model = lr.MatrixCompletion(device=device, shape=shape, **case["options"]).fit(pairs, values)
        except MemoryError as error:
            print(f"  refused after {time.perf_counter() - begin:.1f} s: {error}", flush=True)
            return
        seconds = time.perf_counter() - begin
        sweeps = float(model.history_.seconds[-1])
        print(
            f"  fit {turn + 1}: {seconds:.2f} s ({model.n_iter_} last sweeps in {sweeps:.2f} s, {model.status_}), "
            f"rank {model.rank_}, peak {peak(device)} on the device",
            flush=True,
        )
    off = np.sqrt(np.mean((model.predict(new) - truth(new[:, 0], new[:, 1])) ** 2))
    print(f"  root mean squared error against the truth {off:.4f} (noise {NOISE})", flush=True)


def reset(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak(device: str) -> str:
    if not device.startswith("cuda"):
        return "-"
    import torch

    return f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=["10M", "default", "100M", "1B"])
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(versions())
    for name in chosen.only:
        measure(name, CASES[name], chosen.device)


if __name__ == "__main__":
    main()
