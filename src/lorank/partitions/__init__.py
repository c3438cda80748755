"""Observations in partitions, blocks of rows: on disk, in memory, with other processes and on other machines."""
