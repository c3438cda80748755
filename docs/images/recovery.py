"""The animation of the front page: an image recovered by RGD, PRGD and the default solver.

python docs/images/recovery.py

Writes docs/_static/recovery.webp, the pictures of all frames in one file, and the numbers into docs/_static/recovery.html, a
part of the front page. The image is exactly of low rank: a photograph (of scikit-learn), truncated.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

import lorank as lr

STATIC = Path(__file__).resolve().parents[1] / "_static"
RANK, SHARE, TOL, COLUMNS = 12, 0.5, 1e-3, 8
GAP = (119, 165, 211)  # colour of missing pixels
SOLVERS = {
    "RGD": {"solver": "rgd", "start": "spectral"},
    "PRGD": {"solver": "prgd", "start": "spectral"},
    "auto (default)": {},
}


def main() -> None:
    photo = load_sample_image("china.jpg")[:402:3, 40:640:3].mean(axis=2) / 255
    U, s, Vt = np.linalg.svd(photo, full_matrices=False)
    truth = lr.FixedRank(U[:, :RANK], s[:RANK], Vt[:RANK].T)
    known = np.random.default_rng(0).random(photo.shape) < SHARE
    rows, cols = np.nonzero(known)
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), photo.shape)

    points: dict[str, list[lr.FixedRank]] = {}
    for name, options in SOLVERS.items():
        points[name] = []
        keep = points[name].append
        stop = lr.stopping.TruthDistance(truth, TOL)
        result = lr.solve(
            problem, RANK, stop=stop, max_iter=500, callbacks=[lambda p, state, clock, keep=keep: keep(state.X)], **options
        )
        print(f"{name}: {result.status} after {result.n_iter} iterations, error {truth.distance(result.X) / truth.norm():.1e}")

    last = max(map(len, points.values())) - 1
    frames = sorted({*range(7), *np.geomspace(7, last, 20).round().astype(int).tolist()})
    tiles, found = [np.where(known[..., None], np.repeat(255 * truth.to_dense()[..., None], 3, 2), GAP)], {}
    for name, path in points.items():
        shown = [min(k, len(path) - 1) for k in frames]
        place = {k: len(tiles) + i for i, k in enumerate(sorted(set(shown)))}
        tiles += [np.repeat(255 * path[k].to_dense()[..., None], 3, 2) for k in place]
        errors = [float(f"{truth.distance(path[k]) / truth.norm():.3g}") for k in shown]
        found[name] = {"tiles": [place[k] for k in shown], "errors": errors, "iterations": len(path) - 1}

    height, width = photo.shape
    lines = -(-len(tiles) // COLUMNS)
    sheet = np.zeros((lines * height, COLUMNS * width, 3), np.uint8)
    for k, tile in enumerate(tiles):
        y, x = k // COLUMNS * height, k % COLUMNS * width
        sheet[y : y + height, x : x + width] = np.clip(tile, 0, 255)
    path = STATIC / "recovery.webp"
    Image.fromarray(sheet).save(path, quality=40, method=6)
    print(f"{len(tiles)} pictures of {height} x {width} pixels, {path.stat().st_size / 1000:.0f} kB")

    numbers = {"columns": COLUMNS, "lines": lines, "frames": frames, "solvers": found}
    page = STATIC / "recovery.html"
    head, _, tail = re.split(r'(?<=<script type="application/json">)(.*)(?=</script>\n<script>)', page.read_text())
    page.write_text(head + json.dumps(numbers) + tail)


if __name__ == "__main__":
    main()
