"""Phase retrieval: the problem, its solvers and its default solver."""

from .message_passing import MessagePassing
from .metric import Whitened
from .plan import AutoPhase
from .problem import PhaseRetrieval, phase_distance
from .reweighting import Fisher
from .signal_cg import SignalCG

__all__ = ["AutoPhase", "Fisher", "MessagePassing", "PhaseRetrieval", "SignalCG", "Whitened", "phase_distance"]
