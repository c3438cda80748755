"""Manifold of fixed-rank matrices: points, tangent vectors, metric weights, gradient and retraction."""

from .block_weights import BlockInverses, ExpectedInverses
from .manifold import FIXED_RANK, SEMIDEFINITE, FixedRankManifold, Manifold, SemidefiniteManifold, WeightedManifold
from .point import FixedRank
from .tangent import FixedRankTransport, Tangent, retract, retract_orthographic, riemannian_gradient
from .train import TRAIN, TensorTrain, TrainManifold, TrainTangent
from .tucker import TUCKER, Tucker, TuckerManifold, TuckerTangent
from .weights import DenseWeight, DiagonalWeight, Identity, Weights

__all__ = [
    "FIXED_RANK",
    "SEMIDEFINITE",
    "TRAIN",
    "TUCKER",
    "BlockInverses",
    "DenseWeight",
    "DiagonalWeight",
    "ExpectedInverses",
    "FixedRank",
    "FixedRankManifold",
    "FixedRankTransport",
    "Identity",
    "Manifold",
    "SemidefiniteManifold",
    "Tangent",
    "TensorTrain",
    "TrainManifold",
    "TrainTangent",
    "Tucker",
    "TuckerManifold",
    "TuckerTangent",
    "WeightedManifold",
    "Weights",
    "retract",
    "retract_orthographic",
    "riemannian_gradient",
]
