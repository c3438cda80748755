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
# Left: scores of the lists. Right: the share of each category in the lists, by kind of customer, next to the share in
# the purchases. Popularity recommends the same items to all customers.

figure, axes = plt.subplots(1, 4, figsize=(9.6, 3.6), layout="constrained", width_ratios=[1.5, 1, 1, 1])
names = list(scores)
for k, (name, offset) in enumerate(zip(names, (-0.18, 0.18), strict=True)):
    heights = [scores[name].recall, scores[name].ndcg, scores[name].coverage]
    bars = axes[0].bar(np.arange(3) + offset, heights, 0.36, color=f"C{1 - k}", label=name)
    axes[0].bar_label(bars, fmt="%.2f", fontsize=9, color="0.5")
axes[0].set_xticks(range(3), ["recall", "NDCG", "catalog\ncoverage"])
axes[0].set(title="Lists of ten items", ylim=(0, 0.75))
axes[0].grid(False, axis="x")
axes[0].legend(loc="upper left")


def by_kind(who, what):
    """Share of each category in the items of each kind of customer."""
    counts = np.zeros((categories, kinds))
    np.add.at(counts, (category[what], kind[who]), 1)
    return counts / counts.sum(0)


lists = {name: one.recommend(np.arange(users), 10)[0] for name, one in models.items()}
shares = {"Purchases": by_kind(*pairs.T)} | {
    name: by_kind(np.repeat(np.arange(users), 10), one.ravel()) for name, one in lists.items()
}
for axis, (title, share) in zip(axes[1:], shares.items(), strict=True):
    image = axis.imshow(share, cmap="viridis", vmin=0, vmax=0.6, aspect="auto")
    axis.set(
        title={"ImplicitFactorization": "Recommended"}.get(title, title.capitalize()),
        xlabel="kind of customer",
        xticks=range(kinds),
        yticks=[],
    )
    axis.grid(False)
axes[1].set_ylabel("category of items")
figure.colorbar(image, ax=axes[1:], label="share", aspect=30)
plt.show()
