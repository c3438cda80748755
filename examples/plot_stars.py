"""
Star ratings as ordered classes
===============================

``loss="ordinal"`` treats ratings as ordered classes: X is a latent scale, thresholds between the classes are learned with the
factors, and predictions are probabilities of the classes. Least squares treat the distances between ratings as equal and
predict numbers only.

The data are MovieLens-100K if ``LORANK_DATA`` names its folder, otherwise synthetic.
"""

import os
import warnings

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# Ratings; a tenth of them is held out.

rng = np.random.default_rng(0)
if os.environ.get("LORANK_DATA"):
    data = lr.datasets.load_movielens("100k")
    rows, cols, stars, where = data.rows, data.cols, np.asarray(data.ratings, float), "MovieLens-100K"
else:
    place = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 300)) + rng.standard_normal((400, 1)) + 0.8
    rows, cols = np.nonzero(rng.random(place.shape) < 0.15)
    stars = 1.0 + np.digitize(place[rows, cols] + rng.logistic(size=len(rows)), [-2.0, -1.0, 0.6, 2.5])
    where = "synthetic ratings"
held = rng.random(len(stars)) < 0.1
pairs = np.column_stack([rows, cols])
shape = (int(rows.max()) + 1, int(cols.max()) + 1)

# %%
# Both models have learned priors, which regularize users with few ratings.

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of films without training ratings
    squares = lr.MatrixCompletion(rank=4, regularization="learned", shape=shape).fit(pairs[~held], stars[~held])
    ordinal = lr.MatrixCompletion(rank=4, regularization="learned", loss="ordinal", shape=shape).fit(pairs[~held], stars[~held])
    numbers, expected, chances = squares.predict(pairs[held]), ordinal.predict(pairs[held]), ordinal.predict_proba(pairs[held])

truth = stars[held]
classes = np.asarray(ordinal.classes_)
place = np.searchsorted(classes, truth)
spread = np.sqrt(np.mean((stars[~held] - squares.predict(pairs[~held])) ** 2))
normal = np.exp(-0.5 * ((classes - numbers[:, None]) / spread) ** 2)  # Gaussian noise of that size, restricted to the classes
normal /= normal.sum(1, keepdims=True)


def described(name, p, guess):
    likelihood, error = np.mean(np.log(p[np.arange(len(p)), place])), np.sqrt(np.mean((guess - truth) ** 2))
    print(f"{name}: log-likelihood of a held-out rating {likelihood:.3f}, RMSE {error:.3f}")


print(where)
described("least squares", normal, numbers)
described("ordered classes", chances, expected)

# %%
# Predicted probabilities for the highest class, and for all classes.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.4), layout="constrained")
five = truth == classes[-1]
left.bar(classes - 0.2, normal[five].mean(0), 0.4, label="least squares")
left.bar(classes + 0.2, chances[five].mean(0), 0.4, label="ordered classes")
left.set(title="Held-out ratings of five stars", xlabel="stars", ylabel="mean probability")
left.legend()
right.bar(classes, [np.mean(truth == k) for k in classes], 0.6, color="0.6", alpha=0.4, label="observed")
right.plot(classes, normal.mean(0), "o-", color="C0", label="least squares")
right.plot(classes, chances.mean(0), "s-", color="C1", label="ordered classes")
right.set(title="All held-out ratings", xlabel="stars", ylabel="share", ylim=(0, 0.45))
right.legend(loc="upper left")
plt.show()
