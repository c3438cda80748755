"""Checks that look at a whole experiment: at all its points, at its map of success rates, or along its curves."""
# ruff: noqa: RUF001 - texts for people have signs such as the one for times

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..experiments.tables import Case, Curve, Mean, Tables, average, comparable, group, methods, plain, series, varying
from .checks import MOST_VARIANTS, Check, Evidence, family, other_methods, papers, settings_of, unique
from .styles import label, ordered
from .verdicts import (
    CLEAR,
    MISSED,
    NO_DATA,
    NOT,
    PARTLY,
    REPRODUCED,
    SLIGHT,
    Factor,
    Part,
    contraction,
    counted,
    factor,
    factor_of,
    first_below,
    growth,
    having,
    rate,
    share,
    slope,
    tests,
    theorem_label,
    times,
    trend,
)


# -- over all points ---------------------------------------------------------------------------------------------------
def ahead(experiment: str, winner: str, quantities: Sequence[str] = ("iterations", "seconds"), *, margin: float = 1.0) -> Check:
    """One method takes less than all others of the paper at every point, by a factor where that is said."""

    def check(tables: Tables) -> Evidence:
        points = average(tables.of(experiment))
        cases = having(points, winner)
        parts = []
        for quantity in quantities:
            hits, total, exceptions = 0, 0, []
            for case in cases:
                rivals = _rivals(experiment, winner, points[case])
                found = {mean.method: _beats(points[case][winner], mean, quantity, margin) for mean in rivals}
                known = {name: won for name, won in found.items() if won is not None}
                lost = [label(name) for name, won in known.items() if not won]
                total, hits = total + bool(known), hits + bool(known and not lost)
                exceptions += [f"{case.label(*varying(cases))} ({', '.join(lost)})"] if lost else []
            text = f"at {hits} of {counted(total, 'point')}" if total else "no point with another method to compare with"
            if exceptions:
                text += f"; not so at {'; '.join(exceptions[:4])}{' and elsewhere' if len(exceptions) > 4 else ''}"
            absent = {name: sum(name not in points[case] for case in cases) for name in papers(experiment) if name != winner}
            verdict = share(hits, total)
            if total and any(absent.values()):  # ahead of those that were run is not ahead of all
                gaps = (f"{label(name)} at {number}" for name, number in absent.items() if number)
                text += f"; not run: {', '.join(gaps)} of {counted(len(cases), 'point')}"
                verdict = PARTLY if verdict == REPRODUCED else verdict
            parts.append(Part(f"{label(winner)} takes the fewest {quantity}", "at all points", text, verdict))
        means = points[cases[0]] if cases else {}
        names = [mean.method for mean in _rivals(experiment, winner, means)]
        return Evidence(tuple(parts), (), other_methods(experiment, means), settings_of(means, winner, *names))

    return check


def _rivals(experiment: str, winner: str, means: dict[str, Mean]) -> list[Mean]:
    return [mean for name, mean in means.items() if name != winner and name in papers(experiment)]


def _beats(mean: Mean, other: Mean, quantity: str, margin: float) -> bool | None:
    """None where nobody knows: a rival cut short before it had taken as much, or times of two machines."""
    if mean.failed or other.failed:
        return None if mean.failed and other.failed else other.failed
    if not comparable(quantity, mean, other):
        return None
    ours, theirs = mean.of(quantity).mean, other.of(quantity).mean
    if mean.at_least or (other.at_least and theirs <= ours):
        return False if mean.at_least and not other.at_least and theirs <= ours else None
    return ours * margin < theirs


def grows_slightly(experiment: str, method: str, quantity: str) -> Check:
    """With n, a method's cost grows slightly and the others' noticeably."""

    def part(name: str, cases: Sequence[Case], points: dict[Case, dict[str, Mean]]) -> Part | None:
        found = growth(series({case: points[case] for case in cases}, name), quantity)
        if found is None:
            return None
        value, first, last = found
        where = f"{cases[0].label('rank', 'oversampling')}, {first.case.label('n1')} to {plain(last.case.n1)}"
        slight = value.value <= SLIGHT
        # Cut short, what has grown noticeably has done so; what has grown slightly may have grown more.
        verdict = NO_DATA if value.bound and slight else REPRODUCED if slight is (name == method) else NOT
        return Part(f"{label(name)}, {quantity} ({where})", _growth_said(name == method), value.text(quantity), verdict)

    def check(tables: Tables) -> Evidence:
        points = average(tables.of(experiment))
        parts: list[Part] = []
        for name in papers(experiment) if points else ():
            rows = group(points, lambda case: (case.rank, case.oversampling)).values()
            found = [one for cases in rows if (one := part(name, cases, points))]
            none = Part(f"{label(name)}, {quantity}", _growth_said(name == method), "not run at two sizes to the end", NO_DATA)
            parts += found or [none]
        return Evidence(tuple(parts))

    return check


