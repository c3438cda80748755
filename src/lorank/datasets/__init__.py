"""Synthetic problems with known solutions, sampling patterns, and the MovieLens ratings."""

from .movielens import MovieLens, load_movielens
from .sampling_patterns import uneven_pattern
from .signals import random_hankel
from .states import random_pauli
from .synthetic import FACTORS, random_completion, random_diffraction, random_phase, random_sensing, sample_pattern
from .tensors import random_tensor

__all__ = [
    "FACTORS",
    "MovieLens",
    "load_movielens",
    "random_completion",
    "random_diffraction",
    "random_hankel",
    "random_pauli",
    "random_phase",
    "random_sensing",
    "random_tensor",
    "sample_pattern",
    "uneven_pattern",
]
