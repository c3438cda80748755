"""Checks of claims about single points: factors between methods, similar cost, lower cost.

A check takes the tables, the experiment and the parameters of claims.toml, and returns the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..experiments.styles import label, ordered_methods
from ..experiments.tables import Case, Mean, Tables, amount, average, comparable, group, varying
from .verdicts import (
    ALIKE,
    CLEAR,
    EXCEEDED,
    NO_DATA,
    NOT,
    PARTLY,
    REPRODUCED,
    Factor,
    Part,
    compare,
    factor,
    having,
    name_of,
    nearest,
    none_found,
    stand_in,
    tests,
    times,
)

COMPARED = {  # the methods that the paper compares, by the first word of an experiment's name
    "completion": ("prgd", "rgd", "shampoo", "niht"),
    "movielens": ("prgd", "rgd", "shampoo", "niht"),
    "sensing": ("adaptive-prgd", "prgd", "adaptive-rgd", "niht", "shampoo"),
    "phase": ("adaptive-prgd", "prgd", "adaptive-rgd", "rgd"),
    "theorem": ("prgd",),
}
# The same algorithm with other step sizes: a claim may hold for one of these where it does not for the paper's method.
FAMILIES = (
    ("prgd", "adaptive-prgd", "prgd-relaxed"),
    ("rgd", "adaptive-rgd", "rgd-relaxed"),
    ("shampoo", "adaptive-shampoo", "full-shampoo"),
)
MAX_VARIANTS = 3  # variants listed for a claim


@dataclass(frozen=True)
class Evidence:
    """The evidence for a claim.

    Attributes
    ----------
    parts : tuple of Part
        The figures.
    notes : tuple of str
        Deviations from the paper's setting.
    others : tuple of str
        Results of methods that the paper does not have.
    settings : tuple of str
        Settings of the compared methods.
    variants : tuple of str
        Pairs of methods with other step sizes for which the claim holds.
    """

    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()


Check = Callable[[Tables], Evidence]
Points = dict[Case, dict[str, Mean]]


def merged(found: Sequence[Evidence]) -> Evidence:
    """The evidence of several checks as one."""
    return Evidence(
        tuple(part for evidence in found for part in evidence.parts),
        unique(note for evidence in found for note in evidence.notes),
        next((evidence.others for evidence in found if evidence.others), ()),
        unique(line for evidence in found for line in evidence.settings),
        unique(line for evidence in found for line in evidence.variants),
    )


def unique(lines: Iterable[str]) -> tuple[str, ...]:
    """Distinct lines that are not empty, in their order."""
    return tuple(dict.fromkeys(line for line in lines if line))


def family(method: str) -> tuple[str, ...]:
    """A method and its variants with other step sizes."""
    return next((members for members in FAMILIES if method in members), (method,))


def compared(experiment: str) -> tuple[str, ...]:
    """The methods that the paper compares in an experiment."""
    return COMPARED[experiment.split("-")[0]]


def other_methods(experiment: str, means: dict[str, Mean]) -> tuple[str, ...]:
    """Results of the methods that the paper does not have, by success, then by iterations."""
    ours = [mean for name, mean in means.items() if name in compared(experiment) and not mean.failed]
    others = [means[name] for name in ordered_methods(means) if name not in compared(experiment) and not means[name].failed]
    others.sort(key=lambda mean: (mean.reached < len(mean.rows), mean.of("iterations").mean))
    return tuple(_summary(mean, ours) for mean in others)


def _summary(mean: Mean, ours: Sequence[Mean]) -> str:
    total = len(mean.rows)
    always = mean.reached == total
    runs = tests(total) if always else f"converged in {mean.reached} of {tests(total)}"
    bound = "at least " if mean.at_least else ""
    spent = f"{amount(mean.of('iterations').mean, 'iterations')} iterations, {amount(mean.of('seconds').mean, 'seconds')}"
    less = [
        word
        for word, quantity in (("fewer iterations", "iterations"), ("less time", "seconds"))
        if ours and always and comparable(quantity, mean, *ours)
        if all(mean.of(quantity).mean < one.of(quantity).mean for one in ours)
    ]
    better = f"; {' and '.join(less)} than all methods of the paper" if less else ""
    return f"{label(mean.method)}: {bound}{spent} ({runs}){better}"


def settings_of(means: dict[str, Mean], *names: str) -> tuple[str, ...]:
    """The settings of some methods at one point."""
    return unique(f"{label(name)}: {row.setting}" for name in names if name in means for row in means[name].rows)


def variants_of(slow: str, fast: str, quantity: str, stated: float, means: dict[str, Mean]) -> list[str]:
    """Variants of two methods between which the factor is as large as the paper's, the largest first."""
    found = [
        (one.value, f"{label(a)} / {label(b)}, {quantity}: {one.text(quantity)}")
        for a in family(slow)
        for b in family(fast)
        if (a, b) != (slow, fast) and (one := factor(means.get(a), means.get(b), quantity))
        if one.judge(stated) in (REPRODUCED, EXCEEDED)
    ]
    return [text for _, text in sorted(found, reverse=True)[:MAX_VARIANTS]]


