"""
Sensors, days and hours: missing values in a tensor
===================================================

Thirty stations measure nitrogen dioxide every hour for ten weeks. A quarter of the days of each station is missing, and so are
single hours. The readings are an array with three axes, stations x days x hours: a profile of the day, times a pattern over the
stations, times a weight for each day. ``TensorImputer`` uses all three axes at once.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# Synthetic readings: rush hours on weekdays, heating on cold evenings, the background of the region, and noise.

rng = np.random.default_rng(4)
stations, days, hours = 30, 70, 24
hour, weekday = np.arange(hours), np.arange(days) % 7 < 5
profiles = np.stack(
    [
        np.ones(hours),
        np.exp(-(((hour - 8) / 1.5) ** 2)) + 0.8 * np.exp(-(((hour - 18) / 2) ** 2)),
        np.exp(-(((hour - 21) / 2.5) ** 2)) + 0.3 * np.exp(-(((hour - 1) / 2.0) ** 2)),
    ]
)
wind = np.exp(0.5 * rng.standard_normal(days))
weights = np.stack([wind, wind * np.where(weekday, 1.0, 0.35), np.exp(0.7 * rng.standard_normal(days))])
patterns = np.stack([rng.uniform(5, 15, stations), rng.gamma(1.0, 20.0, stations), rng.gamma(1.0, 12.0, stations)])
truth = np.einsum("rs,rd,rh->sdh", patterns, weights, profiles)
readings = truth + 3 * rng.standard_normal(truth.shape)

observed = readings.copy()
observed[rng.random((stations, days)) < 0.25] = np.nan  # whole days of a station
observed[rng.random(truth.shape) < 0.1] = np.nan  # single hours
missing = np.isnan(observed)

# %%
# The imputer holds out whole days and single hours in the same proportions, and selects its model on them.

imputer = lr.TensorImputer()
filled = imputer.fit_transform(observed)
low, high = imputer.predict_interval(observed, 0.9)
print(f"{imputer.method_} model of rank {imputer.rank_}, held-out error {imputer.quality_:.2f} of the standard deviation")
inside = ((low <= readings) & (readings <= high))[missing].mean()
print(f"90 % intervals contain {inside:.0%} of the missing readings")

# %%
# Compared with the mean of the other days at the same hour, with matrix completion of stations against all hours, and with
# the imputation of a table of time series, which uses neighbouring hours, too.

mean = np.broadcast_to(np.nanmean(observed, axis=1, keepdims=True), truth.shape)
matrix = observed.reshape(stations, -1)
pairs = np.argwhere(~np.isnan(matrix))
model = lr.MatrixCompletion(shape=matrix.shape).fit(pairs, matrix[tuple(pairs.T)])
unfolding = model.predict(np.argwhere(np.ones(matrix.shape))).reshape(truth.shape)
series = lr.TableImputer(time=True, period=24).fit_transform(matrix.T).T.reshape(truth.shape)
for name, guess in {
    "mean of the other days": mean,
    "MatrixCompletion of an unfolding": unfolding,
    "TableImputer of time series": series,
    "TensorImputer": filled,
}.items():
    print(f"{name}: RMSE {np.sqrt(np.mean((guess - truth)[missing] ** 2)):.1f}")

# %%
# These readings have rank 3 exactly, apart from the noise; the other models have more parameters than that. One station, and
# one of its missing days:

station = int(np.argmax(patterns[1]))
day = int(np.argmax(missing[station].all(axis=1) * np.abs(truth - mean)[station].max(axis=1)))
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.8), layout="constrained", width_ratios=[1, 1, 1.5])
colours = plt.get_cmap("viridis").with_extremes(bad="#b8bcc2")
for axis, values, title in zip(axes, (observed, filled), ("Readings (missing: grey)", "Imputed"), strict=False):
    picture = axis.imshow(
        values[station], aspect="auto", cmap=colours, interpolation="nearest", vmax=np.nanquantile(observed[station], 0.99)
    )
    axis.set(title=title, xlabel="hour", ylabel="day", xticks=range(0, 24, 6))
figure.colorbar(picture, ax=axes[1], label="µg/m³")
axes[2].fill_between(hour, low[station, day], high[station, day], color="C0", alpha=0.25, label="interval, 90 %")
axes[2].plot(hour, readings[station, day], ".", color="0.45", label="true")
axes[2].plot(hour, mean[station, day], color="C1", label="mean of the other days")
axes[2].plot(hour, filled[station, day], color="C0", label="TensorImputer")
axes[2].set(
    title=f"Station {station}, day {day}: missing as a whole",
    xlabel="hour",
    xticks=range(0, 25, 6),
    ylim=(-10, 1.45 * readings[station, day].max()),
)
axes[2].legend(fontsize=8, ncols=2, loc="upper center")
plt.show()
