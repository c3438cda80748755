"""
Gaps in a seasonal series, with intervals
=========================================

A series with a few seasons is a sum of sinusoids, each of which has rank 2 in the Hankel matrix of the series.
:class:`lorank.HankelCompletion` fills the gaps, short and long. All samples determine the sinusoids, so that the intervals stay
narrow within a gap of many seasons.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# Twenty years of monthly values: a yearly season with its second harmonic, and a slow oscillation of 41 months that decays. The
# station failed for one year and for two and a half years, and single months are missing as well.

rng = np.random.default_rng(0)
months = np.arange(240)
truth = 3 * np.cos(2 * np.pi * months / 12) + np.cos(4 * np.pi * months / 12 + 1)
truth += 2 * np.exp(-months / 200) * np.cos(2 * np.pi * months / 41 + 2)
series = truth + 0.6 * rng.standard_normal(240)
series[60:72] = np.nan
series[130:160] = np.nan
series[rng.random(240) < 0.15] = np.nan

# %%
# ``from_series`` takes nan for missing values. The order is selected by an information criterion: six, for three sinusoids.
# Subtract the mean and a trend first, if there are any.

result = lr.solve(lr.HankelCompletion.from_series(series), rank="auto")
low, high = result.interval(0.9)
print(result)
periods = sorted({f"{1 / f:.1f}" for f in result.frequencies if f > 0})
print(f"order {result.X.rank}, periods {', '.join(periods)} months; noise {result.noise:.2f} (0.6 was added)")
missing = np.isnan(series)
print(f"root mean square error of missing months {np.sqrt(np.mean((result.signal - truth)[missing] ** 2)):.2f}")
print(f"90 % intervals contain {np.mean((low < truth) & (truth < high)):.0%} of the true values")

# %%
# Intervals are those of the signal without noise, from the linearized fit of frequencies, dampings and amplitudes.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9.6, 5.6), layout="constrained")
for axis in (top, bottom):
    axis.fill_between(months, low, high, color="C0", alpha=0.3, lw=0, label="90 % interval")
    axis.plot(months, result.signal, color="C0", lw=1.5, label="recovered")
    axis.plot(months, truth, "--", color="C1", lw=1.2, label="true")
    axis.plot(months, series, "o", ms=3, color="0.55", label="observed")
    axis.set_ylabel("value")
    for first, last in ((60, 72), (130, 160)):
        axis.axvspan(first - 0.5, last - 0.5, color="0.5", alpha=0.2, lw=0)
top.set(title="Monthly values with two long gaps (grey)", xlim=(-2, 241))
top.legend(fontsize=9, ncols=4, loc="lower right")
bottom.set(title="The longer gap", xlabel="month", xlim=(122, 168))
plt.show()