def grows_less(experiment: str, method: str, quantity: str = "seconds") -> Check:
    """With n, a method's cost grows less than that of the paper's others, over the sizes at which both ran to the end."""

    def check(tables: Tables) -> Evidence:
        points = average(tables.of(experiment))
        parts: list[Part] = []
        for cases in group(points, lambda case: (case.rank, case.oversampling)).values():
            row = {case: points[case] for case in cases}
            for rival in papers(experiment):
                shared = {case: means for case, means in row.items() if method in means and rival in means}
                ours, theirs = (growth(series(shared, name), quantity) for name in (method, rival))
                if rival == method or not ours or not theirs or ours[2].case != theirs[2].case or ours[0].bound:
                    continue
                first, last = ours[1].case, ours[2].case
                less = ours[0].value <= theirs[0].value / CLEAR
                verdict = REPRODUCED if less else NO_DATA if theirs[0].bound else NOT
                name = f"{label(method)} against {label(rival)}, {quantity}, {first.label('rank', 'n1')} to {plain(last.n1)}"
                text = f"{times(ours[0].value)} against {theirs[0].bound} {times(theirs[0].value)}".replace("  ", " ")
                parts.append(Part(name, "grows less", text, verdict))
        return Evidence(tuple(parts) or (Part(label(method), "grows less", "no two sizes with another method", NO_DATA),))

    return check


def _growth_said(slightly: bool) -> str:
    return f"grow slightly (at most {times(SLIGHT)})" if slightly else f"grow noticeably (more than {times(SLIGHT)})"


def advantage_grows(experiment: str, slow: str, fast: str, along: str, *, falling: bool) -> Check:
    """The factor between two methods grows along a parameter, or as it falls."""

    def check(tables: Tables) -> Evidence:
        points = average(tables.of(experiment))
        cases = sorted(having(points, slow, fast), key=lambda case: getattr(case, along) or 0, reverse=falling)
        parts = []
        for quantity in ("iterations", "seconds"):
            found = [(case, factor(points[case][slow], points[case][fast], quantity)) for case in cases]
            line = [(case, one) for case, one in found if one and one.bound != "at most"]
            if line and line[0][1].bound:  # the easy end must be known; the hard end may be a lower bound
                line = []
            text = " → ".join(
                f"{one.bound}{' ' if one.bound else ''}{times(one.value)} at {case.label(along)}"
                for case, one in line[:: max(len(line) - 1, 1)]
            )
            name = f"{label(slow)} / {label(fast)}, {quantity}, from end to end"
            verdict = trend([one.value for _, one in line])
            parts.append(Part(name, "grows", text or "no two points with both", verdict))
        return Evidence(tuple(parts))

    return check


def proportional(experiment: str) -> Check:
    """Every method's error is proportional to the noise: a slope of 1 in logarithms."""

    def check(tables: Tables) -> Evidence:
        points = average(tables.of(experiment))
        parts = []
        for name in ordered([name for name in methods(points) if name in papers(experiment)]):
            found = [(mean.case.noise or 0.0, mean.of("error").mean) for mean in series(points, name) if not mean.failed]
            pairs = [(x, y) for x, y in found if x > 0 and 0 < y < math.inf]
            if len(pairs) < 3:
                continue
            x, y = zip(*pairs, strict=True)
            steep = slope(x, y)
            verdict = REPRODUCED if abs(steep - 1) <= 0.1 else PARTLY if abs(steep - 1) <= 0.3 else NOT
            ratios = [b / a for a, b in pairs]
            text = f"slope {steep:.2f} ({len(pairs)} levels; error/σ from {min(ratios):.2g} to {max(ratios):.2g})"
            parts.append(Part(f"{label(name)}, log error against log σ", "slope 1", text, verdict))
        return Evidence(tuple(parts))

    return check


