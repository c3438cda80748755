"""Problems to try things on."""

from .synthetic import FACTORS, random_completion, sample_pattern

__all__ = ["FACTORS", "random_completion", "sample_pattern"]
