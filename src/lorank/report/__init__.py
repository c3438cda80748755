"""Comparing solvers on a problem with a known solution: recorded runs and pictures of them.

Plots need matplotlib, which is imported when one is drawn and not before.
"""

from .convergence_plot import convergence_plot
from .recorded_runs import Run, record, speedup

__all__ = ["Run", "convergence_plot", "record", "speedup"]
