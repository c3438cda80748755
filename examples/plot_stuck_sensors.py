"""
Sensor data with stuck sensors and spikes
=========================================

Sixty stations measure the temperature every hour for two weeks. The readings share a daily cycle, a weather front and a drift,
so the table is of low rank up to noise. A third of the readings are missing; some stations are stuck at one value for a day or
two, and 1 % of the readings are spikes. ``loss="robust"`` identifies and excludes the wrong readings and imputes the missing
ones.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# Readings: a daily cycle, a weather front and a drift, with different weights for each station.

rng = np.random.default_rng(1)
stations, hours = 60, 14 * 24
time = np.arange(hours)
causes = np.stack([np.ones(hours), np.sin(2 * np.pi * time / 24), np.tanh((time - 180) / 30), time / hours])
felt = np.column_stack([rng.normal(mean, spread, stations) for mean, spread in ((15, 3), (5, 1), (-4, 2), (2, 2))])
truth = felt @ causes
readings = truth + 0.3 * rng.standard_normal(truth.shape)

wrong = np.zeros(truth.shape, bool)
for station in rng.permutation(stations)[:12]:  # stuck for one to two days
    begin, length = rng.integers(0, hours - 48), rng.integers(24, 48)
    readings[station, begin : begin + length] = readings[station, begin]
    wrong[station, begin + 1 : begin + length] = True
spikes = rng.random(truth.shape) < 0.01
readings[spikes] = rng.choice([-40.0, 85.0], spikes.sum())  # values of broken thermometers
wrong |= spikes
readings[rng.random(truth.shape) < 1 / 3] = np.nan

# %%
# Least squares warn of outliers and suggest a remedy.

seen = ~np.isnan(readings)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    squares = lr.solve(lr.Completion.from_dense(readings), rank=4)
for one in caught:
    print(f"{one.category.__name__}: {one.message}\n")
with warnings.catch_warnings():  # stuck readings close to the truth remain, so the residual is not white noise
    warnings.simplefilter("ignore", lr.ConvergenceWarning)
    robust = lr.solve(lr.Completion.from_dense(readings, loss="robust"), rank=4)

mask = np.zeros(truth.shape, bool)
mask[seen] = robust.outliers.mask  # in row-major order
for name, result in (("least squares", squares), ("robust", robust)):
    gaps = (result.X.to_dense() - truth)[~seen]
    print(f"{name}: RMSE of missing readings {np.sqrt(np.mean(gaps**2)):.2f} degrees")
far = abs(readings - truth) > 2  # a stuck reading may be close to the truth
found, right = mask[wrong & seen & far].mean(), mask[seen & ~wrong].mean()
print(f"identified: {found:.0%} of the wrong readings, and {right:.2%} of the correct ones")
print(f"noise: {robust.noise:.2f} degrees (0.30 was added)")

# %%
# Positions of the outliers, and one stuck station.

station = int(np.argmax((wrong & ~spikes).sum(1)))
figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
places = np.where(seen, np.where(mask, 2, 1), 0)
left.imshow(places, aspect="auto", cmap="Greys", interpolation="nearest")
left.set(title="Missing (white), outliers (black)", xlabel="hour", ylabel="station")
right.plot(time, readings[station], ".", ms=4, color="0.55", label="readings")
right.plot(time[mask[station]], readings[station, mask[station]], "x", color="C3", label="outliers")
right.plot(time, squares.X.to_dense()[station], color="C1", lw=1, label="least squares")
right.plot(time, robust.X.to_dense()[station], color="C0", lw=1.5, label="robust")
right.set(title=f"Station {station}, stuck at one value", xlabel="hour", ylabel="degrees", ylim=(-5, 42))
right.legend(fontsize=9)
plt.show()
