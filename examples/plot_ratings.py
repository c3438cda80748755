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
    pairs, stars, liking = np.column_stack([data.rows, data.cols]), np.asarray(data.ratings, float), None
else:
    people, films = 600, 400
    popular = np.outer(rng.lognormal(size=people), rng.lognormal(size=films))
    pairs = np.argwhere(rng.random((people, films)) < np.minimum(0.9, 0.08 * popular / popular.mean()))
    taste, style = rng.standard_normal((people, 3)), rng.standard_normal((films, 3))
    kind = 0.5 * rng.standard_normal(people)[pairs[:, 0]] + 0.5 * rng.standard_normal(films)[pairs[:, 1]]
    liking = 3.4 + kind + 0.4 * (taste[pairs[:, 0]] * style[pairs[:, 1]]).sum(1)
    stars = np.clip(np.round(liking + 0.6 * rng.standard_normal(len(pairs))), 1, 5)
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
# Left: error of held-out ratings by the mean, by biases of users and films, and by the model; for the synthetic data also
# that of the preferences before noise and rounding. Middle: the two most important of the learned film factors. Films are
# coloured by the first of the features that the data were made from, which the model has not seen; for MovieLens by their
# mean rating. Right: users with more ratings have smaller errors and narrower intervals.

biases = model.mean_ + model.row_bias_[pairs[held][known][:, 0]] + model.col_bias_[pairs[held][known][:, 1]]
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.6, 3.5), layout="constrained")
steps = {"mean": rmse(stars[~held].mean()), "biases": rmse(biases), "lorank": rmse(predicted)}
if liking is not None:
    steps["true\nmodel"] = rmse(np.clip(liking[held][known], 1, 5))
bars = left.bar(list(steps), list(steps.values()), color=["0.6", "0.6", "C0", "C2"][: len(steps)])
left.bar_label(bars, fmt="%.2f", color="0.5")
left.set(title="RMSE of held-out ratings", ylabel="stars", ylim=(0, 1.1 * steps["mean"]))
left.grid(False, axis="x")

U, s, _ = np.linalg.svd(model.col_factors_ - model.col_factors_.mean(0), full_matrices=False)
rated = np.bincount(pairs[~held][:, 1], minlength=shape[1])
colours = style[:, 0] if liking is not None else np.bincount(pairs[:, 1], stars, shape[1]) / np.bincount(pairs[:, 1])
points = middle.scatter(*(U * s)[:, :2].T, c=colours, s=8 + rated / 4, cmap="coolwarm", linewidths=0)
figure.colorbar(points, ax=middle, label="true feature" if liking is not None else "mean rating")
middle.set(title="Learned factors of films", xlabel="component 1", ylabel="component 2")

counts = np.bincount(pairs[~held][:, 0], minlength=shape[0])[pairs[held][known][:, 0]]
place = np.clip(np.digitize(counts, np.quantile(counts, np.linspace(0, 1, 7))), 1, 6)
groups = [place == k for k in range(1, 7)]
mean_count = [counts[group].mean() for group in groups]
right.plot(mean_count, [np.sqrt(np.mean((predicted - truth)[group] ** 2)) for group in groups], "o-", label="RMSE")
right.plot(mean_count, [(high - low)[group].mean() / 4 for group in groups], "s-", label="interval width / 4")
right.set(title="By number of ratings", xlabel="ratings of the same user", ylabel="stars", ylim=(0, None))
right.legend(loc="lower left")
plt.show()
