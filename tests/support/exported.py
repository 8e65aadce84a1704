"""Exported networks, linked and called."""

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu.arrays import aligned
from runtime.exporting.export import export

__all__ = ["Called", "WARNINGS", "needs_c", "run_test_program"]

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
needs_c = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler (gcc)")

Array = np.ndarray


class Called:
    """The shared library of a module, called with arrays by name."""

    def __init__(self, module: Any, folder: Path, **options: Any):
        self.module = module
        self.made = export(module, folder, "net", kind="shared", **options)
        self.interface = self.made.exported.interface
        self.library = ctypes.CDLL(str(folder / "libnet.so"))
        self.self = ctypes.c_void_p()
        self.arena = aligned((self.interface.arena_bytes,), "uint8")
        self.weights = None
        if self.interface.weights_bytes:
            data = np.fromfile(folder / "net.bin", np.uint8)
            self.weights = aligned(data.shape, "uint8")
            self.weights[:] = data

    def init(self, weights: int | None) -> int:
        return self.library.net_init(ctypes.byref(self.self), ctypes.c_void_p(weights))

    def run(self, given: Mapping[str, Array], arena: int | None) -> tuple[int, dict[str, Array]]:
        """The status of a run, and the outputs, which are zero before."""
        outputs = {array.name: np.zeros(array.shape, self.module.graph.values[array.name].dtype)
                   for array in self.interface.outputs}
        status = self.library.net_run(ctypes.byref(self.self), _pointers(
            [given[array.name] for array in self.interface.inputs]),
            _pointers(list(outputs.values())), ctypes.c_void_p(arena))
        return status, outputs

    def __call__(self, given: Mapping[str, Array]) -> dict[str, Array]:
        assert self.init(None if self.weights is None else self.weights.ctypes.data) == 0
        self.arena[:] = 0xA5                # what it holds before means nothing
        status, outputs = self.run(given, self.arena.ctypes.data)
        assert status == 0
        return outputs


def _pointers(arrays: list[Array]) -> ctypes.Array:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))


def run_test_program(folder: Path, name: str, code: str, *before: str,
                     cc: str = "gcc") -> subprocess.CompletedProcess[str]:
    """Compiles the test program without a warning, links it with the code, and runs it there."""
    subprocess.run([cc, "-std=c99", *WARNINGS, "-o", "test", f"{name}_test.c", code, "-lm"],
                   cwd=folder, check=True)
    return subprocess.run([*before, "./test"], cwd=folder, capture_output=True, text=True,
                          check=False)
