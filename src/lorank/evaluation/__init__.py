"""Evaluation of recommendations: ranking metrics, train-test splits by user, and baselines.

>>> import numpy as np
>>> from lorank.evaluation import HeldOutItems, Popularity, compare, leave_some_out
>>> rng = np.random.default_rng(0)
>>> users, items = np.nonzero(rng.random((50, 20)) < np.linspace(0.05, 0.6, 20))
>>> out = leave_some_out(users, share=0.2)
>>> popular = Popularity(users[~out], items[~out], n_items=20)
>>> held = HeldOutItems.from_pairs(users[out], items[out], 50)
>>> scores = compare({"popularity": popular}, held, np.bincount(items[~out], minlength=20), n_users=50, n=10)
>>> scores["popularity"][0].ndcg > 0.3
True
"""

from .baselines import ItemMean, Popularity
from .compare import Recommender, compare
from .held_out import HeldOutItems
from .ranking_metrics import (
    RankingScores,
    average_precision,
    catalog_coverage,
    hit_rate,
    ndcg,
    novelty,
    precision,
    ranking_scores,
    recall,
)
from .splits import leave_last_out, leave_some_out

__all__ = [
    "HeldOutItems",
    "ItemMean",
    "Popularity",
    "RankingScores",
    "Recommender",
    "average_precision",
    "catalog_coverage",
    "compare",
    "hit_rate",
    "leave_last_out",
    "leave_some_out",
    "ndcg",
    "novelty",
    "precision",
    "ranking_scores",
    "recall",
]
