"""The engine of experiments and benchmarks: points, methods and their tuning, stored runs, progress, tables.

An :class:`Experiment` says what is compared and where; :func:`lorank.experiments.runner.run_experiment` runs what is not stored
yet. The paper's own experiments are in :mod:`lorank.paper`. ``import lorank`` imports neither.
"""

from __future__ import annotations

from .experiment import SCALES, Experiment, Instance, Method, Outcome, PlannedIterations, Point

__all__ = ["SCALES", "Experiment", "Instance", "Method", "Outcome", "PlannedIterations", "Point"]
