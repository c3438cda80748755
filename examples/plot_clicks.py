"""
Implicit feedback: clicks and purchases
=======================================

``ImplicitFactorization`` recommends items from implicit feedback, such as clicks or purchases, without ratings.
``lorank.evaluation`` holds out some of the purchases and compares the recommendations with a popularity baseline.

The data are synthetic: four kinds of customers, twelve categories of items, and a popularity that varies between items.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr
from lorank.evaluation import HeldOutItems, Popularity, compare, leave_some_out

# %%
# Synthetic purchases.

rng = np.random.default_rng(0)
users, items, kinds, categories = 800, 240, 4, 12
kind, category = rng.integers(0, kinds, users), rng.integers(0, categories, items)
likes = rng.dirichlet(np.full(categories, 0.3), kinds)
popular = rng.pareto(1.5, items) + 0.2
chance = likes[kind][:, category] * popular
chance *= 0.05 / chance.mean()
pairs = np.argwhere(rng.random((users, items)) < np.minimum(chance, 0.9))
print(f"{len(pairs):,} purchases of {users} customers of {items} items")

# %%
# A fifth of each customer's purchases is held out for the evaluation of lists of ten items.

out = leave_some_out(pairs[:, 0], share=0.2, seed=0)
known, held = pairs[~out], HeldOutItems.from_pairs(*pairs[out].T, users)
model = lr.ImplicitFactorization(rank=8).fit(known)


class ByNumber:
    """The model with user numbers in place of ids, as ``compare`` needs it."""

    def recommend(self, rows, n):
        lists = model.recommend([int(row) for row in rows], n=n)
        return np.asarray(lists.items, int), lists.scores


models = {"popularity": Popularity(*known.T, n_items=items), "ImplicitFactorization": ByNumber()}
sold = np.bincount(known[:, 1], minlength=items)
scores = {name: one[0] for name, one in compare(models, held, sold, users, n=10).items()}
for name, one in scores.items():
    print(f"{name}: recall {one.recall:.3f}, NDCG {one.ndcg:.3f}, coverage {one.coverage:.0%}")

# %%
# Share of the five most similar items that belong to the same category.

taken = [int(k) for k in model.item_ids_]
similar = [np.asarray(model.similar_items(k, n=5).items, int) for k in taken]
same = np.mean([np.mean(category[others] == category[k]) for k, others in zip(taken, similar, strict=True)])
print(f"same category: {same:.0%} (by chance {1 / categories:.0%})")

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
names = list(scores)
for k, measure in enumerate(("recall", "ndcg", "coverage")):
    heights = [getattr(scores[name], measure) for name in names]
    left.bar(np.arange(2) + 0.25 * (k - 1), heights, 0.25, label={"ndcg": "NDCG"}.get(measure, measure))
left.set_xticks(range(2), names)
left.set_title("lists of ten, held-out purchases")
left.legend()
factors = model.item_factors_ / np.linalg.norm(model.item_factors_, axis=1, keepdims=True)
plane = np.linalg.svd(factors - factors.mean(0), full_matrices=False)[0][:, :2]
right.scatter(*plane.T, c=category[taken], cmap="tab20", s=20 + 3 * popular[taken])
right.set(title="item factors, coloured by category", xticks=[], yticks=[])
plt.show()
