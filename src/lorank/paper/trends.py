"""Checks of claims about whole experiments: all points, the map of success rates, the curves of errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from ..experiments.styles import label, ordered_methods
from ..experiments.tables import Curve, Mean, Tables, average, comparable, counted, group, methods, plain, rate, series, varying
from .checks import MAX_VARIANTS, Evidence, compared, family, other_methods, settings_of, unique
from .verdicts import (
    CLEAR,
    EXCEEDED,
    MISSED,
    NO_DATA,
    NOT,
    PARTLY,
    REPRODUCED,
    SLIGHT,
    Factor,
    Part,
    contraction,
    factor,
    factor_of,
    first_below,
    growth,
    having,
    name_of,
    share,
    slope,
    tests,
    theorem_label,
    times,
    trend,
)

SAME_ERROR = 1.1  # errors within this factor count as the same


# -- all points --------------------------------------------------------------------------------------------------------
def ahead(
    tables: Tables, experiment: str, winner: str, quantities: Sequence[str] = ("iterations", "seconds"), margin: float = 1.0
) -> Evidence:
    """One method costs less than all others of the paper at every point, by a factor of ``margin``."""
    points = average(tables.of(experiment))
    every = having(points, winner)
    ranks = group(every, lambda case: case.rank)
    parts = []
    for (rank, cases), quantity in product(ranks.items() or [(None, [])], quantities):
        where = f", r = {rank}" if len(ranks) > 1 else ""
        hits, total, exceptions = 0, 0, []
        for case in cases:
            found = {
                one.method: _beats(points[case][winner], one, quantity, margin)
                for one in _rivals(experiment, winner, points[case])
            }
            known = {name: won for name, won in found.items() if won is not None}
            lost = [label(name) for name, won in known.items() if not won]
            total, hits = total + bool(known), hits + bool(known and not lost)
            exceptions += [f"{case.label(*varying(cases))} ({', '.join(lost)})"] if lost else []
        text = f"at {hits} of {counted(total, 'point')}" if total else "no point with another method"
        if exceptions:
            text += f"; exceptions: {'; '.join(exceptions[:4])}{' and others' if len(exceptions) > 4 else ''}"
        absent = {name: sum(name not in points[case] for case in cases) for name in compared(experiment) if name != winner}
        verdict = share(hits, total)
        if total and any(absent.values()):  # the claim is about all methods, not about those that were run
            gaps = (f"{label(name)} at {number}" for name, number in absent.items() if number)
            text += f"; not run: {', '.join(gaps)} of {counted(len(cases), 'point')}"
            verdict = PARTLY if verdict == REPRODUCED else verdict
        name = f"{label(winner)} needs the fewest {quantity}{where}"
        parts.append(Part(name, "at all points", text, verdict, rank=rank if where else None))
    means = points[every[0]] if every else {}
    names = [mean.method for mean in _rivals(experiment, winner, means)]
    return Evidence(tuple(parts), (), other_methods(experiment, means), settings_of(means, winner, *names))


def _rivals(experiment: str, winner: str, means: dict[str, Mean]) -> list[Mean]:
    return [mean for name, mean in means.items() if name != winner and name in compared(experiment)]


def _beats(mean: Mean, other: Mean, quantity: str, margin: float) -> bool | None:
    """Whether a mean is smaller; None where this is unknown: a rival stopped too early, or times of two machines."""
    if mean.failed or other.failed:
        return None if mean.failed and other.failed else other.failed
    if not comparable(quantity, mean, other):
        return None
    ours, theirs = mean.of(quantity).mean, other.of(quantity).mean
    if mean.at_least or (other.at_least and theirs <= ours):
        return False if mean.at_least and not other.at_least and theirs <= ours else None
    return ours * margin < theirs


def grows_slightly(tables: Tables, experiment: str, method: str, quantity: str) -> Evidence:
    """With n, one method's cost grows slightly and that of the others noticeably."""
    points = average(tables.of(experiment))
    parts: list[Part] = []
    for name in compared(experiment) if points else ():
        stated = (
            f"grow slightly (at most {times(SLIGHT)})" if name == method else f"grow noticeably (more than {times(SLIGHT)})"
        )
        found = []
        for cases in group(points, lambda case: (case.rank, case.oversampling)).values():
            grown = growth(series({case: points[case] for case in cases}, name), quantity)
            if grown is None:
                continue
            value, first, last = grown
            where = f"{cases[0].label('rank', 'oversampling')}, {first.case.label('n1')} to {plain(last.case.n1)}"
            slight = value.value <= SLIGHT
            # A lower bound that is large is large; one that is small may hide a large growth.
            verdict = NO_DATA if value.bound and slight else REPRODUCED if slight is (name == method) else NOT
            rank = cases[0].rank
            found.append(Part(f"{label(name)}, {quantity} ({where})", stated, value.text(quantity), verdict, rank=rank))
        parts += found or [Part(f"{label(name)}, {quantity}", stated, "not run to the end at two sizes", NO_DATA)]
    return Evidence(tuple(parts))


