"""Observations past the memory of one machine: from files and folders of partitions, and into them."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..backends import Observations, get_backend
from ..datafits import Loss, resolve_loss
from ..parameter_checks import check, one_of, optional, whole
from ..partitions.building import build
from ..partitions.folder import Folder, open_folder
from ..partitions.frames import FrameSource
from ..partitions.memory import parse_size
from ..partitions.opening import observations_of, out_of_core, save
from ..partitions.sources import TableSource, find_files
from .array_checks import as_shape
from .loss_checks import check_merging

if TYPE_CHECKING:
    from .completion import Completion

WHILE_MADE = (
    200  # bytes an observation of a partition takes at most while it is sorted and written, four times as many as it has
)
EACH_WORKER = 2  # partitions at least, so that those of a lost one can be shared
TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


class BigCompletion:
    """What :class:`~lorank.Completion` can do with data that are larger than memory, or on other machines."""

    row_ids: np.ndarray | None = None  # what rows and columns are called, where files have given them names
    col_ids: np.ndarray | None = None
    observations: Observations

    @classmethod
    def from_partitions(
        cls,
        folder: str | os.PathLike[str],
        *,
        loss: str | Loss = "squares",
        precision: str = "auto",
        scratch: str | os.PathLike[str] | None = None,
        client: Any = None,
        cluster: str | None = None,
        memory: int | str | None = None,
    ) -> Self:
        """The observations of a folder that :meth:`save_partitions`, :meth:`from_parquet` or :meth:`from_csv` has written.

        Its files are mapped into memory and passed over block by block: they may be larger than the memory of the machine.

        Parameters
        ----------
        folder : path
        loss : str or Loss
            As of :class:`~lorank.Completion`.
        precision : {"auto", "double", "mixed"}
        scratch : path, optional
            Where files go that a solver needs on its way; by default beside the folder. With workers: where they write
            snapshots, which all of them must see under this name.
        client : distributed.Client, optional
            Compute with the workers of a Dask cluster, which must see the folder under the same path. They hold the rows'
            factors, and add up among themselves; a worker that is lost is made up for.
        cluster : str, optional
            The address of a scheduler, ``"tcp://..."``, or ``"local"`` for a worker process on each core.
        memory : int or str, optional
            Bytes, or ``"2GB"``, that the factors of each process may take: a fit whose factors are larger is refused before it
            begins. Pages of mapped files do not count, which the system drops where it needs the room.

        Examples
        --------
        >>> import tempfile, pathlib, lorank as lr
        >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     problem.save_partitions(pathlib.Path(place) / "entries", partitions=3)
        ...     again = lr.Completion.from_partitions(pathlib.Path(place) / "entries")
        ...     result = lr.solve(again, rank=2).numpy()
        >>> truth.distance(result.X) < 1e-4 * truth.norm()
        True
        """
        return cls._opened(open_folder(folder), loss, precision, scratch, client, cluster, memory)

    @classmethod
    def from_parquet(
        cls,
        path: Any,
        rows: str,
        cols: str,
        values: str | None = None,
        weights: str | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        partitions: int | None = None,
        shape: tuple[int, int] | None = None,
        dtype: Any = "float32",
        duplicates: str = "error",
        loss: str | Loss = "squares",
        precision: str = "auto",
        client: Any = None,
        cluster: str | None = None,
        memory: int | str | None = None,
        watch: Callable[[str, int], None] | None = None,
    ) -> Self:
        """The observations of Parquet files, of any size: written as a folder of partitions first, in bounded memory.

        Parameters
        ----------
        path : path, pattern or list of them
            A file, a folder as Spark, Dask, polars or DuckDB write it, or ``"ratings/*.parquet"``.
        rows, cols, values, weights : str
            Names of columns. Ids of rows and columns are whole numbers or text, and are numbered in rising order:
            ``problem.row_ids`` and ``problem.col_ids``. Without values each line counts one (and with ``duplicates="sum"`` a
            pair as often as it is there: what :class:`~lorank.ImplicitFactorization` takes).
        folder : path, optional
            Where to write the partitions, to be opened again with :meth:`from_partitions`; by default a temporary folder that
            lives as long as the problem.
        partitions : int, optional
            By default one for each eight million observations, or as many as ``memory`` asks for.
        shape : (int, int), optional
            Says that ids are numbers from 0 on.
        dtype : {"float32", "float64"}
        duplicates : {"error", "mean", "last", "sum"}
            What to make of a pair that occurs more than once, in whichever files.
        loss : str or Loss
            As of :class:`~lorank.Completion`.
        precision : {"auto", "double", "mixed"}
        client, cluster : optional
            As in :meth:`from_partitions`; then ``folder`` must be one that all workers see.
        memory : int or str, optional
            As in :meth:`from_partitions`; partitions are made small enough to be sorted in it.
        watch : callable, optional
            Called with what is going on and a number: observations so far, or partitions.

        Examples
        --------
        >>> import tempfile, polars, lorank as lr
        >>> table = polars.DataFrame({"user": ["ann", "ann", "bob"], "item": [7, 9, 9], "stars": [4.0, 2.0, 5.0]})
        >>> with tempfile.TemporaryDirectory() as place:
        ...     table.write_parquet(place + "/part-0.parquet")
        ...     problem = lr.Completion.from_parquet(place, rows="user", cols="item", values="stars")
        >>> problem.row_ids.tolist(), problem.col_ids.tolist()
        (['ann', 'bob'], [7, 9])
        """
        source = TableSource(find_files(path, (".parquet",)), (rows, cols, values, weights))
        options = {"folder": folder, "partitions": partitions, "shape": shape, "dtype": dtype, "duplicates": duplicates}
        options |= {"loss": loss, "precision": precision, "client": client, "cluster": cluster, "memory": memory}
        return cls._built(source, **options, watch=watch)

    @classmethod
    def from_csv(
        cls, path: Any, rows: str, cols: str, values: str | None = None, weights: str | None = None, **options: Any
    ) -> Self:
        r"""The same from CSV files (``.tsv``: with tabs) that name their columns; options as in :meth:`from_parquet`.

        Examples
        --------
        >>> import tempfile, pathlib, lorank as lr
        >>> with tempfile.TemporaryDirectory() as place:
        ...     _ = (pathlib.Path(place) / "ratings.csv").write_text("user,item,stars\nann,7,4\nann,9,2\nbob,9,5\n")
        ...     problem = lr.Completion.from_csv(place + "/ratings.csv", rows="user", cols="item", values="stars")
        >>> problem.m
        3
        """
        source = TableSource(find_files(path, TEXT), (rows, cols, values, weights))
        return cls._from(source, "from_csv", options)

    @classmethod
    def from_frames(
        cls, frames: Any, rows: str, cols: str, values: str | None = None, weights: str | None = None, **options: Any
    ) -> Self:
        """The same from data frames: one of Dask's, of which one partition is in memory at a time, or pandas' or polars', or a
        list of them; options as in :meth:`from_parquet`.

        Examples
        --------
        >>> import polars, lorank as lr
        >>> frames = [polars.DataFrame({"user": ["ann", name], "item": [7, 9], "stars": [4.0, 5.0]}) for name in ("bob", "eve")]
        >>> problem = lr.Completion.from_frames(frames, rows="user", cols="item", values="stars", duplicates="mean")
        >>> problem.row_ids.tolist(), problem.m
        (['ann', 'bob', 'eve'], 3)
        """
        return cls._from(FrameSource(frames, (rows, cols, values, weights)), "from_frames", options)

    @classmethod
    def _from(cls, source: TableSource | FrameSource, name: str, options: dict[str, Any]) -> Self:
        defaults = {"folder": None, "partitions": None, "shape": None, "dtype": "float32", "duplicates": "error"}
        defaults |= {"loss": "squares", "precision": "auto", "client": None, "cluster": None, "memory": None, "watch": None}
        unknown = set(options) - set(defaults)
        if unknown:
            raise TypeError(f"{name} has no option {sorted(unknown)[0]!r}: see Completion.from_parquet")
        return cls._built(source, **{**defaults, **options})

    def save_partitions(self, folder: str | os.PathLike[str], partitions: int | None = None) -> None:
        """Write the observations as a folder of partitions, for :meth:`from_partitions`.

        Parameters
        ----------
        folder : path
            Must not be there yet, or be empty.
        partitions : int, optional
            Blocks of rows with about as many observations each; by default as they are, or one for each eight million.
        """
        check("partitions", partitions, optional(whole(1)))
        save(self.observations, folder, partitions, (self.row_ids, self.col_ids))

    @classmethod
    def _built(
        cls,
        source: TableSource | FrameSource,
        folder: Any,
        partitions: int | None,
        shape: Any,
        dtype: Any,
        duplicates: str,
        loss: Any,
        precision: str,
        client: Any,
        cluster: str | None,
        memory: Any,
        watch: Any,
    ) -> Self:
        allowed = parse_size(memory)
        check("partitions", partitions, optional(whole(1)))
        check("dtype", str(dtype), one_of(("float32", "float64")))
        check("duplicates", duplicates, one_of(("error", "mean", "last", "sum")))
        check_merging(resolve_loss(loss), duplicates, source.names[3] is not None)
        source.check()
        shape, least = None if shape is None else as_shape(shape), 1
        if client is not None or cluster is not None:  # what is wrong there is said before anything long runs
            from ..partitions.client import connect
            from ..partitions.cluster import check_workers

            client, cluster = connect(client, cluster), None
            check_workers(client, list(client.nthreads()))
            least = EACH_WORKER * max(len(client.nthreads()), 1)
        home = None if folder is not None else tempfile.mkdtemp(prefix="lorank.")
        try:
            place = Path(folder) if home is None else Path(home) / "partitions"
            made = build(
                source,
                place,
                shape=shape,
                partitions=partitions,
                dtype=str(dtype),
                duplicates=duplicates,
                least=least,
                each=None if allowed is None else max(allowed // WHILE_MADE, 1),
                watch=watch,
            )
            problem = cls._opened(made, loss, precision, None, client, cluster, allowed)
        except BaseException:
            if home is not None:
                shutil.rmtree(home, ignore_errors=True)
            raise
        if home is not None:
            weakref.finalize(problem.observations.graph, shutil.rmtree, home, ignore_errors=True)  # type: ignore[attr-defined]
        return problem

    @classmethod
    def _opened(
        cls, folder: Folder, loss: Any, precision: str, scratch: Any, client: Any, cluster: str | None, memory: Any = None
    ) -> Self:
        memory = parse_size(memory)
        check("precision", precision, one_of(("auto", "double", "mixed")))
        if client is None and cluster is None:
            observations, backend = out_of_core(folder, None, scratch, memory)
        else:
            from ..partitions.client import connect
            from ..partitions.cluster import Cluster

            engine = Cluster(folder, connect(client, cluster), scratch)
            observations, backend = observations_of(folder, engine, get_backend(), memory)
        problem: Completion = cls.__new__(cls)  # type: ignore[assignment]
        problem.precision, problem.loss = precision, resolve_loss(loss)  # type: ignore[assignment]
        if problem.loss is not None:
            values, problem.loss = problem.loss.prepare(observations.values, backend)
            observations = observations if values is observations.values else observations.with_values(values)
        problem.row_ids, problem.col_ids = folder.ids(0), folder.ids(1)
        problem._observe(observations, backend)
        problem._warn_about_empty()
        return problem  # type: ignore[return-value]

    def fingerprint(self) -> str:
        """A number that differs where problems differ."""
        digest = getattr(self.observations, "digest", None)
        if digest is None:
            return super().fingerprint()  # type: ignore[misc]
        return hashlib.sha256(f"{self.observations.shape} {digest()}".encode()).hexdigest()
