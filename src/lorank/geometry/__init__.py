"""The manifold of rank-r matrices: points, tangent vectors, metric weights, gradient and retraction."""

from .point import FixedRank
from .tangent import Tangent, retract, riemannian_gradient, shift, slope_of_transport, transport
from .weights import DenseWeight, DiagonalWeight, Identity, Weights

__all__ = [
    "DenseWeight",
    "DiagonalWeight",
    "FixedRank",
    "Identity",
    "Tangent",
    "Weights",
    "retract",
    "riemannian_gradient",
    "shift",
    "slope_of_transport",
    "transport",
]
