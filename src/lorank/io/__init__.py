"""Ratings and tables from files. polars is an extra, ``lorank[files]``."""

from .ratings import Columns, Ratings, read_pairs, read_ratings
from .table_blocks import TableBlocks, open_table
from .tables import Table, read_table

__all__ = ["Columns", "Ratings", "Table", "TableBlocks", "open_table", "read_pairs", "read_ratings", "read_table"]
