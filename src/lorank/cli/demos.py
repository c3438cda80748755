"""``lorank demo ratings|table|phase|image``: demos on synthetic data, each with a few lines of text and a plot."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import did_you_mean
from ..io.figures import BLUE, FAINT, ORANGE, blank_figure, save_figure
from ..phase import PhaseRetrieval, phase_distance
from ..plans import solve
from ..problems import Completion
from .errors import Outcome, UsageError
from .output import check_output_path, progress


@dataclass
class Demo:
    """Result of a demo: a function that draws its plot, lines of text, numbers for JSON, and the command for own data."""

    draw: Callable[[Any], None]
    size: tuple[float, float]
    lines: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    yours: str = ""


def run_demo(name: str, out: Path, seed: int, options: Sequence[str] = ()) -> Outcome:
    """Run a demo and draw its plot to a PNG file; ``options`` that belong to the demo of solvers are refused."""
    if name not in DEMOS:
        known = ", ".join(DEMOS)
        raise UsageError(f"there is no demo {name!r}: choose {known}, or no name for solvers{did_you_mean(name, DEMOS)}")
    if options:
        raise UsageError(f"--{options[0].replace('_', '-')} is for lorank demo without a name")
    check_output_path(out, (".png",), "a plot", "--out")
    with progress(f"demo {name}"):
        demo = DEMOS[name](np.random.default_rng(seed))
        write_plot(demo, out)
    text = "\n".join([*demo.lines, f"plot: {out}", f"with your own data: {demo.yours}"])
    return Outcome({"story": name, "seed": seed, "plot": str(out), **demo.numbers}, text)


def write_plot(demo: Demo, path: str | os.PathLike[str]) -> None:
    """Draw the plot of a demo to a PNG file."""
    figure = blank_figure(*demo.size)
    demo.draw(figure)
    save_figure(figure, path)


def ratings(rng: np.random.Generator) -> Demo:
    """Ratings: predict 10 % held-out ratings, with intervals."""
    from ..estimators import MatrixCompletion

    people, films = 400, 250
    taste, style = rng.standard_normal((people, 2)), rng.standard_normal((films, 2))
    popular = rng.lognormal(sigma=0.8, size=films)
    pairs = np.argwhere(rng.random((people, films)) < np.minimum(0.12 * popular / popular.mean(), 0.9))
    offsets = 0.5 * rng.standard_normal(people)[pairs[:, 0]] + 0.5 * rng.standard_normal(films)[pairs[:, 1]]
    liking = 3.4 + offsets + 0.5 * (taste[pairs[:, 0]] * style[pairs[:, 1]]).sum(axis=1)
    stars = np.clip(np.round(liking + 0.5 * rng.standard_normal(len(pairs))), 1, 5)
    held = rng.random(len(stars)) < 0.1
    model = MatrixCompletion(bounds=(1, 5), shape=(people, films), random_state=0).fit(pairs[~held], stars[~held])
    truth, guess = stars[held], model.predict(pairs[held])
    low, high = model.predict_interval(pairs[held], coverage=0.9)
    rmse, mean = (float(np.sqrt(np.mean((x - truth) ** 2))) for x in (guess, stars[~held].mean()))
    inside = float(np.mean((low <= truth) & (truth <= high)))
    best, values = model.recommend([0], n=3, by="rating")

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        left.boxplot([guess[truth == k] for k in range(1, 6)], positions=range(1, 6), showfliers=False)
        left.set(xlabel="true rating", ylabel="prediction", title="held-out ratings")
        order = np.argsort(guess)[:: max(len(guess) // 60, 1)]
        place = np.arange(len(order))
        right.vlines(place, low[order], high[order], color=BLUE, alpha=0.35, label="90 % interval")
        right.plot(place, guess[order], ".", color=BLUE, label="prediction")
        right.plot(place, truth[order], ".", color="k", label="true rating")
        right.set(xlabel="held-out ratings in the order of predictions", ylabel="stars", title="prediction intervals")
        right.legend(fontsize=8)

    lines = [
        f"{len(pairs):,} synthetic ratings of {films} films by {people} users; 10 % are held out.",
        f"The model selects rank {model.rank_}. RMSE on held-out ratings: {rmse:.2f}; of the mean: {mean:.2f}.",
        f"Coverage of the 90 % prediction intervals: {100 * inside:.0f} %.",
        f"Recommended to user 0: films {', '.join(map(str, best[0]))} (predicted {', '.join(f'{v:.1f}' for v in values[0])}).",
    ]
    numbers = {"rank": model.rank_, "rmse": rmse, "rmse_of_the_mean": mean, "coverage": inside}
    return Demo(draw, (10, 3.8), lines, numbers, "lorank complete ratings.csv -o model.lorank --report page.html")


def table(rng: np.random.Generator) -> Demo:
    """Time series of sensors: scattered missing values and a common outage."""
    from ..tables import TableImputer

    sensors, steps = 12, 14 * 24
    time = np.arange(steps)
    causes = np.stack([np.sin(2 * np.pi * time / 24), np.cos(2 * np.pi * time / 24), np.tanh((time - 150) / 30.0)], axis=1)
    whole = 15 + causes @ rng.normal(3, 1.5, (3, sensors)) + 0.4 * rng.standard_normal((steps, sensors))
    gaps = rng.random(whole.shape) < 0.1
    for sensor in range(sensors):
        begin = rng.integers(0, steps - 30)
        gaps[begin : begin + 24, sensor] = True
    dark = slice(200, 212)
    gaps[dark] = True
    sheet = np.where(gaps, np.nan, whole)
    imputer = TableImputer(time=True, random_state=0)
    filled = imputer.fit_transform(sheet)
    low, high = imputer.predict_interval(sheet, coverage=0.9)
    lines_between = np.column_stack([np.interp(time, time[~g], c[~g]) for g, c in zip(gaps.T, whole.T, strict=True)])
    errors = [float(np.sqrt(np.mean((x - whole)[gaps] ** 2))) for x in (filled, lines_between)]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.7])
        left.imshow(sheet.T, aspect="auto", interpolation="nearest", extent=(0, steps / 24, sensors, 0))
        left.set(title="readings (white: missing)", xlabel="day", ylabel="sensor")
        window, days = slice(170, 250), time / 24
        hidden = {"where": gaps[window, 0], "color": BLUE, "alpha": 0.25}  # observed values have no interval
        right.fill_between(days[window], low[window, 0], high[window, 0], **hidden, label="90 % interval")
        right.plot(days[window], whole[window, 0], ".", color=FAINT, label="true values")
        right.plot(days[window], np.where(gaps, lines_between, np.nan)[window, 0], color=ORANGE, label="linear interpolation")
        right.plot(days[window], np.where(gaps, filled, np.nan)[window, 0], color=BLUE, label="imputed")
        right.set(title="sensor 0", xlabel="day")
        right.margins(y=0.25)
        right.legend(fontsize=8, ncols=4, loc="upper center")

    lines = [
        f"{sensors} synthetic sensors, {steps} hours: {gaps.mean():.0%} of the readings are missing, all for half a day.",
        f"RMSE of imputed values: {errors[0]:.2f} (noise: 0.40); of linear interpolation: {errors[1]:.2f}.",
    ]
    numbers = {"missing": float(gaps.mean()), "rmse": errors[0], "rmse_of_lines": errors[1]}
    return Demo(draw, (10, 3.6), lines, numbers, "lorank impute series.csv -o filled.csv --time date")


def flower(side: int) -> np.ndarray:
    """An image of side x side pixels with values between 0 and 1."""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    petals = np.exp(-(((radius - 0.55 - 0.18 * np.cos(7 * angle)) / 0.12) ** 2))
    middle = (radius < 0.25) * (0.6 + 0.4 * np.cos(40 * radius))
    leaves = 0.35 * np.exp(-(((radius - 0.85) / 0.08) ** 2)) * (np.cos(5 * angle + 1) > 0.3)
    return np.clip(petals * (0.7 + 0.3 * np.cos(14 * angle)) + middle + leaves, 0, 1)


def phase(rng: np.random.Generator) -> Demo:
    """Phase retrieval: an image from coded diffraction patterns."""
    image = flower(96)
    masks = rng.choice(np.array([1, -1, 1j, -1j]), (5, *image.shape))
    intensities = np.abs(np.fft.fft2(masks * image)) ** 2
    result = solve(PhaseRetrieval.coded_diffraction(masks, intensities))
    turn = np.vdot(result.estimate.signal, image)
    signal = result.estimate.signal
    found, error = signal * turn / abs(turn), float(phase_distance(signal, image + 0j))

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.3])
        shown = {"one pattern (log)": np.fft.fftshift(np.log1p(intensities[0])), "recovered": found.real, "true": image}
        for axis, (title, picture) in zip(axes, shown.items(), strict=False):
            axis.imshow(picture, cmap="magma")
            axis.set(title=title, xticks=[], yticks=[])
        axes[3].semilogy(result.history.residual, color=BLUE)
        axes[3].set(title="relative residual", xlabel="iteration")

    lines = [
        f"An image of {image.shape[0]} x {image.shape[1]} pixels from five coded diffraction patterns without phases.",
        f"{result.status} after {result.n_iter} iterations, {result.seconds:.1f} s: relative error {error:.0e}.",
    ]
    numbers = {"status": str(result.status), "iterations": result.n_iter, "relative_error": error}
    return Demo(draw, (12, 3.1), lines, numbers, "in Python, lr.solve(lr.PhaseRetrieval.coded_diffraction(masks, intensities))")


def image(rng: np.random.Generator) -> Demo:
    """Robust completion of an image with missing and corrupted pixels."""
    t, u = np.linspace(0, 1, 200), np.linspace(0, 1, 260)
    rank = 6
    warp = np.stack([np.cos(2 * np.pi * (k + 1) * t * (1 + 0.1 * k)) for k in range(rank)], axis=1)
    weft = np.stack([np.sin(2 * np.pi * (2 * k + 1) * u + k) for k in range(rank)], axis=1)
    whole = 0.5 + warp @ (weft * (0.5 / np.arange(1, rank + 1))).T / 2.5
    known = rng.random(whole.shape) < 0.3
    rows, cols = np.nonzero(known)
    values = whole[rows, cols] + 0.01 * rng.standard_normal(len(rows))
    spoilt = rng.random(len(rows)) < 0.1
    values[spoilt] = rng.choice([0.0, 1.0], spoilt.sum())
    result = solve(Completion(rows, cols, values, whole.shape, loss="robust"), rank + 1)
    found = result.X.to_dense()
    error = float(np.sqrt(np.mean((found - whole) ** 2)))
    caught = float(result.outliers.mask[spoilt & (abs(values - whole[rows, cols]) > 0.1)].mean()) if result.outliers else 0.0

    def draw(figure: Any) -> None:
        import matplotlib

        seen = np.full(whole.shape, np.nan)
        seen[rows, cols] = values
        shown = {"30 % of the pixels (blue: missing), 10 % corrupted": seen, "recovered": found, "true": whole}
        grey = matplotlib.colormaps["gray"].with_extremes(bad="#cfe3f5")
        for axis, (title, picture) in zip(figure.subplots(1, 3), shown.items(), strict=True):
            axis.imshow(picture, cmap=grey, vmin=0, vmax=1)
            axis.set_title(title, fontsize=10)
            axis.axis("off")

    lines = [
        f"A pattern of {whole.shape[0]} x {whole.shape[1]} pixels: {known.mean():.0%} observed, 10 % of them corrupted.",
        f"RMSE of robust completion: {error:.3f} (white is 1); {caught:.0%} of the corrupted pixels are detected.",
        "Photographs have low rank only approximately: see the gallery's page on images.",
    ]
    numbers = {"status": str(result.status), "rmse": error, "spoilt_found": caught}
    return Demo(
        draw,
        (11, 3.2),
        lines,
        numbers,
        'in Python, lr.solve(lr.Completion.from_dense(array_with_nan, loss="robust"), rank="auto")',
    )


DEMOS: dict[str, Callable[[np.random.Generator], Demo]] = {"ratings": ratings, "table": table, "phase": phase, "image": image}
