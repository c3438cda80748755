"""
Missing samples of an NMR signal
================================

A free induction decay is a sum of damped exponentials, one for each line of the spectrum. Long signals take long to measure,
in two dimensions above all, and a random part of the samples suffices (non-uniform sampling). :class:`lorank.HankelCompletion`
recovers the missing samples and gives the lines with their widths.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# Six lines, two of them close together. One sample in ten is measured, with noise.

rng = np.random.default_rng(1)
n, lines = 2000, 6
frequencies = np.array([-0.31, -0.12, 0.05, 0.052, 0.21, 0.34])
dampings = np.array([4, 6, 3, 3, 9, 5]) / n
amplitudes = np.array([1.0, 0.6, 1.2, 0.9, 1.5, 0.5]) * np.exp(2j * np.pi * rng.random(lines))
t = np.arange(n)
truth = np.exp(np.outer(t, 2j * np.pi * frequencies - dampings)) @ amplitudes
seen = np.sort(rng.permutation(n)[: n // 10])
noise = 0.05 * (rng.standard_normal(len(seen)) + 1j * rng.standard_normal(len(seen)))
values = truth[seen] + noise

# %%
# The Hankel matrix of the signal has 1001 x 1000 entries and rank 6. It is never formed. ``rank="auto"`` selects the number of
# lines by an information criterion.

result = lr.solve(lr.HankelCompletion(seen, values, n), rank="auto")
print(result)
print(f"noise {result.noise:.3f} ({0.05 * 2**0.5:.3f} was added)")
for f, d, c in sorted(zip(result.frequencies, result.dampings, abs(result.amplitudes), strict=True)):
    print(f"frequency {f:+.5f}, damping {d * n:5.2f} / n, amplitude {c:.3f}")

# %%
# The spectrum of the recovered signal has narrow lines. With zeros for the missing samples each line is surrounded by artifacts
# of the sampling pattern.


def spectrum(x):
    return np.fft.fftshift(np.abs(np.fft.fft(x)))


zeros = np.zeros(n, complex)
zeros[seen] = values * n / len(seen)
axis = np.fft.fftshift(np.fft.fftfreq(n))
figure, axes = plt.subplot_mosaic("aa;bc", figsize=(9.6, 5.6), layout="constrained")
top, left, right = (axes[name] for name in "abc")
top.plot(t[:400], truth[:400].real, color="0.55", label="signal (real part)")
top.plot(t[:400], result.signal[:400].real, "--", color="C0", lw=1, label="recovered")
top.plot(seen[seen < 400], values[seen < 400].real, "o", ms=3.5, color="C1", label="measured")
top.set(xlabel="sample", title="The first 400 samples")
top.legend(fontsize=9, ncols=3, loc="upper right")
left.plot(axis, spectrum(zeros), color="C1", lw=0.6, alpha=0.6, label="zeros for missing samples")
left.plot(axis, spectrum(result.signal), color="C0", lw=1.2, label="recovered")
left.set(xlabel="frequency, cycles per sample", title="Spectrum", ylabel="magnitude")
left.legend(fontsize=9)
near = (axis > 0.04) & (axis < 0.062)
right.plot(axis[near], spectrum(truth)[near], color="0.55", lw=3, label="true")
right.plot(axis[near], spectrum(zeros)[near], color="C1", lw=0.8)
right.plot(axis[near], spectrum(result.signal)[near], color="C0", lw=1.2)
for f in result.frequencies:
    if 0.04 < f < 0.062:
        right.axvline(f, color="C0", linestyle=":", lw=1)
right.set(xlabel="frequency, cycles per sample", title="Two close lines (dotted: estimates)")
plt.show()
