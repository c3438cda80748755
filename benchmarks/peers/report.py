"""The table, the plot and the page of what ``run.py`` measured."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Line:
    """A method on a problem, to a tolerance: medians over seeds and repeats."""

    problem: str
    title: str
    method: str
    tol: str
    seconds: list[float]  # empty where the tolerance was not reached on every seed
    steps: list[int]
    ratio: float | None  # seconds over lorank's, or a lower bound where it was not reached
    best: float
    effort: float
    peak: float
    setting: str

    @property
    def median(self) -> float:
        return float(np.median(self.seconds)) if self.seconds else np.nan


INTRO = (
    "How long until the matrix is found to a given relative error: lorank, and other packages with settings tuned for it.\n"
    "Made by `python benchmarks/peers/run.py`, on [the machine](index.md#the-machine) of these pages; [a chart](peers.html)."
)


def lines(problems: Sequence, log: list[dict]) -> list[Line]:
    """One line for each problem, tolerance and method that was measured."""
    out: list[Line] = []
    for problem in problems:
        for tol in map(str, problem.tolerances):
            ours = np.nan
            for method in sorted(dict.fromkeys(e["method"] for e in log), key=lambda name: name != "lorank"):
                found = [e for e in log if (e["problem"], e["method"]) == (problem.name, method) and "runs" in e]
                label = method
                if not found:  # it broke down on the seeds to report: what it did while it was tuned
                    tuned = [e for e in log if (e["problem"], e["method"]) == (problem.name, method) and e.get("tried")]
                    found = [t for e in tuned for t in e["tried"] if t["setting"] == e["setting"] and "runs" in t]
                    label = f"{method} (tuning seed)"
                if not found:
                    continue
                reached = [[r[tol] for r in e["runs"] if r[tol]] for e in found]
                everywhere = all(reached)
                seconds = [r["seconds"] for runs in reached for r in runs] if everywhere else []
                effort = max(e["effort"] for e in found)
                spent = float(np.median(seconds)) if seconds else effort
                ours = spent if method == "lorank" else ours
                out.append(
                    Line(
                        problem.name,
                        str(problem),
                        label,
                        tol,
                        seconds,
                        sorted({r["steps"] for runs in reached for r in runs}) if everywhere else [],
                        spent / ours,
                        float(np.median([e["best"] for e in found])),
                        effort,
                        max(e["peak"] for e in found) / 1e6,
                        ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in found[0]["setting"].items()),
                    )
                )
    return out


def seconds_of(line: Line) -> str:
    if not line.seconds:
        return f"not reached: {line.best:.1e} after {line.effort:.0f} s"
    return f"{line.median:.3g} s ({min(line.seconds):.3g} .. {max(line.seconds):.3g})"


def ratio_of(line: Line) -> str:
    if line.method == "lorank" or line.ratio is None:
        return "1"
    return f"{line.ratio:.3g} x" if line.seconds else f"> {float(f'{line.ratio:.2g}'):g} x"


def steps_of(line: Line) -> str:
    return "" if not line.steps else str(line.steps[0]) if len(line.steps) == 1 else f"{line.steps[0]}-{line.steps[-1]}"


HEAD = ("method", "seconds: median (range)", "against lorank", "steps or sweeps", "peak MB", "setting")


def cells(line: Line) -> tuple[str, ...]:
    return (line.method, seconds_of(line), ratio_of(line), steps_of(line), f"{line.peak:.0f}", line.setting)


def write(problems: Sequence, log: list[dict], stem: Path) -> None:
    """``stem.md``, ``stem.png`` and ``stem.html``."""
    found = lines(problems, log)
    if not found:
        raise SystemExit("nothing measured yet: python benchmarks/peers/run.py run")
    versions = ", ".join(sorted({e["version"] for entry in log for e in (entry, *entry.get("tried", [])) if "version" in e}))
    seeds = sorted({e["seed"] for e in log if "runs" in e})
    dates = sorted({e["date"] for e in log})
    missing = sorted(
        {f"{e['method']} broke down on {e['problem']}, seed {e['seed']} ({e['failed']})" for e in log if "failed" in e}
    )
    facts = [
        f"{dates[0]}{'' if len(dates) == 1 else ' to ' + dates[-1]}; {versions}.",
        f"Seeds {', '.join(map(str, seeds))}; settings chosen on seed 101.",
        "One thread each, one core; three repeats a seed, one of what is slow.",
        "A method that reached no tolerance while it was tuned is given its whole budget once, on the first seed.",
        "Seconds from arrays in memory to factors in memory, on two cores with AVX-512 that others use too: read the ratios.",
        "pymanopt carries vectors from point to point by way of an n x n array; with a thin transport it does not.",
        "dof: degrees of freedom, (n1 + n2 - r) r; 5 dof: five observations for each.",
        "Hollow dots and dashed bars did not reach the error.",
        "Methods that cannot stop at an error (cmfrec, LIBMF, Surprise, Spark) are timed with the fewest sweeps that suffice.",
        *(f"{line}." for line in missing),
    ]
    text = ["# lorank and its peers", "", INTRO, "", f"![seconds to a relative error]({stem.name}.png)", ""]
    body = []
    for title, tol, group in groups(found):
        text += [f"## {title}, to {float(tol):.0e}", "", "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
        text += ["| " + " | ".join(cells(line)) + " |" for line in group]
        text += [""]
        body.append((title, tol, group))
    text += ["## Protocol", "", *(f"- {fact}" for fact in facts), ""]
    stem.with_suffix(".md").write_text("\n".join(text))
    stem.with_suffix(".html").write_text(page(facts, body))
    draw(found, stem.with_suffix(".png"))
    draw_bars(found, stem.with_name(f"{stem.name}-bars.png"))
    print("\n".join(text))


def groups(found: list[Line]) -> list[tuple[str, str, list[Line]]]:
    keys = dict.fromkeys((line.title, line.tol) for line in found)
    return [(title, tol, [x for x in found if (x.title, x.tol) == (title, tol)]) for title, tol in keys]


def draw(found: list[Line], path: Path) -> None:
    """A dot for each method, hollow where the tolerance was not reached."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lorank.io.figures import use_style

    use_style()
    parts = groups(found)
    columns = max(len([1 for title, _, _ in parts if title == t]) for t in {title for title, _, _ in parts})
    rows = -(-len(parts) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(5.2 * columns, 2.5 * rows + 0.6), squeeze=False, sharex=True, layout="constrained"
    )
    for ax, (title, tol, group) in zip(axes.flat, parts, strict=False):
        for k, line in enumerate(reversed(group)):
            value = line.median if line.seconds else line.effort
            colour = "C1" if line.method == "lorank" else "C0"
            ax.plot([value], [k], "o", color=colour, mfc=colour if line.seconds else "none", ms=7)
            label = f"{value:.2g} s" if line.seconds else f"not reached ({line.best:.0e})"
            ax.annotate(label, (value, k), (7, 0), textcoords="offset points", va="center", fontsize=8)
        ax.set_xscale("log")
        ax.set_yticks(range(len(group)), [line.method for line in reversed(group)], fontsize=9)
        ax.set_ylim(-0.6, len(group) - 0.4)
        ax.set_title(f"{title}\nto {float(tol):.0e}", fontsize=9)
        ax.grid(False, axis="y")
    for ax in axes.flat[len(parts) :]:
        ax.set_visible(False)
    low, high = axes.flat[0].get_xlim()
    axes.flat[0].set_xlim(low, high * 6)
    for ax in axes[-1]:
        ax.set_xlabel("seconds (hollow: gave up then)")
    figure.savefig(path, dpi=130)
    plt.close(figure)


