"""Observations in partitions: completion problems larger than memory, on disk or on a Dask cluster.

A partition is a block of rows, stored as ``.npy`` files in a folder. The functions return or take a
:class:`~lorank.Completion`, which every solver and estimator accepts.
"""

from . import backend as _backend  # noqa: F401  (registers the backend "partitions")
from .completion import from_csv, from_frames, from_parquet, from_partitions, save_partitions

__all__ = ["from_csv", "from_frames", "from_parquet", "from_partitions", "save_partitions"]
