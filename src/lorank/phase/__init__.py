"""Phase retrieval: the problem, its solvers and its default solver."""

from .message_passing import MessagePassing
from .plan import AutoPhase
from .problem import PhaseRetrieval, Signal, phase_distance
from .signal_cg import SignalCG
from .weights import Fisher, Whitened

__all__ = ["AutoPhase", "Fisher", "MessagePassing", "PhaseRetrieval", "Signal", "SignalCG", "Whitened", "phase_distance"]
