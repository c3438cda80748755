"""Complex Gaussian phase retrieval: the residual against iterations and against time (the paper's Figure 8b)."""

from __future__ import annotations

import numpy as np

from .phase_real import PhaseReal


class PhaseComplex(PhaseReal):
    """The same as the real one, with a complex signal and complex A."""

    name = "phase-complex"
    title = "Phase retrieval, complex: residual against iterations and time"
    field, dtype = "complex", np.complex128


EXPERIMENT = PhaseComplex()
