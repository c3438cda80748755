"""
Prediction intervals for imputed values
=======================================

``TableImputer`` gives prediction intervals for imputed values, calibrated on cells that it held out itself, and multiple
imputations for analyses that account for the uncertainty. The table is scikit-learn's wine data with a quarter of the cells
removed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import lorank as lr

# %%

wine = load_wine()
whole, names = wine.data, wine.feature_names
rng = np.random.default_rng(0)
gaps = rng.random(whole.shape) < 0.25
table = np.where(gaps, np.nan, whole)

imputer = lr.TableImputer(random_state=0)
filled = imputer.fit_transform(table)
scale = whole.std(axis=0)
error = np.sqrt(np.mean(((filled - whole) / scale)[gaps] ** 2))
means = np.sqrt(np.mean(((np.nanmean(table, axis=0) - whole) / scale)[gaps] ** 2))
print(f"error in standard deviations: {error:.2f}; by column means {means:.2f}")

# %%
# Coverage of intervals with nominal coverage 50, 80, 90 and 95 %.

asked = (0.5, 0.8, 0.9, 0.95)
held = []
for coverage in asked:
    low, high = imputer.predict_interval(table, coverage)
    held.append(np.mean(((low <= whole) & (whole <= high))[gaps]))
    print(f"nominal {coverage:.0%}, measured {held[-1]:.0%}")

# %%
# Multiple imputation: the mean of a column, and its uncertainty due to missing values.

column = names.index("flavanoids")
samples = imputer.sample(table, 20)
means = [one[:, column].mean() for one in samples]
print(f"mean of flavanoids: {whole[:, column].mean():.3f}; imputations {np.mean(means):.3f} +- {np.std(means):.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
low, high = imputer.predict_interval(table, 0.9)
rows = np.flatnonzero(gaps[:, column])
order = rows[np.argsort(filled[rows, column])]
k = np.arange(len(order))
left.vlines(k, low[order, column], high[order, column], color="C0", alpha=0.4, label="interval, 90 %")
left.plot(k, filled[order, column], ".", color="C0", label="imputed")
left.plot(k, whole[order, column], ".", color="C1", label="true")
left.set(title="Missing cells of one column", xlabel="missing cells, sorted by imputed value", ylabel="flavanoids")
left.legend()
right.plot(asked, held, "o-")
right.plot([0.45, 1], [0.45, 1], color="0.55", zorder=0)
right.set(title="Coverage of the intervals", xlabel="nominal coverage", ylabel="measured coverage")
plt.show()
