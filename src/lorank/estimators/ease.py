"""EASE: a linear item-to-item model of implicit feedback."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..common.checks import POSITIVE, ParameterError, one_of, optional, or_word, whole
from ..factorization.implicit import ImplicitSettings
from ..factorization.item_model import ItemModel, LowRankGram
from ..factorization.order_selection import ITEM_RANK, ItemSettings, automatic_form, make_folds, select_item_settings
from ..factorization.ranking_model import RankingModel
from ..problems import Completion
from .implicit_state import CONFIDENCES, ImplicitEstimator, ImplicitState, item_counts, positives_of, sample_users
from .inputs import Interactions
from .recommendation import part_of_state


class EASE(ImplicitEstimator):
    """Recommend items with a linear item-to-item model: ridge regression of each item on all others.

    The scores of a user with items x are ``x B``. B has a diagonal of zeros and minimizes
    ``|X - X B|^2 + regularization |B|^2`` (Steck 2019, "Embarrassingly Shallow Autoencoders for Sparse Data"), in closed form.
    For many items, each item is predicted from its most similar items only (``neighbors``), or X^T X is replaced by a matrix
    of low rank plus a diagonal (``rank``): B then has ``neighbors`` or ``2 rank`` instead of ``n_items`` numbers for each item.

    Parameters
    ----------
    regularization : float or "auto"
        Weight of the penalty, in units of X^T X: several hundred is usual. ``"auto"`` selects it by the NDCG of held-out pairs,
        of the 1,000 most popular items unless neighbors are used.
    rank : int, None or "auto"
        Rank of the approximation of X^T X; None for X^T X itself, which takes ``16 n_items^2`` bytes. ``"auto"`` is None up to
        8,000 items; for more, ``neighbors`` is 100 where X^T X is sparse, and the rank is 256 otherwise.
    neighbors : int, optional
        Predict each item from so many of its most similar items.
    confidence : {"log", "counts", "equal"}
        Entry of X for a pair with count c: ``log2(1 + c)``, c, or 1.
    random_state : int, RandomState or None
    device : str, optional
        PyTorch device of the fit with a rank, such as ``"cuda"``.

    Attributes
    ----------
    user_ids_, item_ids_ : arrays
        In ascending order: ids of the data, or row and column indices of a sparse matrix.
    regularization_ : float
    rank_, neighbors_ : int or None
    state_ : ImplicitState
        All of the fitted model, immutable; ``state_.ranking.items`` is B.

    Raises
    ------
    ValueError
        By ``fit`` and ``partial_fit`` for invalid data or parameters; by all other methods before ``fit`` (scikit-learn's
        NotFittedError).

    Examples
    --------
    >>> import numpy as np
    >>> from lorank import EASE
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, (60, 1))  # two groups of users, and two groups of items
    >>> users, items = np.nonzero(rng.random((60, 20)) < np.where(group == np.arange(20) % 2, 0.5, 0.02))
    >>> model = EASE().fit(np.column_stack([users, items]))
    >>> best = model.recommend([0], n=3).items[0]
    >>> bool((best % 2 == group[0]).all())
    True
    """

    parameters: ClassVar = {
        "regularization": or_word(POSITIVE, "auto"),
        "rank": optional(or_word(whole(1), "auto")),
        "neighbors": optional(whole(1)),
        "confidence": one_of(CONFIDENCES),
    }
    regularization_: float = part_of_state("ranking.item_settings.regularization")
    rank_: int | None = part_of_state("ranking.item_settings.rank")
    neighbors_: int | None = part_of_state("ranking.item_settings.neighbors")

    def __init__(
        self,
        regularization: float | str = "auto",
        *,
        rank: int | str | None = "auto",
        neighbors: int | None = None,
        confidence: str = "log",
        random_state: Any = 0,
        device: str | None = None,
    ) -> None:
        self.regularization = regularization
        self.rank = rank
        self.neighbors = neighbors
        self.confidence = confidence
        self.random_state = random_state
        self.device = device

    def plot(self, figure: Any = None) -> Any:
        """Plot the item-to-item weights between the 30 items with the most pairs. Needs matplotlib.

        Parameters
        ----------
        figure : matplotlib figure, optional
            Where to draw; by default a new figure with a transparent ground, for light and dark pages.

        Returns
        -------
        matplotlib figure
        """
        from .plots import plot_items

        check_is_fitted(self)
        return plot_items(self, figure)

    def _fit_pairs(self, data: Interactions) -> ImplicitState:
        positives, seed = positives_of(data, self.confidence), self._seed()
        if self.neighbors is not None:
            if self.rank not in ("auto", None):
                raise ParameterError("neighbors", f"and rank={self.rank} are two approximations of EASE: pass one of them")
            settings = ItemSettings(1.0, neighbors=int(self.neighbors))
        elif self.rank == "auto":
            settings = automatic_form(positives)
        else:
            settings = ItemSettings(1.0, None if self.rank is None else int(self.rank))
        if self.regularization != "auto":
            settings = replace(settings, regularization=float(self.regularization))
        elif folds := make_folds(positives, np.ones(len(data.users), bool), seed):
            settings = select_item_settings(folds[0], settings)
        ranking = _ranking(settings.fit(positives.matrix(), self._backend(), seed), settings, data.shape, seed)
        return ImplicitState.of(data, self.confidence, replace(ranking, popularity=item_counts(data).astype(float)))

    def _fit_partitions(self, problem: Completion) -> RankingModel:
        if self.rank is None or self.neighbors is not None:
            raise ParameterError("rank", "must be a number or 'auto' for partitions, with neighbors left at None")
        seed, backend = self._seed(), problem.backend
        settings = ItemSettings(1.0, ITEM_RANK if self.rank == "auto" else int(self.rank))
        observed, _ = self._partitioned_positives(problem)
        if self.regularization != "auto":
            settings = replace(settings, regularization=float(self.regularization))
        elif folds := make_folds(some := sample_users(observed, seed), np.ones(len(some.rows), bool), seed):
            settings = select_item_settings(folds[0], settings)
        weights = observed.values if observed.weights is None else observed.weights
        gram = LowRankGram.of(problem.observations.with_values(weights), backend, int(settings.rank or 1), seed)
        return _ranking(gram.ease(float(settings.regularization or 1.0)), settings, problem.shape, seed)


def _ranking(items: ItemModel, settings: ItemSettings, shape: tuple[int, int], seed: int) -> RankingModel:
    """A ranking model without factors and popularities."""
    left, right = (np.zeros((n, 0), np.float32) for n in shape)
    about = ImplicitSettings(0, seed=seed)
    return RankingModel(left, right, np.zeros(shape[1]), about, order="similarity", items=items, item_settings=settings)
