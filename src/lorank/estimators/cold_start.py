"""Rows and columns that are known by their features, with observations or without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from ..common.checks import ParameterError, counted
from ..factorization import Settings
from ..factorization.feature_priors import Features
from ..factorization.ranking_model import RankingModel
from .entries import Entries
from .features import SideTable, read_features
from .frames import is_frame

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion

SIDES = (("row", "rows"), ("col", "cols"))


def with_features(entries: Entries, row_features: Any, col_features: Any) -> tuple[Entries, dict[str, SideTable]]:
    """The observations among all rows and columns that have features, and these."""
    sides: dict[str, SideTable] = {}
    for (side, plural), table in zip(SIDES, (row_features, col_features), strict=True):
        if table is None:
            continue
        index, ids = getattr(entries, plural), None if entries.ids is None else entries.ids[plural]
        label = None if entries.labels is None else entries.labels[side]
        numbers, encoder, together = read_features(table, side, ids, label, int(index.max()) + 1)
        sides[side] = SideTable(encoder, numbers)
        shape = list(entries.shape or (int(entries.rows.max()) + 1, int(entries.cols.max()) + 1))
        shape[side == "col"] = numbers.shape[0]
        entries = replace(entries, shape=(shape[0], shape[1]))
        if together is not None and ids is not None and entries.ids is not None:
            place = np.searchsorted(together, ids)
            entries = replace(entries, ids=entries.ids | {plural: together}, **{plural: place[index]})
    return entries, sides


def featured(settings: Settings, sides: dict[str, SideTable], shape: tuple[int, int]) -> Settings:
    """The settings of a fit with features; a ValueError where they cannot be used."""
    if settings.nonnegative:
        raise ValueError("features foretell factors of either sign: leave out nonnegative=True, or the features")
    if settings.regularization is not None:
        raise ValueError("features are the means of learned priors: leave regularization at 'auto' or 'learned'")
    if settings.device is not None:
        raise ValueError("features are used in main memory: leave out device=")
    for (side, _), n in zip(SIDES, shape, strict=True):
        if side in sides and sides[side].numbers.shape[0] != n:
            lines = sides[side].numbers.shape[0]
            raise ValueError(
                f"{side}_features have {counted(lines, 'line')}, and the matrix has {counted(n, side)}: they must be as many"
            )
    found = {f"{side}_features": Features(table.numbers) for side, table in sides.items()}
    return replace(settings, row_features=found.get("row_features"), col_features=found.get("col_features"))


def foreseen(model: MatrixCompletion, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """Whether each pair's row and column were observed, or are known by their features."""
    known = np.ones(len(rows), bool)
    for (side, _), index, counts in zip(SIDES, (rows, cols), (model.model_.row_counts, model.model_.col_counts), strict=True):
        inside = index < len(counts)
        known &= inside if side in model._sides else inside & (counts[np.where(inside, index, 0)] > 0)
    return known


def told_by(model: MatrixCompletion, features: Any) -> np.ndarray:
    """What the features of one new row add to the mean of its prior, (k,)."""
    if "row" not in model._sides or model.model_.row_coefficients is None:
        raise ValueError("the model was fitted without row_features: leave features out, or fit again with row_features")
    if isinstance(features, dict):
        features = OneLine(features)
    elif hasattr(features, "tocoo"):
        features = features.tocsr()  # not every format has columns to take
    elif not is_frame(features):
        features = np.atleast_2d(np.asarray(features))
    if features.shape[0] != 1:
        raise ParameterError("features", f"must be those of one row, got {counted(features.shape[0], 'line')}")
    return affine(model._sides["row"].encoder.encode(features, "row"), model.model_.row_coefficients)[0]


class OneLine:
    """A dict as a data frame of one line, as far as an encoder looks at one."""

    def __init__(self, cells: dict[str, Any]) -> None:
        self.cells, self.columns, self.shape = cells, list(cells), (1, len(cells))

    def __getitem__(self, name: str) -> Any:
        return OneCell(self.cells[name])


class OneCell:
    """A column of it."""

    def __init__(self, cell: Any) -> None:
        self.cell = cell

    def to_numpy(self) -> np.ndarray:
        found = np.asarray([self.cell])
        return found if found.dtype.kind in "biuf" else np.asarray([self.cell], object)


def never_taken(model: MatrixCompletion) -> np.ndarray:
    """Columns that are not recommended: never observed, and nothing is known of them."""
    counts = model.model_.col_counts
    return np.zeros(len(counts), bool) if "col" in model._sides else np.asarray(counts == 0)


def foretold(model: MatrixCompletion, taste: RankingModel) -> RankingModel:
    """Factors of taste for rows and columns without observations: by a regression of the others' on their features."""
    found = {}
    counts = (model.model_.row_counts, model.model_.col_counts)
    for (side, plural), count in zip(SIDES, counts, strict=True):
        cold = count == 0
        if side not in model._sides or not cold.any() or cold.all():
            continue
        factors, numbers = getattr(taste, plural), model._sides[side].numbers
        x = factors[~cold].astype(float)
        features = Features(numbers[~cold])
        spread = np.cov(x, rowvar=False) + 1e-12 * np.eye(x.shape[1]) * max(float(np.trace(np.atleast_2d(np.cov(x.T)))), 1e-30)
        link, _ = features.regress(x, np.linalg.inv(np.atleast_2d(spread)), None)
        full = factors.copy()
        full[cold] = affine(numbers[cold], features.affine(link)) + x.mean(0)
        found[plural] = full
    return replace(taste, **found) if found else taste


def affine(numbers: scipy.sparse.csr_array, link: np.ndarray) -> np.ndarray:
    """What features add to the means."""
    return np.asarray(numbers @ link[:-1] + link[-1])
