"""HTML reports of models, rankings and imputed tables; comparison of solvers.

matplotlib and plotly are imported when a plot is drawn.
"""

from .comparison import Comparison, Run, compare

__all__ = ["Comparison", "Run", "compare"]