def measured(points: Points, quantity: str, *names: str) -> list[Case]:
    """The points at which the methods ran; for the time per iteration those at which the time of the start is known."""
    cases = having(points, *names)
    known = [case for case in cases if all(points[case][name].of("pace").mean > 0 for name in names)]
    return known if quantity == "pace" and known else cases


# -- checks ------------------------------------------------------------------------------------------------------------
def factors(
    tables: Tables, experiment: str, fast: str, stated: Sequence[tuple[str, str, float]], near: Mapping[str, float]
) -> Evidence:
    """Factors between methods, each ``(slow method, quantity, factor)``, at the point nearest to ``near`` with both methods.

    The factors at other ranks are reported without deciding the claim.
    """
    points = average(tables.of(experiment))
    parts: list[Part] = []
    notes: list[str] = []
    settings: list[str] = []
    variants: list[str] = []
    others: tuple[str, ...] = ()
    for slow, quantity, value in stated:
        case = nearest(measured(points, quantity, slow, fast), near)
        means = points[case] if case else {}
        rank = int(near["rank"]) if "rank" in near else None
        parts.append(compare(slow, fast, means, quantity, value, case.label(*near) if case else "", rank=rank))
        if case:
            partial = [means[name] for name in (slow, fast) if 0 < means[name].reached < len(means[name].rows)]
            notes.append(stand_in(case, near))
            notes += [f"{label(m.method)} converged in {m.reached} of {tests(len(m.rows))} ({case.label()})." for m in partial]
            others = others or other_methods(experiment, means)
            settings += settings_of(means, fast, slow)
        wide = nearest([c for c in points if {*family(slow)} & {*points[c]} and {*family(fast)} & {*points[c]}], near)
        if parts[-1].verdict not in (REPRODUCED, EXCEEDED) and wide:
            variants += variants_of(slow, fast, quantity, value, points[wide])
    for slow, quantity, value in stated if "rank" in near else ():
        for rank, cases in group(having(points, slow, fast), lambda case: case.rank).items():
            case = nearest(cases, near)
            if case and rank != near["rank"]:
                where = case.label("rank", "oversampling", "n1")
                parts.append(compare(slow, fast, points[case], quantity, value, where, decides=False, rank=rank))
    return Evidence(tuple(parts), unique(notes), others, unique(settings), unique(variants))