def success(rank: int, m: int, said: dict[str, float]) -> Check:
    """Success rates in one box of the map. Where the levels differ the order may still hold."""

    def check(tables: Tables) -> Evidence:
        points = average(tables.of("sensing-success"))
        case = next((case for case in having(points, *said) if case.rank == rank and case.m == m), None)
        if case is None:
            return Evidence(tuple(Part(label(name), f"{value:g} %", "not run", NO_DATA) for name, value in said.items()))
        means = points[case]
        found = {name: rate(means[name]) for name in said}
        plain_rgd = found["adaptive-rgd"]
        order = min(found["prgd"], found["adaptive-prgd"]) - plain_rgd >= MISSED
        parts = []
        for name, value in said.items():
            within = abs(found[name] - value) <= MISSED + 1e-9
            verdict = REPRODUCED if within else PARTLY if order else NOT
            text = f"{found[name]:.0f} % ({means[name].reached} of {len(means[name].rows)} trials)"
            decides = order or value > 0  # where all fail, that one of them fails in the paper, too, says nothing
            parts.append(Part(f"{label(name)}, r = {rank}, m = {m}", f"{value:g} %", text, verdict, decides))
        if not order:  # the sentence is about a difference: equal rates do not bear it out, even where some agree
            text = ", ".join(f"{label(name)} {value:.0f} %" for name, value in found.items())
            parts.append(Part("PRGD and adaptive-PRGD succeed more often than adaptive-RGD", "more often", text, NOT))
        others = [f"{label(n)}: {rate(mean):.0f} % ({tests(len(mean.rows))})" for n, mean in means.items() if n not in said]
        variants = [
            f"{label(relative)} in place of {label(name)}: {rate(means[relative]):.0f} % (paper {value:g} %)"
            for name, value in said.items()
            if abs(found[name] - value) > MISSED
            for relative in family(name)
            if relative not in said and relative in means and abs(rate(means[relative]) - value) <= MISSED
        ]
        note = "The methods stand in the paper's order." if order else "The methods do not differ as the paper says."
        return Evidence(tuple(parts), (note,), tuple(others), settings_of(means, *said), tuple(variants))

    return check


def success_overall(tables: Tables) -> Evidence:
    """Over the whole map: PRGD and adaptive-PRGD about the same, both above adaptive-RGD."""
    points = average(tables.of("sensing-success"))
    names = ("adaptive-prgd", "prgd", "adaptive-rgd")
    cases = having(points, *names)
    if not cases:
        return Evidence((Part("mean success rate", "", "not run", NO_DATA),))
    mean = {name: float(np.mean([rate(points[case][name]) for case in cases])) for name in names}
    text = ", ".join(f"{label(name)} {value:.0f} %" for name, value in mean.items()) + f" over {counted(len(cases), 'box')}"
    near = abs(mean["adaptive-prgd"] - mean["prgd"])
    gain = mean["adaptive-prgd"] - mean["adaptive-rgd"]
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


# -- along curves ------------------------------------------------------------------------------------------------------
def _by_rank(tables: Tables, experiment: str) -> dict[int | None, dict[str, list[Curve]]]:
    ranks = group(tables.curves_of(experiment), lambda curve: curve.case.rank)
    return {
        rank: group(curves, lambda curve: curve.method) for rank, curves in sorted(ranks.items(), key=lambda pair: pair[0] or 0)
    }


def iterations_to_fit(experiment: str, slow: str, fast: str, level: float, said: float) -> Check:
    """How many iterations two methods take to a fitting error: as it is, or its square where it never gets so low."""

    def check(tables: Tables) -> Evidence:
        parts, notes = [], []
        variants: list[str] = []
        for rank, curves in _by_rank(tables, experiment).items():
            if slow not in curves or fast not in curves:
                continue
            name = f"{label(slow)} / {label(fast)}, iterations, r = {rank}"
            deepest = min(float(np.nanmin(curve.residual)) for curve in curves[slow])
            if _to(curves[fast], level):
                aim, what = level, f"a fit of 10^{math.log10(level):.1f}"
            elif _to(curves[fast], math.sqrt(level)):
                aim, what = math.sqrt(level), f"a squared fit of 10^{math.log10(level):.1f}"
                notes.append(
                    "The fitting error does not fall so low within the iterations that were run; its square does, and seems to "
                    "be what the paper plots."
                )
            else:
                aim, what = deepest, f"{label(slow)}'s last fit, {deepest:.3g}"
                notes.append("Neither the fitting error nor its square falls so low within the iterations that were run.")
            found = _race(curves[slow], curves[fast], aim)
            if found is None or found.judge(said) != REPRODUCED:
                variants += _faster_fits(curves, slow, fast, said, f"r = {rank}")
            if found is None:
                parts.append(Part(name, times(said), f"{label(fast)} does not get to {what}", NOT))
            else:
                parts.append(Part(f"{name}, to {what}", times(said), found.text("iterations"), found.judge(said)))
        means = next(iter(average(tables.of(experiment)).values()), {})
        return Evidence(tuple(parts), unique(notes), (), settings_of(means, fast, slow), unique(variants))

    return check


