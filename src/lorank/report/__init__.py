"""HTML reports of models, rankings and imputed tables; recorded runs of solvers and their convergence plots.

matplotlib and plotly are imported when a plot is drawn.
"""

from .convergence_plot import convergence_plot
from .recorded_runs import Run, record, speedup

__all__ = ["Run", "convergence_plot", "record", "speedup"]
