"""Text in C99, compiled with all warnings as errors and called from here."""

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from compiler.cpu_gpu_backends.c.network import CFiles
from compiler.graph import Graph
from compiler.ir import Program
from compiler.te import numpy_dtype

__all__ = ["STRICT", "build_c", "call", "call_network", "compile_c", "needs_c"]

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")

needs_c = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler (gcc)")


def compile_c(text: str, folder: Path, *flags: str,
              command: Sequence[str] = ("gcc", *STRICT)) -> ctypes.CDLL:
    """The text as a shared library, with these flags after the strict ones."""
    return ctypes.CDLL(str(build_c(text, folder, *flags, command=command)))


def build_c(text: str, folder: Path, *flags: str, name: str = "kernels",
            command: Sequence[str] = ("gcc", *STRICT)) -> Path:
    """The file of that library, which is not loaded."""
    (folder / f"{name}.c").write_text(text)
    done = subprocess.run([*command, *flags, "-fPIC", "-shared", f"{name}.c", "-o",
                           f"{name}.so", "-lm"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return folder / f"{name}.so"


def call(library: ctypes.CDLL, name: str, program: Program, inputs: Mapping[str, np.ndarray]
         ) -> dict[str, np.ndarray]:
    """The outputs of the function of a program."""
    given = [np.require(inputs[b.name], requirements=("C", "A")) for b in program.inputs]
    made = {b.name: np.zeros(b.shape, numpy_dtype(b.dtype)) for b in program.outputs}
    getattr(library, name)(*pointers([*given, *made.values()]))
    return made


def pointers(arrays: Sequence[np.ndarray]) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def call_network(library: ctypes.CDLL, files: CFiles, graph: Graph,
                 given: Mapping[str, np.ndarray], name: str = "net") -> dict[str, np.ndarray]:
    """Outputs of a network of that name, computed in an arena of exactly the size that its header
    says.
    """
    arena, weights = _aligned(files.interface.arena_bytes), None
    if files.weights is not None:
        weights = _aligned(len(files.weights))
        weights[:] = np.frombuffer(files.weights, np.uint8)
    made = {value: np.zeros(graph.values[value].shape, numpy_dtype(graph.values[value].dtype))
            for value in graph.outputs}
    instance = (ctypes.c_void_p * 1)()
    at = None if weights is None else ctypes.c_void_p(weights.ctypes.data)
    assert getattr(library, f"{name}_init")(instance, at) == 0
    inputs = [np.require(given[value], requirements=("C", "A")) for value in graph.inputs]
    structs = [(ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
               for arrays in (inputs, made.values())]
    assert getattr(library, f"{name}_run")(instance, *structs, *pointers([arena])) == 0
    return made


def _aligned(size: int) -> np.ndarray:
    room = np.zeros(size + 64, np.uint8)
    begin = -room.ctypes.data % 64
    return room[begin:begin + size]
