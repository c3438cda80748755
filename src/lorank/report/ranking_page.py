"""HTML report of a ranking evaluation: the model's scores and those of the baselines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..common.checks import counted
from ..evaluation import RankingScores
from . import html

COLOURS = (html.BLUE, html.GREEN, html.ORANGE, html.GREY)
LAYOUT = {"showlegend": False, "bargap": 0.25}  # the table has the colours
MEASURES = {"NDCG": "ndcg", "recall": "recall", "precision": "precision", "MAP": "map", "hit rate": "hit_rate"}
LENGTHS = (1, 2, 3, 5, 10, 20, 50)
OTHER_ORDER = "the same by rating"  # name of the scores of the model's other order, which is no baseline


@dataclass(frozen=True)
class Ranking:
    """Scores of recommendations on held-out values.

    Attributes
    ----------
    n : int
        Length of the lists.
    positive : float
        Held-out values of at least this are relevant.
    held_out : int
        Number of relevant held-out values.
    scores : dict from names to RankingScores
        The model first, then the baselines.
    along : dict from names to lists of RankingScores
        Scores of lists of other lengths.
    errors : dict from names to float
        RMSE of predictions on all held-out values, for models that predict.
    seconds : float
        Time of fitting and recommending.
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
        """Rows with relevant held-out values."""
        return next(iter(self.scores.values())).users

    @property
    def head(self) -> list[str]:
        """Titles of the table's columns."""
        return ["", *(f"{title}@{self.n}" for title in MEASURES), "coverage", "novelty", "RMSE"]

    @property
    def lines(self) -> list[list[str]]:
        """Rows of the table, one a model."""
        found = []
        for name, one in self.scores.items():
            numbers = [f"{getattr(one, key):.4f}" for key in MEASURES.values()]
            error = f"{self.errors[name]:.4f}" if name in self.errors else "-"
            found.append([name, *numbers, f"{one.coverage:.1%}", f"{one.novelty:.1f} bits", error])
        return found

    @property
    def best_baseline(self) -> str:
        """The baseline with the largest NDCG."""
        _, *others = (name for name in self.scores if name != OTHER_ORDER)
        return max(others, key=lambda name: self.scores[name].ndcg)

    @property
    def verdict(self) -> str:
        """Whether the model scores higher than the best baseline, and what to do otherwise."""
        model, best = next(iter(self.scores)), self.best_baseline
        own, other = self.scores[model].ndcg, self.scores[best].ndcg
        if other <= 0:
            return f"{model} has an NDCG@{self.n} of {own:.4f}; all baselines score 0."
        gain = own / other - 1
        if gain > 0.02:
            return f"{model} scores {gain:.0%} higher (NDCG@{self.n}) than the best baseline, {best}."
        if gain < -0.02:
            return f"The baseline {best} scores {1 / (1 + gain) - 1:.0%} higher (NDCG@{self.n}) than {model}; prefer it."
        return f"{model} and the baseline {best} score the same (NDCG@{self.n}); prefer the baseline, which is simpler."

    @property
    def advice(self) -> str:
        """A hint where the model's other order scores higher."""
        own, other = next(iter(self.scores.values())).ndcg, self.scores.get(OTHER_ORDER)
        if other is None or own <= 0 or other.ndcg <= 1.02 * own:
            return ""
        return f" Items ordered by predicted rating (--order-by rating) score {other.ndcg / own - 1:.0%} higher."


def ranking_section(found: Ranking) -> tuple[html.Markup, dict[str, html.Plot]]:
    """A section of a page: its HTML, and its plots by name."""
    plots = {"ranking": _measures(found)} | ({"lengths": _lengths(found)} if found.along else {})
    rows = [
        [[html.element("i", class_="swatch", style=f"background:{colour}"), name], *numbers]
        for (name, *numbers), colour in zip(found.lines, COLOURS, strict=False)
    ]
    text = (
        f"{found.verdict}{found.advice} Relevant are {counted(found.held_out, 'held-out value')} of {found.positive:g} or more "
        f"in {found.users:,} rows; lists have {found.n} entries. Novelty is the mean self-information of recommended items; "
        "coverage is the share of items that are recommended at all."
    )
    scores = html.table(found.head, rows, numbers=range(1, len(found.head)))
    body = [html.element("h2", "Recommendations"), html.element("p", text), html.element("div", scores, class_="wide")]
    return html.markup([*body, html.plot_grid(plots)]), plots


def write_ranking_page(path: str | Path, found: Ranking, title: str) -> Path:
    """Write the evaluation as a page of its own."""
    text, plots = ranking_section(found)
    best = found.best_baseline
    facts = [
        (f"{found.held_out:,}", "relevant held-out values"),
        (f"{found.users:,}", "rows with relevant values"),
        (f"{next(iter(found.scores.values())).ndcg:.4f}", f"NDCG@{found.n} of the model"),
        (f"{found.scores[best].ndcg:.4f}", f"NDCG@{found.n} of the best baseline, {best}"),
    ]
    return html.write_text(path, html.document(title, [html.element("h1", title), html.cards(facts), text], plots=plots))


def _measures(found: Ranking) -> html.Plot:
    data = [
        html.bars(list(MEASURES), [getattr(one, key) for key in MEASURES.values()], colour, name)
        for (name, one), colour in zip(found.scores.items(), COLOURS, strict=False)
    ]
    y = html.axis("mean over rows", rangemode="tozero")
    return html.plot(f"Model and baselines, lists of {found.n}", data, {"type": "category"}, y, layout=LAYOUT)


def _lengths(found: Ranking) -> html.Plot:
    data = [
        html.line([one.n for one in scores], [one.recall for one in scores], colour, name)
        for (name, scores), colour in zip(found.along.items(), COLOURS, strict=False)
    ]
    x = html.axis("length of the list", type="log", tickvals=[one.n for one in next(iter(found.along.values()))])
    return html.plot("Recall by length of the list", data, x, html.axis("recall", rangemode="tozero"), layout=LAYOUT)