def best_factor(
    tables: Tables, experiment: str, experiments: Sequence[str], slow: str, fast: str, quantity: str, stated: float
) -> Evidence:
    """The largest factor over all points of several experiments. Factors of several tests precede those of a single test."""
    best: tuple[Factor, str, Case, Points] | None = None
    for name in experiments:
        points = average(tables.of(name))
        for case in having(points, slow, fast):
            found = factor(points[case][slow], points[case][fast], quantity)
            if not found or found.bound == "at most":
                continue
            if best is None or (found.tests > 1, found.value) > (best[0].tests > 1, best[0].value):
                best = found, name, case, points
    what = f"{label(slow)} / {label(fast)}, {quantity}, maximum"
    if best is None:
        return Evidence((Part(what, f"up to {times(stated)}", "no point at which both converged", NO_DATA),))
    found, name, case, points = best
    means = points[case]
    parts = [Part(f"{what} ({case.label()})", f"up to {times(stated)}", found.text(quantity), found.judge(stated))]
    steps = factor(means[slow], means[fast], "iterations")
    if steps and quantity != "iterations":
        there = f"{label(slow)} / {label(fast)}, iterations, at the same point"
        parts.append(Part(there, "", steps.text("iterations"), steps.judge(stated), decides=False))
    variants = [] if parts[0].verdict in (REPRODUCED, EXCEEDED) else variants_of(slow, fast, quantity, stated, means)
    return Evidence(tuple(parts), (), other_methods(name, means), settings_of(means, fast, slow), tuple(variants))


def slower(
    tables: Tables, experiment: str, slow: str, fast: str, quantity: str, least: float, near: Mapping[str, float]
) -> Evidence:
    """One method costs "much" more than another at one point, read as at least ``least`` times as much."""
    found = factors(tables, experiment, fast, [(slow, quantity, least)], near)
    stated, judged = f"much more (at least {times(least)})", {EXCEEDED: REPRODUCED}
    parts = (replace(part, verdict=judged.get(part.verdict, part.verdict), stated=stated) for part in found.parts)
    return replace(found, parts=tuple(parts))


def similar(
    tables: Tables, experiment: str, first: str, second: str, quantity: str, near: Mapping[str, float] | None = None
) -> Evidence:
    """Two methods cost about the same at every point, or at the point nearest to ``near``."""
    points = average(tables.of(experiment))
    cases, notes = measured(points, quantity, first, second), []
    if near:
        cases = [case] if (case := nearest(cases, near)) else []
        notes = [stand_in(case, near) for case in cases]
    parts = []
    for case in cases:
        means = points[case]
        found = factor(means.get(first), means.get(second), quantity)
        name = name_of(first, second, quantity, case.label(*(near or varying(cases))))
        if found is None:
            parts.append(Part(name, f"about {times(1)}", *none_found(second, first, means, quantity)))
            continue
        # A bound may hide a larger or smaller factor; a lower cost than stated is better than stated, but not the same.
        verdict = REPRODUCED if 1 / ALIKE <= found.value <= ALIKE else PARTLY if found.value < 1 else NOT
        if (found.bound == "at least" and found.value <= ALIKE) or (found.bound == "at most" and found.value >= 1 / ALIKE):
            verdict = NO_DATA
        parts.append(Part(name, f"about {times(1)}", found.text(quantity), verdict))
    means = points[cases[0]] if cases else {}
    return Evidence(tuple(parts), unique(notes), other_methods(experiment, means), settings_of(means, first, second))


def faster(
    tables: Tables, experiment: str, winner: str, loser: str, quantity: str = "seconds", pace: Sequence[str] = ()
) -> Evidence:
    """One method costs less than another at every point; the time per iteration of the methods in ``pace`` is listed."""
    points = average(tables.of(experiment))
    parts = []
    for case in having(points, winner, loser):
        found = factor(points[case][loser], points[case][winner], quantity)
        name = name_of(loser, winner, quantity, case.label(*varying(points)))
        if found is None:
            parts.append(Part(name, f"above {times(1)}", "not both converged", NO_DATA))
            continue
        verdict = REPRODUCED if found.value >= CLEAR else PARTLY if found.value >= 1 / CLEAR else NOT
        parts.append(Part(name, f"above {times(1)}", found.text(quantity), NO_DATA if found.bound else verdict))
        for method in pace:
            each = factor(points[case].get(method), points[case][winner], "pace")
            if each:
                parts.append(Part(name_of(method, winner, "pace"), "", each.text("pace"), NO_DATA, decides=False))
    hardest = next(iter(points.values()), {})
    return Evidence(tuple(parts), (), other_methods(experiment, hardest), settings_of(hardest, winner, loser))
