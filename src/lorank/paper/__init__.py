"""The paper's experiments for ``lorank reproduce``: definitions, claims and verdicts, figures, page.

:mod:`lorank.experiments` runs them. ``import lorank`` imports neither.
"""

from __future__ import annotations

import importlib

from ..experiments import Experiment

# Module and class of each experiment, in the order of the paper; imported on demand.
EXPERIMENTS = {
    "completion-size": "completion.CompletionSize",
    "completion-oversampling": "completion.CompletionOversampling",
    "completion-noise": "completion.CompletionNoise",
    "movielens": "movielens.MovieLensFit",
    "sensing-oversampling": "sensing.SensingOversampling",
    "sensing-success": "sensing.SensingSuccess",
    "phase-real": "phase.PhaseReal",
    "phase-complex": "phase.PhaseComplex",
    "theorem": "theorem.Theorem",
}


def load(name: str) -> Experiment:
    """The experiment of a name."""
    if name not in EXPERIMENTS:
        raise ValueError(f"unknown experiment {name!r}: choose from {', '.join(EXPERIMENTS)}, or all")
    module, defined = EXPERIMENTS[name].split(".")
    experiment: Experiment = getattr(importlib.import_module(f"{__name__}.{module}"), defined)()
    return experiment


__all__ = ["EXPERIMENTS", "load"]
