"""The torch backend: the same operations on PyTorch tensors, on the CPU or on a GPU.

Imported only when asked for; so are the Triton kernels, and those only where there is a GPU.
"""

from .backend import Torch, find_device

__all__ = ["Torch", "find_device"]
