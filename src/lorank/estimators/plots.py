"""Plots of fitted estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..io.figures import EITHER, EITHER_BLUE, ORANGE, blank_figure, draw_predictions, legend, style_axes

WIDTH, HEIGHT = 4.4, 3.4  # of a panel, in inches
MAX_ITEMS, TICK_SIZE = 30, 8  # of a matrix of items


def plot_ratings(model: Any, figure: Any = None) -> Any:
    """Convergence, singular values, held-out errors of the ranks that were tried, and held-out predictions."""
    learned = [one for one in model.curve_ if one.regularization is None] or list(model.curve_)
    held = model.heldout_ is not None and len(model.heldout_[0]) > 0
    panels = [_convergence, _spectrum, *([_ranks] if len(learned) > 1 else []), *([_predictions] if held else [])]
    return _draw(panels, model, figure)


def plot_implicit(model: Any, figure: Any = None) -> Any:
    """Held-out NDCG of the settings and of the orders of recommendations that were compared."""
    panels = [*([_settings] if model.curve_ else []), *([_orders] if model.orders_ else [])]
    return _draw(panels or [_settings], model, figure)


def plot_items(model: Any, figure: Any = None) -> Any:
    """Weights between the items with the most pairs, as a matrix of colours."""
    ranking = model.state_.ranking
    top = np.argsort(-ranking.popularity, kind="stable")[:MAX_ITEMS]
    weights = np.stack([ranking.items.column(k)[top] for k in top], axis=1)
    if figure is None:
        figure = blank_figure(1.4 * WIDTH, 1.4 * HEIGHT, transparent=True)
    axes, limit = figure.subplots(), float(np.abs(weights).max()) or 1.0
    title = f"Item-to-item weights, regularization {float(f'{model.regularization_:.3g}'):,g}"
    style_axes(axes, "scored item", "item of the user", title, transparent=True)
    axes.grid(False)
    image = axes.imshow(weights, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    names = [str(name) for name in np.asarray(model.item_ids_)[top]]
    axes.set_xticks(range(len(top)), names, rotation=90, fontsize=TICK_SIZE)
    axes.set_yticks(range(len(top)), names, fontsize=TICK_SIZE)
    figure.colorbar(image, ax=axes).ax.tick_params(colors=EITHER)
    return figure


def _draw(panels: list[Any], model: Any, figure: Any) -> Any:
    if figure is None:
        figure = blank_figure(WIDTH * len(panels), HEIGHT, transparent=True)
    for axes, panel in zip(np.ravel(figure.subplots(1, len(panels))), panels, strict=True):
        panel(axes, model)
        legend(axes, transparent=True)
    return figure


def _convergence(axes: Any, model: Any) -> None:
    """The change of the matrix: the residual may rise, since regularization is learned on the way."""
    history = model.history_
    moved = np.isfinite(history.step) & (history.step > 0)
    style_axes(axes, "iteration", "change of the matrix", f"{model.status_}, {model.n_iter_} iterations", transparent=True)
    axes.plot(history.iteration[moved], history.step[moved], "o-", color=EITHER_BLUE, markersize=4)
    axes.xaxis.get_major_locator().set_params(integer=True)
    if moved.any():
        axes.set_yscale("log")


def _spectrum(axes: Any, model: Any) -> None:
    found = model.spectrum_
    style_axes(axes, "component", "singular value", "Spectrum", transparent=True)
    if found is None:
        axes.plot(np.arange(1, len(model.s_) + 1), model.s_, "o-", color=EITHER_BLUE, markersize=5)
    else:
        axes.set_ylabel("singular value, normalized")
        k = np.arange(1, len(found.values) + 1) + found.fitted
        axes.plot(k, found.values, "o", color=EITHER_BLUE, markersize=5, label="observations")
        axes.axhline(found.edge, color=ORANGE, linestyle=(0, (4, 2)), label="null edge (noise)")
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])


def _ranks(axes: Any, model: Any) -> None:
    style_axes(axes, "rank", "held-out error", f"Selected rank: {model.rank_}", transparent=True)
    for learned, colour, label in ((True, EITHER_BLUE, "learned priors"), (False, ORANGE, "penalty")):
        best: dict[int, float] = {}
        for one in model.curve_:
            if (one.regularization is None) == learned:
                best[one.rank] = min(one.error, best.get(one.rank, np.inf))
        if best:
            axes.plot(sorted(best), [best[rank] for rank in sorted(best)], "o-", color=colour, markersize=5, label=label)


def _predictions(axes: Any, model: Any) -> None:
    draw_predictions(axes, *model.heldout_[:2])


def _settings(axes: Any, model: Any) -> None:
    """NDCG of each setting as a colour; the best one is marked."""
    style_axes(axes, "regularization", "weight of unobserved pairs", "NDCG@20 on held-out items", transparent=True)
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter("")
        axis.set_major_formatter(lambda x, _: f"{x:g}")
    found = np.array([(one.regularization, one.zeros, one.ndcg) for one in model.curve_]).reshape(-1, 3)
    points = axes.scatter(*found[:, :2].T, c=found[:, 2], s=90, cmap="viridis")
    if len(found):
        best = found[np.argmax(found[:, 2])]
        axes.scatter(*best[:2], s=220, facecolors="none", edgecolors=ORANGE, linewidths=2)
        axes.figure.colorbar(points, ax=axes).ax.tick_params(colors=EITHER)


def _orders(axes: Any, model: Any) -> None:
    names = [one.order for one in model.orders_]
    style_axes(axes, "", "NDCG on held-out items", f"Selected order: {model.order_}", transparent=True)
    axes.bar(
        names, [one.ndcg for one in model.orders_], color=[ORANGE if name == model.order_ else EITHER_BLUE for name in names]
    )
