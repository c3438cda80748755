"""What a fitted MatrixCompletion recommends, and to whom, in the users' own ids."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..common.checks import counted
from ..factorization.ranking_model import RankingModel
from ..factorization.training_data import TrainingData
from .entries import find_known, find_side
from .frames import beside, make_frame
from .ids import named
from .neighbours import Explanation

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion


class RecommenderMixin:
    """Lists, likenesses and reasons, of a model whose rows and columns may have ids."""

    model_: Any
    handle_unknown: str
    ids_: dict[str, np.ndarray] | None = None
    labels_: dict[str, Any] | None = None  # the names of a data frame's columns
    _memory: TrainingData | None = None  # the observations, where they are not too many
    _taste: RankingModel | None = None  # the order of recommendations, when it was asked for,
    _taste_is_old = False  # and whether there was a partial_fit since

    def recommend(
        self, rows: Any, n: int = 10, exclude_seen: bool = True, by: str = "taste", *, as_frame: str | None = None
    ) -> Any:
        """Columns for each row, best first.

        Columns that were never observed are not recommended. Rows are taken in blocks, so that the matrix is never there as a
        whole.

        Parameters
        ----------
        rows : index or id, or (k,) array of them
        n : int
        exclude_seen : bool
            Leave out what the row has observations of.
        by : {"taste", "rating"}
            ``"taste"`` puts first what a row would take and like: what it came to rate at all says more about that than the
            ratings do. The model for it (see :class:`ImplicitFactorization`) is fitted to the same data when it is first asked
            for; rows that were never observed get what is liked most often. ``"rating"`` puts the largest predictions first.
        as_frame : {"pandas", "polars"}, optional
            Give a data frame instead: a line for each row and column, with the place on the list and the prediction
            (``place_`` and ``prediction_`` where the data have columns of these names).

        Returns
        -------
        cols : (k, n) array
            Indices, or ids after a fit to ids; -1 (None, where ids are text) where fewer than n columns are left.
        predictions : (k, n) array
            What :meth:`predict` gives for them; nan there.
        """
        check_is_fitted(self)
        from .recommending import recommend

        at = find_side(rows, self.ids_, "rows")
        if self.ids_ is not None or self.handle_unknown == "error":
            self._mind_unknown(at < self.model_.shape[0], "row", ("is", "are"), "not in the data of the fit")
        found, scores = recommend(cast("MatrixCompletion", self), at, n, exclude_seen, by)
        cols = self._named(found, "cols")
        if as_frame is None:
            return cols, scores
        k, place = np.nonzero(found >= 0)
        names, there = self.labels_ or {"row": "row", "col": "col"}, found >= 0
        columns = {names["row"]: np.atleast_1d(np.asarray(rows))[k], names["col"]: cols[there]}
        own = beside(list(columns), ("place", "prediction"))
        return make_frame(as_frame, columns | {own[0]: place + 1, own[1]: scores[there]})

    def similar_items(self, cols: Any, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The columns that are taken by the same rows: those whose factors of taste point in the same direction.

        Parameters
        ----------
        cols : index or id, or (k,) array of them
        n : int

        Returns
        -------
        cols, cosines : (k, n) arrays
            Other columns, nearest first, and the cosines of the angles; -1 (None, where ids are text) and nan where there are
            no more. Columns that were never observed are left out.
        """
        check_is_fitted(self)
        from .recommending import similar

        found, cosines = similar(cast("MatrixCompletion", self), self._places(cols, "cols"), n, columns=True)
        return self._named(found, "cols"), cosines

    def similar_users(self, rows: Any, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The rows that take the same columns; as :meth:`similar_items` for rows."""
        check_is_fitted(self)
        from .recommending import similar

        found, cosines = similar(cast("MatrixCompletion", self), self._places(rows, "rows"), n, columns=False)
        return self._named(found, "rows"), cosines

    def explain(self, row: Any, col: Any) -> Explanation:
        """Which of a row's observations speak for recommending a column.

        The score of taste is a sum over what the row has rated, as in :meth:`ImplicitFactorization.explain`.

        Parameters
        ----------
        row, col : indices or ids

        Returns
        -------
        items, contributions : (m,) arrays
            The row's columns, what speaks most for the column first, and what each adds to the score.
        score : float
        """
        check_is_fitted(self)
        from .recommending import explain

        found = explain(cast("MatrixCompletion", self), self._places(row, "rows"), self._places(col, "cols"))
        return found._replace(items=self._named(found.items, "cols"))

    @property
    def _seen(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The pattern of the observations."""
        return None if self._memory is None else self._memory.seen

    @property
    def _liked(self) -> np.ndarray:
        return np.zeros(0, bool) if self._memory is None else self._memory.liked

    def _places(self, wanted: Any, side: str) -> np.ndarray:
        """Those of known rows (columns)."""
        return find_known(wanted, self.ids_, side, self.model_.shape[side == "cols"])

    def _named(self, places: np.ndarray, side: str) -> np.ndarray:
        return places if self.ids_ is None else named(places, self.ids_[side])

    def _mind_unknown(self, known: np.ndarray, thing: str, verbs: tuple[str, str], what: str) -> None:
        """Say that some are not known, or refuse them, as ``handle_unknown`` asks."""
        bad = np.flatnonzero(~known)
        if not len(bad) or self.handle_unknown == "ignore":
            return
        text = f"{len(bad):,} of {counted(len(known), thing)} {verbs[len(bad) != 1]} {what}"
        if self.handle_unknown == "error":
            raise ValueError(f"{text}, the first at place {bad[0]}; handle_unknown='warn' predicts them as average ones")
        warnings.warn(f"{text}: predicted as an average one (see known)", UserWarning, stacklevel=3)
