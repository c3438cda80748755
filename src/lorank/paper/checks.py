"""What the tables say to each kind of claim. A check takes the tables and returns the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ..experiments.tables import Case, Mean, Tables, average, comparable, group, varying
from .styles import label, ordered
from .verdicts import (
    CLEAR,
    NO_DATA,
    NOT,
    PARTLY,
    REPRODUCED,
    Factor,
    Part,
    alike,
    amount,
    compare,
    factor,
    having,
    nearest,
    stand_in,
    tests,
    times,
)

PAPERS = {  # the methods that the paper compares
    "completion": ("prgd", "rgd", "shampoo", "niht"),
    "movielens": ("prgd", "rgd", "shampoo", "niht"),
    "sensing": ("adaptive-prgd", "prgd", "adaptive-rgd", "niht", "shampoo"),
    "phase": ("adaptive-prgd", "prgd", "adaptive-rgd", "rgd"),
    "theorem": ("prgd",),
}


# The same algorithm with other steps: where a sentence does not hold under the paper's name it may hold for one of these.
FAMILIES = (
    ("prgd", "adaptive-prgd", "prgd-relaxed"),
    ("rgd", "adaptive-rgd", "rgd-relaxed"),
    ("shampoo", "adaptive-shampoo", "full-shampoo"),
)


def family(method: str) -> tuple[str, ...]:
    """A method and its relatives with other steps."""
    return next((members for members in FAMILIES if method in members), (method,))


@dataclass(frozen=True)
class Evidence:
    """What was found.

    Figures; what a reader must know about them; how methods beside the paper's did; the settings behind the figures; and the
    pairs of relatives (other steps) for which the sentence comes true.
    """

    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()


MOST_VARIANTS = 3
Check = Callable[[Tables], Evidence]
Points = dict[Case, dict[str, Mean]]


def papers(experiment: str) -> tuple[str, ...]:
    """The methods that the paper compares in an experiment."""
    return PAPERS[experiment.split("-")[0]]


def other_methods(experiment: str, means: dict[str, Mean]) -> tuple[str, ...]:
    """The methods that the paper does not have, at one point: those that always get there first, then by iterations.

    A method that takes less than all of the paper's there is said to.
    """
    ours = [mean for name, mean in means.items() if name in papers(experiment) and not mean.failed]
    others = [means[name] for name in ordered(list(means)) if name not in papers(experiment) and not means[name].failed]
    others.sort(key=lambda mean: (mean.reached < len(mean.rows), mean.of("iterations").mean))
    return tuple(_in_words(mean, ours) for mean in others)


def _in_words(mean: Mean, ours: Sequence[Mean]) -> str:
    total = len(mean.rows)
    always = mean.reached == total
    got = tests(total) if always else f"got there in {mean.reached} of {tests(total)}"
    bound = "at least " if mean.at_least else ""
    spent = f"{amount(mean.of('iterations').mean, 'iterations')} iterations, {amount(mean.of('seconds').mean, 'seconds')}"
    less = [
        word
        for word, quantity in (("fewer iterations", "iterations"), ("less time", "seconds"))
        if ours and always and comparable(quantity, mean, *ours)
        if all(mean.of(quantity).mean < one.of(quantity).mean for one in ours)
    ]
    better = f"; {' and '.join(less)} than any method of the paper" if less else ""
    return f"{label(mean.method)}: {bound}{spent} ({got}){better}"


def _lapses(slow: str, fast: str, means: dict[str, Mean]) -> str:
    """A note where a method of the comparison got there in some tests alone."""
    found = [means[name] for name in (slow, fast) if name in means]
    return " ".join(
        f"{label(mean.method)} got there in {mean.reached} of {tests(len(mean.rows))} ({mean.case.label()})."
        for mean in found
        if 0 < mean.reached < len(mean.rows)
    )


def settings_of(means: dict[str, Mean], *names: str) -> tuple[str, ...]:
    """What these methods ran with at one point."""
    return unique(f"{label(name)}: {row.setting}" for name in names if name in means for row in means[name].rows)


def variants_of(slow: str, fast: str, quantity: str, said: float, means: dict[str, Mean]) -> list[str]:
    """The relatives of two methods between which a factor is as large as said, the largest first."""
    found = [
        (one.value, f"{label(a)} / {label(b)}, {quantity}: {one.text(quantity)}")
        for a in family(slow)
        for b in family(fast)
        if (a, b) != (slow, fast) and (one := factor(means.get(a), means.get(b), quantity))
        if one.judge(said) == REPRODUCED
    ]
    return [text for _, text in sorted(found, reverse=True)[:MOST_VARIANTS]]


# -- factors -----------------------------------------------------------------------------------------------------------
def factors(experiment: str, fast: str, said: Sequence[tuple[str, str, float]], **wanted: float) -> Check:
    """Factors at one point, each ``(slow method, quantity, factor)``.

    Each is taken at the point nearest to the one wanted at which both methods ran. Other ranks are shown beside.
    """

    def check(tables: Tables) -> Evidence:
        points = average(tables.of(experiment))
        parts: list[Part] = []
        notes: list[str] = []
        settings: list[str] = []
        variants: list[str] = []
        extra: tuple[str, ...] = ()
        for slow, quantity, value in said:
            cases = having(points, slow, fast)
            case = nearest(cases, **wanted)
            means = points[case] if case else {}
            parts.append(compare(slow, fast, means, quantity, value, case.label(*wanted) if case else ""))
            if case:
                notes += [stand_in(case, **wanted), _lapses(slow, fast, means)]
                extra = extra or other_methods(experiment, means)
                settings += settings_of(means, fast, slow)
            wide = nearest([c for c in points if {*family(slow)} & {*points[c]} and {*family(fast)} & {*points[c]}], **wanted)
            if parts[-1].verdict != REPRODUCED and wide:
                variants += variants_of(slow, fast, quantity, value, points[wide])
        for slow, quantity, value in said if "rank" in wanted else ():
            for rank, cases in group(having(points, slow, fast), lambda case: case.rank).items():
                case = nearest(cases, **wanted)
                if case and rank != wanted["rank"]:
                    where = case.label("rank", "oversampling", "n1")
                    parts.append(compare(slow, fast, points[case], quantity, value, where, decides=False))
        return Evidence(tuple(parts), unique(notes), extra, unique(settings), unique(variants))

    return check


def best_factor(experiments: Sequence[str], slow: str, fast: str, quantity: str, said: float) -> Check:
    """The largest factor over all points: "up to". One of several tests goes before one of a single test."""

    def check(tables: Tables) -> Evidence:
        best: tuple[Factor, str, Case, Points] | None = None
        for experiment in experiments:
            points = average(tables.of(experiment))
            for case in having(points, slow, fast):
                found = factor(points[case][slow], points[case][fast], quantity)
                if not found or found.bound == "at most":
                    continue
                if best is None or (found.tests > 1, found.value) > (best[0].tests > 1, best[0].value):
                    best = found, experiment, case, points
        name = f"{label(slow)} / {label(fast)}, {quantity}, at its largest"
        if best is None:
            return Evidence((Part(name, f"up to {times(said)}", "no point at which both got there", NO_DATA),))
        found, experiment, case, points = best
        parts = [Part(f"{name} ({case.label()})", f"up to {times(said)}", found.text(quantity), found.judge(said))]
        steps = factor(points[case][slow], points[case][fast], "iterations")
        if steps and quantity != "iterations":
            there = f"{label(slow)} / {label(fast)}, iterations, at the same point"
            parts.append(Part(there, "", steps.text("iterations"), steps.judge(said), decides=False))
        means = points[case]
        variants = [] if parts[0].verdict == REPRODUCED else variants_of(slow, fast, quantity, said, means)
        used = settings_of(means, fast, slow)
        return Evidence(tuple(parts), (), other_methods(experiment, means), used, tuple(variants))

    return check


def similar(experiment: str, first: str, second: str, quantity: str, **wanted: float) -> Check:
    """Two methods take about the same: at every point, or at the one wanted."""

    def check(tables: Tables) -> Evidence:
        points = average(tables.of(experiment))
        cases, notes = having(points, first, second), []
        if wanted:
            case = nearest(cases, **wanted)
            cases = [case] if case else []
            notes = [stand_in(case, **wanted) for case in cases]
        names = tuple(wanted) or varying(cases)
        parts = alike(first, second, [(case.label(*names), points[case]) for case in cases], quantity)
        means = points[cases[0]] if cases else {}
        return Evidence(tuple(parts), unique(notes), other_methods(experiment, means), settings_of(means, first, second))

    return check


def slower(experiment: str, slow: str, fast: str, quantity: str, least: float, **wanted: float) -> Check:
    """One method takes "much" more than another at one point, which is read as ``least`` times as much."""

    def check(tables: Tables) -> Evidence:
        found = factors(experiment, fast, [(slow, quantity, least)], **wanted)(tables)
        said = f"much more (at least {times(least)})"
        return replace(found, parts=tuple(replace(part, said=said) for part in found.parts))

    return check


def faster(experiment: str, winner: str, loser: str, quantity: str = "seconds", pace: Sequence[str] = ()) -> Check:
    """One method takes less than another at every point; ``pace`` names methods whose time an iteration is shown beside."""

    def check(tables: Tables) -> Evidence:
        points = average(tables.of(experiment))
        parts = []
        for case in having(points, winner, loser):
            found = factor(points[case][loser], points[case][winner], quantity)
            name = f"{label(loser)} / {label(winner)}, {quantity} ({case.label(*varying(points))})"
            if found is None:
                parts.append(Part(name, f"above {times(1)}", "not both got there", NO_DATA))
                continue
            verdict = REPRODUCED if found.value >= CLEAR else PARTLY if found.value >= 1 / CLEAR else NOT
            parts.append(Part(name, f"above {times(1)}", found.text(quantity), NO_DATA if found.bound else verdict))
            for method in pace:
                each = factor(points[case].get(method), points[case][winner], "pace")
                if each:
                    name = f"{label(method)} / {label(winner)}, time of an iteration"
                    parts.append(Part(name, "", each.text("pace"), NO_DATA, decides=False))
        hardest = next(iter(points.values()), {})
        return Evidence(tuple(parts), (), other_methods(experiment, hardest), settings_of(hardest, winner, loser))

    return check


def every(*checks: Check) -> Check:
    """Several checks under one sentence."""

    def check(tables: Tables) -> Evidence:
        found = [one(tables) for one in checks]
        return Evidence(
            tuple(part for evidence in found for part in evidence.parts),
            unique(note for evidence in found for note in evidence.notes),
            next((evidence.others for evidence in found if evidence.others), ()),
            unique(line for evidence in found for line in evidence.settings),
            unique(line for evidence in found for line in evidence.variants),
        )

    return check


def unique(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for line in lines if line))
