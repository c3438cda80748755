r"""
Quantum state tomography
========================

The state of a few qubits is a density matrix, and a nearly pure state is one of low rank. It is measured by counting outcomes
in Pauli bases. :class:`lorank.PauliTomography` recovers it from a part of the bases; the result is Hermitian, positive
semidefinite and of trace one.
"""

import itertools

import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# A GHZ state of five qubits with 10 % of another pure state: rank 2. Sixty of the 243 bases are measured, 200 times each.
# Counts are dictionaries, as quantum computing libraries return them.

rng = np.random.default_rng(0)
qubits, shots = 5, 200
d = 2**qubits
ghz = np.zeros(d, complex)
ghz[[0, -1]] = 0.5**0.5
other = rng.standard_normal(d) + 1j * rng.standard_normal(d)
other /= np.linalg.norm(other)
state = 0.9 * np.outer(ghz, ghz.conj()) + 0.1 * np.outer(other, other.conj())

ROTATIONS = {"X": np.array([[1, 1], [1, -1]]) / 2**0.5, "Y": np.array([[1, -1j], [1, 1j]]) / 2**0.5, "Z": np.eye(2)}


def measured(setting):
    """Counts of the outcomes in a basis such as "XZZYX"."""
    rotation = np.ones((1, 1))
    for letter in setting:
        rotation = np.kron(rotation, ROTATIONS[letter])
    chances = np.einsum("ij,jk,ik->i", rotation, state, rotation.conj()).real.clip(0)
    drawn = rng.multinomial(shots, chances / chances.sum())
    return {f"{k:0{qubits}b}": int(n) for k, n in enumerate(drawn) if n}


bases = ["".join(letters) for letters in itertools.product("XYZ", repeat=qubits)]
settings = [bases[k] for k in np.sort(rng.permutation(len(bases))[:60])]
counts = [measured(setting) for setting in settings]
print(settings[0], counts[0])

# %%
# A setting determines the expectations of 31 Pauli matrices, and matrices that several settings determine are averaged. They
# are weighted by their variances.

problem = lr.PauliTomography.from_counts(settings, counts)
print(problem, "of", 4**qubits - 1)
result = lr.solve(problem, rank=2, stop=lr.stopping.RelativeChange(1e-6))
print(f"eigenvalues {result.eigenvalues.round(3)} (true: {np.linalg.eigvalsh(state)[-2:][::-1].round(3)})")
print(f"trace {result.eigenvalues.sum():.6f}, purity {result.purity:.3f} (true: {np.trace(state @ state).real:.3f})")
print(f"fidelity to the true state {result.fidelity(state):.3f}, to the GHZ state {result.fidelity(ghz):.3f}")

# %%
# For comparison, linear inversion sets missing expectations to zero; its matrix has negative eigenvalues.

at, parity = np.arange(d), np.bitwise_count(np.arange(d))
linear = np.eye(d, dtype=complex) / d
for label, y in zip(problem.labels, problem.y[:-1], strict=True):
    flips = int("".join("1" if letter in "XY" else "0" for letter in label), 2)
    signs = int("".join("1" if letter in "YZ" else "0" for letter in label), 2)
    linear[at, at ^ flips] += y * (-1j) ** parity[flips & signs] * (-1.0) ** parity[at & signs] / d

print(f"relative error {np.linalg.norm(result.state - state) / np.linalg.norm(state):.3f}, ", end="")
print(f"linear inversion {np.linalg.norm(linear - state) / np.linalg.norm(state):.3f}")

figure, axes = plt.subplot_mosaic("abc;ddd", figsize=(9.6, 6), layout="constrained", height_ratios=[1.15, 1])
norm = matplotlib.colors.PowerNorm(0.4, vmin=0, vmax=0.5)
for place, (title, picture) in zip(
    "abc", {"True state": state, "Rank 2": result.state, "Linear inversion": linear}.items(), strict=True
):
    image = axes[place].imshow(np.abs(picture), cmap="viridis", norm=norm)
    axes[place].set(title=title, xlabel="basis state")
    axes[place].set_xticks([0, d - 1], ["00000", "11111"])
    axes[place].set_yticks([0, d - 1], ["00000", "11111"])
    axes[place].grid(False)
axes["a"].set_ylabel("basis state")
bar = figure.colorbar(image, ax=[axes[place] for place in "abc"], label="absolute value", ticks=[0, 0.01, 0.05, 0.1, 0.2, 0.5])
bar.ax.minorticks_off()
for matrix, style, name in ((linear, "s", "linear inversion"), (result.state, "o", "rank 2"), (state, "x", "true state")):
    axes["d"].plot(np.arange(1, d + 1), np.linalg.eigvalsh(matrix)[::-1], style, ms=6, mfc="none", label=name)
axes["d"].axhspan(-0.2, 0, color="0.5", alpha=0.2, lw=0)
axes["d"].set(
    title="Eigenvalues (negative ones belong to no state)",
    xlabel="number of the eigenvalue",
    ylabel="eigenvalue",
    ylim=(-0.2, 1),
)
axes["d"].legend()
plt.show()
