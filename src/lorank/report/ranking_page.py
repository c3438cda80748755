"""How good recommendations are, as a part of a page: models and baselines beside each other."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.checks import counted
from ..evaluation import RankingScores
from ..io.archive import atomic
from .model_page import BLUE, GREEN, ORANGE, assemble, bars, cards, frame, line, plot

GREY = "#8a94a3"
LOOK = {"showlegend": False, "bargap": 0.25}  # the table has the colours beside the names
COLOURS = (BLUE, GREEN, ORANGE, GREY)
MEASURES = (("NDCG", "ndcg"), ("recall", "recall"), ("precision", "precision"), ("MAP", "map"), ("hit rate", "hit_rate"))
LENGTHS = (1, 2, 3, 5, 10, 20, 50)
OTHER_ORDER = "the same by rating"  # as the scores name the model's other order: no rival of the model


@dataclass(frozen=True)
class Ranking:
    """What recommendations were worth on held-out values.

    Attributes
    ----------
    n : int
        Places that count.
    positive : float
        Held-out values from here on count as liked.
    held_out : int
        How many there are.
    scores : dict from names to RankingScores
        The model first, then what it is compared with.
    along : dict from names to lists of RankingScores
        Of lists of other lengths.
    errors : dict from names to float
        RMSE of predictions on all that was held out, where there are predictions.
    seconds : float
        Of fitting and recommending.
    """

    n: int
    positive: float
    held_out: int
    scores: dict[str, RankingScores]
    along: dict[str, list[RankingScores]]
    errors: dict[str, float]
    seconds: float

    @property
    def users(self) -> int:
        return next(iter(self.scores.values())).users

    @property
    def head(self) -> list[str]:
        """Of the table."""
        return ["", *(f"{title}@{self.n}" for title, _ in MEASURES), "coverage", "novelty", "RMSE"]

    @property
    def lines(self) -> list[list[str]]:
        """Of the table: one for each model."""
        found = []
        for name, one in self.scores.items():
            numbers = [f"{getattr(one, key):.4f}" for _, key in MEASURES] + [f"{one.coverage:.1%}", f"{one.novelty:.1f} bits"]
            found.append([name, *numbers, f"{self.errors[name]:.4f}" if name in self.errors else "-"])
        return found

    @property
    def best_other(self) -> str:
        """The baseline with the largest NDCG."""
        _, *others = (name for name in self.scores if name != OTHER_ORDER)
        return max(others, key=lambda name: self.scores[name].ndcg)

    @property
    def said(self) -> str:
        """The verdict in a sentence: whether the model is worth it."""
        model, best = next(iter(self.scores)), self.best_other
        own, other = self.scores[model].ndcg, self.scores[best].ndcg
        if other <= 0:
            return f"{model} finds {own:.4f} (NDCG@{self.n}), all others nothing."
        gain = own / other - 1
        if gain > 0.02:
            return f"{model} finds {gain:.0%} more (NDCG@{self.n}) than the best of the others, {best}."
        if gain < -0.02:
            return f"{best} finds {1 / (1 + gain) - 1:.0%} more (NDCG@{self.n}) than {model}: the model is not worth it here."
        return f"{model} and {best} find the same (NDCG@{self.n}): the model is not worth it here."

    @property
    def advice(self) -> str:
        """Where the model's other order is the better one."""
        own, other = next(iter(self.scores.values())).ndcg, self.scores.get(OTHER_ORDER)
        if other is None or other.ndcg <= 1.02 * own:
            return ""
        return f" Ordered by predicted rating alone (--by rating) it finds {other.ndcg / own - 1:.0%} more." if own > 0 else ""


def ranking_section(found: Ranking) -> tuple[str, dict[str, dict[str, Any]]]:
    """HTML, and its plots by name."""
    plots = {"ranking": _measures(found)}
    if found.along:
        plots["lengths"] = _lengths(found)
    cells = ["".join(f"<th>{html.escape(c)}</th>" for c in found.head)]
    for (name, *numbers), colour in zip(found.lines, COLOURS, strict=False):
        swatch = f'<i class="swatch" style="background:{colour}"></i>'
        cells.append(f"<td>{swatch}{html.escape(name)}</td>" + "".join(f"<td>{html.escape(c)}</td>" for c in numbers))
    told = (
        f"{found.said}{found.advice} "
        f"Against {counted(found.held_out, 'held-out value')} of {found.positive:g} or more, of {found.users:,} rows that "
        f"have some; lists of {found.n}. Novelty is how rarely others have what is recommended; coverage, how much is ever "
        "recommended."
    )
    text = (
        f'<h2>Recommendations</h2><p>{html.escape(told)}</p><div class="wide"><table class="numbers">'
        + "".join(f"<tr>{row}</tr>" for row in cells)
        + f'</table></div><div class="plots">{"".join(frame(name, one) for name, one in plots.items())}</div>'
    )
    return text, plots


def write_ranking_page(path: str | Path, found: Ranking, title: str) -> Path:
    """A page of its own, as ``lorank evaluate --report`` writes it."""
    text, plots = ranking_section(found)
    best = next(iter(found.scores.values()))
    facts = [
        (f"{found.held_out:,}", "held-out values that were liked"),
        (f"{found.users:,}", "rows that have some"),
        (f"{best.ndcg:.4f}", f"NDCG@{found.n} of the model"),
        (f"{found.scores[found.best_other].ndcg:.4f}", f"of the best baseline, {found.best_other}"),
    ]
    body = [f"<h1>{html.escape(title)}</h1>", cards(facts), text]
    with atomic(path) as temporary:
        temporary.write_text(assemble(title, body, plots), encoding="utf-8")
    return Path(path)


def _measures(found: Ranking) -> dict[str, Any]:
    titles = [title for title, _ in MEASURES]
    data = [
        bars(titles, [getattr(one, key) for _, key in MEASURES], colour, name)
        for (name, one), colour in zip(found.scores.items(), COLOURS, strict=False)
    ]
    y = {"title": {"text": "mean over rows"}, "rangemode": "tozero"}
    return plot(f"Beside the baselines, lists of {found.n}", data, {"type": "category"}, y, layout=LOOK)


def _lengths(found: Ranking) -> dict[str, Any]:
    data = [
        line([one.n for one in scores], [one.recall for one in scores], colour, name, "lines+markers")
        for (name, scores), colour in zip(found.along.items(), COLOURS, strict=False)
    ]
    ticks = [one.n for one in next(iter(found.along.values()))]
    x = {"title": {"text": "length of the list"}, "type": "log", "tickvals": ticks}
    return plot("Recall along the length of lists", data, x, {"title": {"text": "recall"}, "rangemode": "tozero"}, layout=LOOK)
