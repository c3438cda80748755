"""
Ratings: predictions, intervals and recommendations
===================================================

``MatrixCompletion`` on ratings: automatic rank selection, predictions with intervals, recommendations, and predictions for a
new user. The data are MovieLens-100K if ``LORANK_DATA`` names its folder, otherwise synthetic: 600 users and 400 films with
uneven popularity.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse

import lorank as lr

# %%
# Ratings; a tenth of them is held out.

rng = np.random.default_rng(0)
if os.environ.get("LORANK_DATA"):
    data = lr.datasets.load_movielens("100k")
    pairs, stars = np.column_stack([data.rows, data.cols]), np.asarray(data.ratings, float)
else:
    people, films = 600, 400
    popular = np.outer(rng.lognormal(size=people), rng.lognormal(size=films))
    pairs = np.argwhere(rng.random((people, films)) < np.minimum(0.9, 0.08 * popular / popular.mean()))
    taste, style = rng.standard_normal((people, 3)), rng.standard_normal((films, 3))
    kind = 0.5 * rng.standard_normal(people)[pairs[:, 0]] + 0.5 * rng.standard_normal(films)[pairs[:, 1]]
    liking = 3.4 + kind + 0.4 * (taste[pairs[:, 0]] * style[pairs[:, 1]]).sum(1) + 0.6 * rng.standard_normal(len(pairs))
    stars = np.clip(np.round(liking), 1, 5)
held = rng.random(len(stars)) < 0.1
shape = tuple(pairs.max(axis=0) + 1)
print(lr.diagnose(scipy.sparse.coo_array((stars[~held], tuple(pairs[~held].T)), shape), rank=5))

# %%
# Fit. Rank and regularization are selected on held-out ratings.

model = lr.MatrixCompletion(bounds=(1, 5), shape=shape, ranking=True, random_state=0).fit(pairs[~held], stars[~held])
known = model.known(pairs[held])  # pairs whose user and film are in the training data
predicted, truth = model.predict(pairs[held][known]), stars[held][known]
low, high = model.predict_interval(pairs[held][known], coverage=0.9)


def rmse(guess):
    return np.sqrt(np.mean((guess - truth) ** 2))


inside = np.mean((low <= truth) & (truth <= high))
print(f"rank {model.rank_}, regularization {model.regularization_}")
print(f"held-out ratings: RMSE {rmse(predicted):.3f}; mean baseline {rmse(stars[~held].mean()):.3f}")
print(f"90 % intervals cover {inside:.0%} of them")

# %%
# Recommendations for known users, and for a new user.

best, values = model.recommend([0, 1], n=3)
print("for rows 0 and 1:", best.tolist())
newcomer = model.fold_in([int(best[0, 0]), int(best[0, 1])], [5.0, 1.0])
print("for a new user:", np.argsort(-newcomer.predictions)[:3].tolist())

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
left.boxplot([predicted[truth == k] for k in range(1, 6)], positions=range(1, 6), showfliers=False)
left.set(xlabel="rating", ylabel="predicted", title="held-out ratings")
counts = np.bincount(pairs[~held][:, 0], minlength=shape[0])[pairs[held][known][:, 0]]
bins = np.quantile(counts, np.linspace(0, 1, 7))
place = np.clip(np.digitize(counts, bins), 1, 6)
right.plot(
    [counts[place == k].mean() for k in range(1, 7)],
    [np.sqrt(np.mean((predicted - truth)[place == k] ** 2)) for k in range(1, 7)],
    "o-",
    label="RMSE",
)
right.plot([counts[place == k].mean() for k in range(1, 7)], [(high - low)[place == k].mean() / 4 for k in range(1, 7)], "s-")
right.lines[-1].set_label("interval width / 4")
right.set(xlabel="ratings of the same user", title="error and interval width", ylim=(0, None))
right.legend()
plt.show()
