"""Text in C99, compiled with all warnings as errors and called from here."""

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from compiler.ir import Program
from compiler.te import numpy_dtype

__all__ = ["STRICT", "call", "compile_c", "needs_c"]

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")

needs_c = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler (gcc)")


def compile_c(text: str, folder: Path, *flags: str, name: str = "kernels") -> ctypes.CDLL:
    """The text as a shared library, with these flags after the strict ones."""
    (folder / f"{name}.c").write_text(text)
    done = subprocess.run(["gcc", *STRICT, *flags, "-fPIC", "-shared", f"{name}.c", "-o",
                           f"{name}.so", "-lm"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(folder / f"{name}.so"))


def call(library: ctypes.CDLL, name: str, program: Program, inputs: Mapping[str, np.ndarray]
         ) -> dict[str, np.ndarray]:
    """The outputs of the function of a program."""
    given = [np.require(inputs[b.name], requirements=("C", "A")) for b in program.inputs]
    made = {b.name: np.zeros(b.shape, numpy_dtype(b.dtype)) for b in program.outputs}
    getattr(library, name)(*pointers([*given, *made.values()]))
    return made


def pointers(arrays: Sequence[np.ndarray]) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]
