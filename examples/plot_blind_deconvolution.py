"""
Blind deconvolution
===================

A signal is convolved with an unknown filter. If the filter h is short and the signal is a combination of known functions,
``C z``, their convolution is linear in the matrix ``X = h z^T`` of rank 1, and two functions define the measurements. The
solution gives both factors, up to their scale, from about 1.5 samples per unknown.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# ``y = h * (C z)``: ``forward`` convolves each pair of columns, ``adjoint`` correlates with shifted rows of C.


def convolution(C, length, y):
    n = len(C)
    index = (np.arange(n) - np.arange(length)[:, None]) % n  # C[t - j] for each lag j and time t

    def forward(left, right):
        spectra = np.fft.rfft(left, n, axis=0) * np.fft.rfft(C @ right, axis=0)
        return np.fft.irfft(spectra.sum(1), n)

    def adjoint(p):
        return np.stack([p @ C[row] for row in index])

    return lr.Sensing.from_functions(forward, adjoint, y, (length, C.shape[1]), check=True)


# %%
# A decaying filter of 40 lags, and a signal in the span of 60 random functions. Scale and sign are fitted in the errors.

rng = np.random.default_rng(0)
n, length, functions = 512, 40, 60
C = rng.standard_normal((n, functions)) / np.sqrt(n)
h = np.exp(-np.arange(length) / 10) * np.cos(np.arange(length) / 3)
z = rng.standard_normal(functions)
y = np.fft.irfft(np.fft.rfft(h, n) * np.fft.rfft(C @ z), n)


def scaled(found, truth):
    return found * (found @ truth) / (found @ found)


def error(found, truth):
    return np.linalg.norm(scaled(found, truth) - truth) / np.linalg.norm(truth)


for noise in (0.0, 0.02, 0.1):
    measured = y + noise * np.std(y) * rng.standard_normal(n)
    result = lr.solve(convolution(C, length, measured), rank=1)
    lags, signal = result.X.U[:, 0], C @ result.X.V[:, 0]
    errors = f"filter {error(lags, h):.1e}, signal {error(signal, C @ z):.1e}"
    print(f"noise {noise:.0%}: errors of {errors}; {result.status}")

# %%
# How many samples are needed: the unknowns are 99, 40 + 60 without a common scale.

sizes = (100, 125, 150, 175, 200, 250, 300)
shares = []
for m in sizes:
    good = 0
    for seed in range(10):
        draw = np.random.default_rng(seed)
        C_ = draw.standard_normal((m, functions)) / np.sqrt(m)
        h_, z_ = draw.standard_normal(length), draw.standard_normal(functions)
        seen = np.fft.irfft(np.fft.rfft(h_, m) * np.fft.rfft(C_ @ z_), m)
        X = lr.solve(
            convolution(C_, length, seen), rank=1, stop=lr.stopping.Iterations(300) | lr.stopping.RelativeResidual(1e-6)
        ).X
        good += error(X.U[:, 0], h_) < 1e-3
    shares.append(good / 10)
print(", ".join(f"{m} samples: {share:.0%}" for m, share in zip(sizes, shares, strict=True)))

# %%

figure, axes = plt.subplot_mosaic("aab;ccb", figsize=(9.6, 4.6), layout="constrained")
part = slice(0, 150)
axes["a"].plot(measured[part], color="0.5", lw=0.8)
axes["a"].set(title="Measured: the convolution, with 10 % noise", xticks=[])
axes["c"].plot((C @ z)[part], color="0.6", lw=2.5, label="true")
axes["c"].plot(scaled(signal, C @ z)[part], "--", color="C0", lw=1, label="recovered")
axes["c"].set(title="Signal, the first 150 of 512 samples", xlabel="time")
axes["c"].legend(ncols=2, fontsize=9, loc="lower right")
axes["b"].plot(np.array(sizes) / (length + functions - 1), shares, "o-")
axes["b"].set(title="Recovered without noise", xlabel="samples per unknown", ylabel="share of ten draws", ylim=(-0.03, 1.03))
plt.show()