def grows_less(tables: Tables, experiment: str, method: str, quantity: str = "seconds") -> Evidence:
    """With n, one method's cost grows less than that of the others, over the sizes at which both ran to the end."""
    points = average(tables.of(experiment))
    parts: list[Part] = []
    for cases in group(points, lambda case: (case.rank, case.oversampling)).values():
        for rival in compared(experiment):
            shared = {case: points[case] for case in cases if {method, rival} <= set(points[case])}
            ours, theirs = (growth(series(shared, name), quantity) for name in (method, rival))
            if rival == method or not ours or not theirs or ours[2].case != theirs[2].case or ours[0].bound:
                continue
            first, last = ours[1].case, ours[2].case
            less = ours[0].value <= theirs[0].value / CLEAR
            verdict = REPRODUCED if less else NO_DATA if theirs[0].bound else NOT
            name = f"{label(method)} against {label(rival)}, {quantity}, {first.label('rank', 'n1')} to {plain(last.n1)}"
            bound = f"{theirs[0].bound} " if theirs[0].bound else ""
            text = f"{times(ours[0].value)} against {bound}{times(theirs[0].value)}"
            parts.append(Part(name, "grows less", text, verdict, rank=first.rank))
    return Evidence(tuple(parts) or (Part(label(method), "grows less", "no two sizes with another method", NO_DATA),))


def advantage_grows(tables: Tables, experiment: str, slow: str, fast: str, along: str, falling: bool) -> Evidence:
    """The factor between two methods grows with a parameter, or as it falls; at points where their errors are equal."""
    points = average(tables.of(experiment))
    cases = [case for case in having(points, slow, fast) if _same_error(points[case][slow], points[case][fast])]
    unequal = len(having(points, slow, fast)) - len(cases)
    cases = sorted(cases, key=lambda case: getattr(case, along) or 0, reverse=falling)
    parts = []
    for quantity in ("iterations", "seconds"):
        found = [(case, factor(points[case][slow], points[case][fast], quantity)) for case in cases]
        line = [(case, one) for case, one in found if one and one.bound != "at most"]
        if line and line[0][1].bound:  # the factor at the easy end must be known, at the hard end a lower bound suffices
            line = []
        text = " → ".join(
            f"{one.bound}{' ' if one.bound else ''}{times(one.value)} at {case.label(along)}"
            for case, one in line[:: max(len(line) - 1, 1)]
        )
        verdict = trend([one.value for _, one in line])
        parts.append(
            Part(f"{name_of(slow, fast, quantity)}, from end to end", "grows", text or "no two points with both", verdict)
        )
    left = (
        f"{counted(unequal, 'point')} at which the errors of the methods differ by more than 10 % left out." if unequal else ""
    )
    return Evidence(tuple(parts), unique([left]))


def _same_error(first: Mean, second: Mean) -> bool:
    """Whether two methods end with errors that agree to 10 %: without noise they end at the same tolerance."""
    errors = [mean.of("error").mean for mean in (first, second)]
    noisy = first.case.noise is not None
    return not noisy or any(mean.at_least for mean in (first, second)) or max(errors) <= SAME_ERROR * min(errors)


def proportional(tables: Tables, experiment: str) -> Evidence:
    """Every method's error is proportional to the noise: a slope of 1 in logarithms."""
    points = average(tables.of(experiment))
    parts = []
    for name in ordered_methods([name for name in methods(points) if name in compared(experiment)]):
        found = [(mean.case.noise or 0.0, mean.of("error").mean) for mean in series(points, name) if not mean.failed]
        pairs = [(x, y) for x, y in found if x > 0 and 0 < y < math.inf]
        if len(pairs) < 3:
            continue
        x, y = zip(*pairs, strict=True)
        steep = slope(x, y)
        verdict = REPRODUCED if abs(steep - 1) <= 0.1 else PARTLY if abs(steep - 1) <= 0.3 else NOT
        ratios = [b / a for a, b in pairs]
        sigma = "\N{GREEK SMALL LETTER SIGMA}"
        text = f"slope {steep:.2f} ({len(pairs)} levels; error/{sigma} from {min(ratios):.2g} to {max(ratios):.2g})"
        parts.append(Part(f"{label(name)}, log error against log {sigma}", "slope 1", text, verdict))
    return Evidence(tuple(parts))


