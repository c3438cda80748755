"""Metrics: weights on rows and columns, computed from the gradient. RGD, PRGD and Shampoo differ in the metric only."""

from .blocks import Blocks
from .counts import Counts
from .epsilon import Epsilon, Fixed, Median, RelativeMax, Theory
from .protocol import Canonical, Metric
from .quotient import Quotient
from .row_column import RowColumn
from .shampoo import FullShampoo, Shampoo

__all__ = [
    "Blocks",
    "Canonical",
    "Counts",
    "Epsilon",
    "Fixed",
    "FullShampoo",
    "Median",
    "Metric",
    "Quotient",
    "RelativeMax",
    "RowColumn",
    "Shampoo",
    "Theory",
]