def _faster_fits(curves: dict[str, list[Curve]], slow: str, fast: str, said: float, where: str) -> list[str]:
    """Relatives between which the factor is there, to the slow one's last fit."""
    found = []
    for a in family(slow):
        for b in family(fast):
            if (a, b) != (slow, fast) and a in curves and b in curves:
                aim = max(float(np.nanmin(curve.residual)) for curve in curves[a])
                one = _race(curves[a], curves[b], aim)
                if one and one.judge(said) == REPRODUCED:
                    found.append((one.value, f"{label(a)} / {label(b)}, {where}, to {aim:.4g}: {one.text('iterations')}"))
    return [text for _, text in sorted(found, reverse=True)[:MOST_VARIANTS]]


def _to(curves: Sequence[Curve], level: float) -> bool:
    return all(first_below(curve, curve.residual, level) for curve in curves)


def _race(slow: Sequence[Curve], fast: Sequence[Curve], level: float) -> Factor | None:
    """The factor between the iterations that two methods take to a level, over the tests that both made."""
    ours = {curve.seed: first_below(curve, curve.residual, level) for curve in fast}
    pairs, bound = [], ""
    for curve in slow:
        mine, theirs = ours.get(curve.seed), first_below(curve, curve.residual, level)
        if mine:
            bound = bound if theirs else "at least"
            pairs.append((theirs or float(curve.iteration[-1]), mine))
    if not pairs:
        return None
    return factor_of(np.array(pairs), bound)


def smallest_throughout(experiment: str, winner: str) -> Check:
    """One method's fitting error is the smallest of all after every number of iterations."""

    def check(tables: Tables) -> Evidence:
        parts = []
        for rank, curves in _by_rank(tables, experiment).items():
            hits, total, behind = 0, 0, []
            for seed in [curve.seed for curve in curves.get(winner, [])]:
                test = {name: curve for name, found in curves.items() for curve in found if curve.seed == seed}
                rivals = {name: curve for name, curve in test.items() if name in papers(experiment) and name != winner}
                steps = min(len(curve.residual) for curve in (test[winner], *rivals.values()))
                ours = test[winner].residual[1:steps]
                ahead = {name: ours <= curve.residual[1:steps] * (1 + 1e-6) for name, curve in rivals.items()}
                if ahead:
                    hits, total = hits + int(np.logical_and.reduce(list(ahead.values())).sum()), total + len(ours)
                    behind += [label(name) for name, wins in ahead.items() if not wins.all()]
            if total:
                text = f"for {hits} of {total} iterations" + (
                    f"; at others behind {', '.join(unique(behind))}" if behind else ""
                )
                parts.append(Part(f"{label(winner)}, r = {rank}", "for all t", text, share(hits, total)))
        return Evidence(tuple(parts))

    return check


def contracts(inside: bool, bound: float = 0.995) -> Check:
    """The ratio of each step's errors against the theorem's constant, inside its premise or beyond."""

    def check(tables: Tables) -> Evidence:
        parts = []
        curves = [curve for curve in tables.curves_of("theorem") if bool(curve.case.field) is inside]
        for case, found in group(curves, lambda curve: curve.case).items():
            steps = np.concatenate([contraction(curve) for curve in found])
            if not len(steps):
                continue
            hits = int((steps <= bound).sum())
            verdict = REPRODUCED if hits == len(steps) else PARTLY if hits >= 0.9 * len(steps) else NOT
            text = (
                f"largest ratio {steps.max():.3f}, typical {np.median(steps):.3f} ({tests(len(found))}, {len(steps)} steps"
                f"{'' if hits == len(steps) else f', {len(steps) - hits} above'})"
            )
            parts.append(Part(theorem_label(case), f"at most {bound}", text, verdict))
        means = next(iter(average(tables.of("theorem")).values()), {})
        return Evidence(tuple(parts), settings=settings_of(means, "prgd"))

    return check
