r"""
Quantum state tomography
========================

The state of a few qubits is a density matrix, and a nearly pure state is one of low rank. It is measured by expectations of
Pauli matrices, :math:`y_k = \mathrm{tr}(P_k X)`, a part of which suffices. lorank has no such model; a forward and an adjoint
function of twenty lines define one.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# A Pauli matrix has one entry per row: row i has it in column i XOR flips, with a sign from the bits of i and a power of -i.
# An expectation costs as much as a vector product, and no matrix is formed.

qubits, rank = 5, 2
n = 2**qubits
rng = np.random.default_rng(0)
total = 4**qubits
chosen = np.sort(rng.permutation(total)[: int(0.5 * total)])
flips, signs = chosen // n, chosen % n
at = np.arange(n)
parity = np.array([bin(k).count("1") for k in range(n)])
phase = (-1j) ** parity[flips & signs]
entries = phase[:, None] * (-1.0) ** parity[at[None] & signs[:, None]]  # of P_k at (i, i XOR flips)
columns = at[None] ^ flips[:, None]


def forward(left, right):
    X = left @ right.conj().T
    return (entries.conj() * X[at[None], columns]).sum(1)


def adjoint(p):
    G = np.zeros((n, n), complex)
    np.add.at(G, (np.broadcast_to(at, columns.shape), columns), p[:, None] * entries)
    return G


# %%
# A state of rank 2, measured with noise. ``check=True`` verifies that the two functions are adjoint.

factor = rng.standard_normal((n, rank)) + 1j * rng.standard_normal((n, rank))
state = factor @ factor.conj().T
state /= np.trace(state).real
y = forward(state, np.eye(n)).real
y = y + 0.01 * rng.standard_normal(len(y)) + 0j

problem = lr.Sensing.from_functions(forward, adjoint, y, (n, n), check=True)
result = lr.solve(problem, rank=rank, stop=lr.stopping.RelativeChange(1e-6))
found = result.X.to_dense()
found = (found + found.conj().T) / 2
linear = adjoint(y) / n  # linear estimate: missing expectations are set to zero


def error(estimate):
    return np.linalg.norm(estimate - state) / np.linalg.norm(state)


print(f"{len(chosen)} of {total} Pauli expectations, {qubits} qubits: {result.status} after {result.n_iter} iterations")
print(f"relative error: rank {rank} {error(found):.3f}, linear estimate {error(linear):.3f}")

# %%

pictures = {"state": state, f"rank {rank}": found, "linear estimate": linear}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
top = np.abs(state).max()
for axis, (title, picture) in zip(axes, pictures.items(), strict=True):
    axis.imshow(np.abs(picture), cmap="magma", vmin=0, vmax=top)
    axis.set(title=title, xticks=[], yticks=[])
plt.show()
