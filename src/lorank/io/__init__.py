"""Ratings and tables from files. polars is an extra, ``lorank[files]``."""

from .ratings import Columns, Ratings, read_ratings
from .tables import Table, open_table

__all__ = ["Columns", "Ratings", "Table", "open_table", "read_ratings"]