# -- success rates -----------------------------------------------------------------------------------------------------
def success(tables: Tables, experiment: str, rank: int, m: int, stated: Mapping[str, float]) -> Evidence:
    """Success rates at one rank and number of measurements. Where the rates differ, the order of the methods may still hold."""
    points = average(tables.of(experiment))
    case = next((case for case in having(points, *stated) if case.rank == rank and case.m == m), None)
    if case is None:
        return Evidence(tuple(Part(label(name), f"{value:g} %", "not run", NO_DATA) for name, value in stated.items()))
    means = points[case]
    found = {name: rate(means[name]) for name in stated}
    order = min(found["prgd"], found["adaptive-prgd"]) - found["adaptive-rgd"] >= MISSED
    parts = []
    for name, value in stated.items():
        verdict = REPRODUCED if abs(found[name] - value) <= MISSED + 1e-9 else PARTLY if order else NOT
        text = f"{found[name]:.0f} % ({means[name].reached} of {len(means[name].rows)} trials)"
        decides = order or value > 0  # where all methods fail, a rate of zero in the paper confirms nothing
        parts.append(Part(f"{label(name)}, r = {rank}, m = {m}", f"{value:g} %", text, verdict, decides))
    if not order:  # the claim is a difference: equal rates do not confirm it, even where some of them agree
        text = ", ".join(f"{label(name)} {value:.0f} %" for name, value in found.items())
        parts.append(Part("PRGD and adaptive-PRGD succeed more often than adaptive-RGD", "more often", text, NOT))
    others = [f"{label(n)}: {rate(mean):.0f} % ({tests(len(mean.rows))})" for n, mean in means.items() if n not in stated]
    variants = [
        f"{label(relative)} instead of {label(name)}: {rate(means[relative]):.0f} % (paper {value:g} %)"
        for name, value in stated.items()
        if abs(found[name] - value) > MISSED
        for relative in family(name)
        if relative not in stated and relative in means and abs(rate(means[relative]) - value) <= MISSED
    ]
    note = "The methods are in the paper's order." if order else "The methods are not in the paper's order."
    return Evidence(tuple(parts), (note,), tuple(others), settings_of(means, *stated), tuple(variants))


def success_overall(tables: Tables, experiment: str) -> Evidence:
    """Mean success rates over the map: PRGD and adaptive-PRGD about equal, both above adaptive-RGD."""
    points = average(tables.of(experiment))
    names = ("adaptive-prgd", "prgd", "adaptive-rgd")
    cases = having(points, *names)
    if not cases:
        return Evidence((Part("mean success rate", "", "not run", NO_DATA),))
    mean = {name: float(np.mean([rate(points[case][name]) for case in cases])) for name in names}
    text = ", ".join(f"{label(name)} {value:.0f} %" for name, value in mean.items()) + f" over {counted(len(cases), 'box')}"
    near, gain = abs(mean["adaptive-prgd"] - mean["prgd"]), mean["adaptive-prgd"] - mean["adaptive-rgd"]
    same = REPRODUCED if near <= 5 else PARTLY if near <= 10 else NOT
    parts = (
        Part("adaptive-PRGD comparable to PRGD", "within 5 points", f"{counted(round(near), 'point')} apart ({text})", same),
        Part("adaptive-PRGD better than adaptive-RGD", "higher", f"{gain:+.1f} points", REPRODUCED if gain >= 2 else NOT),
    )
    rates = {name: [rate(points[case][name]) for case in cases if name in points[case]] for name in methods(points)}
    others = [
        f"{label(name)}: {np.mean(values):.0f} % over {counted(len(values), 'box')}"
        for name, values in rates.items()
        if name not in names
    ]
    return Evidence(parts, (), tuple(others))


# -- curves ------------------------------------------------------------------------------------------------------------
def _by_rank(tables: Tables, experiment: str) -> dict[int, dict[str, list[Curve]]]:
    ranks = group(tables.curves_of(experiment), lambda curve: curve.case.rank or 0)
    return {rank: group(ranks[rank], lambda curve: curve.method) for rank in sorted(ranks)}


