"""Manifold of fixed-rank matrices: points, tangent vectors, metric weights, gradient and retraction."""

from .block_weights import BlockInverses, BlockWeights, ExpectedInverses
from .manifold import FIXED_RANK, FixedRankManifold, Manifold, WeightedManifold
from .point import FixedRank
from .semidefinite import SEMIDEFINITE, SemidefiniteManifold
from .tangent import Tangent, retract, riemannian_gradient, shift, slope_of_transport, transport
from .tucker import TUCKER, Tucker, TuckerManifold, TuckerTangent
from .weights import DenseWeight, DiagonalWeight, Identity, Weights

__all__ = [
    "FIXED_RANK",
    "SEMIDEFINITE",
    "TUCKER",
    "BlockInverses",
    "BlockWeights",
    "DenseWeight",
    "DiagonalWeight",
    "ExpectedInverses",
    "FixedRank",
    "FixedRankManifold",
    "Identity",
    "Manifold",
    "SemidefiniteManifold",
    "Tangent",
    "Tucker",
    "TuckerManifold",
    "TuckerTangent",
    "WeightedManifold",
    "Weights",
    "retract",
    "riemannian_gradient",
    "shift",
    "slope_of_transport",
    "transport",
]
