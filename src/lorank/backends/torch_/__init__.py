"""PyTorch backend, on the CPU or on a GPU. Imported on demand; so are the Triton kernels, on a GPU only."""

from .backend import TorchBackend, find_device

__all__ = ["TorchBackend", "find_device"]