def iterations_to_fit(tables: Tables, experiment: str, slow: str, fast: str, exponent: float, stated: float) -> Evidence:
    """Iterations of two methods to a fitting error of ``10^exponent``, or to its root where the error stays above it."""
    level = 10**exponent
    parts: list[Part] = []
    notes: list[str] = []
    variants: list[str] = []
    for rank, curves in _by_rank(tables, experiment).items():
        if slow not in curves or fast not in curves:
            continue
        name = f"{label(slow)} / {label(fast)}, iterations, r = {rank}"
        deepest = min(float(np.nanmin(curve.residual)) for curve in curves[slow])
        if _reach(curves[fast], level):
            aim, what = level, f"a fitting error of 10^{exponent:.1f}"
        elif _reach(curves[fast], math.sqrt(level)):
            aim, what = math.sqrt(level), f"a squared fitting error of 10^{exponent:.1f}"
            notes.append("The fitting error stays above this level; its square, which the paper seems to plot, reaches it.")
        else:
            aim, what = deepest, f"the final error of {label(slow)}, {deepest:.3g}"
            notes.append("Neither the fitting error nor its square reaches this level.")
        found = _race(curves[slow], curves[fast], aim)
        if found is None or found.judge(stated) not in (REPRODUCED, EXCEEDED):
            variants += _variants_to_fit(curves, slow, fast, stated, f"r = {rank}")
        if found is None:
            parts.append(Part(name, times(stated), f"{label(fast)} does not reach {what}", NOT))
        else:
            parts.append(Part(f"{name}, to {what}", times(stated), found.text("iterations"), found.judge(stated)))
    means = next(iter(average(tables.of(experiment)).values()), {})
    return Evidence(tuple(parts), unique(notes), (), settings_of(means, fast, slow), unique(variants))


def _variants_to_fit(curves: dict[str, list[Curve]], slow: str, fast: str, stated: float, where: str) -> list[str]:
    """Variants of two methods between which the factor is as large as the paper's, to the slow one's final error."""
    found = []
    for a in family(slow):
        for b in family(fast):
            if (a, b) != (slow, fast) and a in curves and b in curves:
                aim = max(float(np.nanmin(curve.residual)) for curve in curves[a])
                one = _race(curves[a], curves[b], aim)
                if one and one.judge(stated) in (REPRODUCED, EXCEEDED):
                    found.append((one.value, f"{label(a)} / {label(b)}, {where}, to {aim:.4g}: {one.text('iterations')}"))
    return [text for _, text in sorted(found, reverse=True)[:MAX_VARIANTS]]


def _reach(curves: Sequence[Curve], level: float) -> bool:
    return all(first_below(curve, curve.residual, level) for curve in curves)


def _race(slow: Sequence[Curve], fast: Sequence[Curve], level: float) -> Factor | None:
    """The factor between the iterations of two methods to a level, over the tests that both made."""
    ours = {curve.seed: first_below(curve, curve.residual, level) for curve in fast}
    pairs, bound = [], ""
    for curve in slow:
        mine, theirs = ours.get(curve.seed), first_below(curve, curve.residual, level)
        if mine:
            bound = bound if theirs else "at least"
            pairs.append((theirs or float(curve.iteration[-1]), mine))
    return factor_of(np.array(pairs), bound) if pairs else None


def smallest_throughout(tables: Tables, experiment: str, winner: str) -> Evidence:
    """One method's fitting error is the smallest of all after every iteration."""
    parts = []
    for rank, curves in _by_rank(tables, experiment).items():
        hits, total, behind = 0, 0, []
        for seed in [curve.seed for curve in curves.get(winner, [])]:
            test = {name: curve for name, found in curves.items() for curve in found if curve.seed == seed}
            rivals = {name: curve for name, curve in test.items() if name in compared(experiment) and name != winner}
            steps = min(len(curve.residual) for curve in (test[winner], *rivals.values()))
            ours = test[winner].residual[1:steps]
            wins = {name: ours <= curve.residual[1:steps] * (1 + 1e-6) for name, curve in rivals.items()}
            if wins:
                hits, total = hits + int(np.logical_and.reduce(list(wins.values())).sum()), total + len(ours)
                behind += [label(name) for name, won in wins.items() if not won.all()]
        if total:
            more = f"; otherwise behind {', '.join(unique(behind))}" if behind else ""
            text = f"for {hits} of {total} iterations{more}"
            parts.append(Part(f"{label(winner)}, r = {rank}", "for all t", text, share(hits, total)))
    return Evidence(tuple(parts))


def contracts(tables: Tables, experiment: str, inside: bool, bound: float = 0.995) -> Evidence:
    """The contraction factors of all steps against the theorem's constant, within or outside its assumptions."""
    parts = []
    curves = [curve for curve in tables.curves_of(experiment) if bool(curve.case.field) is inside]
    for case, found in group(curves, lambda curve: curve.case).items():
        steps = np.concatenate([contraction(curve) for curve in found])
        if not len(steps):
            continue
        above = int((steps > bound).sum())
        verdict = NOT if above > 0.1 * len(steps) else PARTLY if above else REPRODUCED
        more = f", {above} above" if above else ""
        text = f"maximum {steps.max():.3f}, median {np.median(steps):.3f} ({tests(len(found))}, {len(steps)} steps{more})"
        parts.append(Part(theorem_label(case), f"at most {bound}", text, verdict))
    means = next(iter(average(tables.of(experiment)).values()), {})
    return Evidence(tuple(parts), settings=settings_of(means, "prgd"))
