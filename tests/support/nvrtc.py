"""Tests that compile CUDA for a GPU need NVRTC, and nothing else is a reason to skip them."""

import pytest

from compiler.cpu_gpu_backends.gpu.nvrtc import nvrtc_version
from compiler.native import BuildError

__all__ = ["require_nvrtc"]


def require_nvrtc() -> None:
    """Skips the test where NVRTC is not installed. A kernel that it refuses is a failure."""
    try:
        nvrtc_version()
    except BuildError as error:
        pytest.skip(str(error))