SHORT = ("lorank", "cmfrec", "pymanopt, thin transport", "Surprise SVD", "Spark ALS", "LIBMF")


def draw_bars(found: list[Line], path: Path) -> None:
    """The README's chart: seconds to a relative error of 1e-4, a panel for each problem, dashed where it was not reached."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lorank.io.figures import use_style

    use_style()
    parts = [(title, group) for title, tol, group in groups(found) if float(tol) == 1e-4]
    figure, axes = plt.subplots(
        1, len(parts), figsize=(3.5 * len(parts), 2.5), sharey=True, squeeze=False, layout="constrained"
    )
    for ax, (title, group) in zip(axes.flat, parts, strict=True):
        by_name = {line.method.removesuffix(" (tuning seed)"): line for line in group}
        for k, name in enumerate(reversed(SHORT)):
            if (line := by_name.get(name)) is None:
                continue
            value, color = line.median if line.seconds else line.effort, "C1" if name == "lorank" else "C0"
            ax.barh(k, value, color=color if line.seconds else "none", edgecolor=color, ls="-" if line.seconds else "--")
            label = f"{value:.2g} s" if line.seconds else f"not reached in {value:.0f} s"
            ax.annotate(label, (value, k), (3, 0), textcoords="offset points", va="center", fontsize=7)
        ax.set_xscale("log")
        ax.set_yticks(range(len(SHORT)), list(reversed(SHORT)), fontsize=8)
        ax.set_title(title, fontsize=8)
        ax.set_xlim(0.1, 3e4)
        ax.grid(False, axis="y")
    figure.supxlabel("seconds to a relative error of 1e-4, one thread each", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;width:100%;font-size:14px}
td,th{padding:.25rem .5rem;text-align:left;border-bottom:1px solid #8884}
.bar{height:.7rem;border-radius:3px;background:#40607f;min-width:2px}
.ours{background:#c1432e}.missed{background:none;border:1px dashed #888}
.scroll{overflow-x:auto}.place{width:11rem;min-width:5rem}
@media (prefers-color-scheme:dark){body{color:#ddd;background:#181a1d}.bar{background:#7aa2c9}.ours{background:#e0705c}}
"""


def page(facts: list[str], body: list[tuple[str, str, list[Line]]]) -> str:
    """One self-contained page: tables with bars on a logarithmic scale."""
    values = [line.median if line.seconds else line.effort for _, _, group in body for line in group]
    low, high = np.log10(min(values)) - 0.3, np.log10(max(values))
    out = ["<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width,initial-scale=1'>"]
    out += [f"<title>lorank and its peers</title><style>{STYLE}</style><h1>lorank and its peers</h1><ul>"]
    out += [f"<li>{html.escape(fact)}" for fact in facts]
    out += ["</ul><p>Bars are logarithmic; dashed ones did not reach the error."]
    for title, tol, group in body:
        out += [f"<h2>{html.escape(title)}, to {float(tol):.0e}</h2><div class=scroll><table><tr>"]
        out += [f"<th>{name}" for name in ("method", "", *HEAD[1:])]
        for line in group:
            value = line.median if line.seconds else line.effort
            width = 100 * (np.log10(value) - low) / (high - low)
            kind = "bar ours" if line.method == "lorank" else "bar" if line.seconds else "bar missed"
            name, *rest = map(html.escape, cells(line))
            out += [f"<tr><td>{name}<td class=place><div class='{kind}' style='width:{width:.0f}%'></div>"]
            out += [f"<td>{cell}" for cell in rest]
        out += ["</table></div>"]
    return "\n".join(out) + "\n</html>\n"
