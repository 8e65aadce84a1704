"""Every operator of networks in C, against the interpreter, bit for bit."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from compiler.cpu_gpu_backends.c.kernels import kernels_text
from compiler.cpu_gpu_backends.c.network import kernel_program
from compiler.cpu_gpu_backends.groups import recipe_of
from compiler.graph import Builder, TensorType
from compiler.graph.fusion import Group
from compiler.ir import Program, interpret
from compiler.te import numpy_dtype
from tests.support.c_text import build_c, call, compile_c, needs_c
from tests.support.operator_cases import CASES, OperatorCase

pytestmark = needs_c

ESTIMATED = ("softmax", "layernorm", "rmsnorm", "gelu", "sigmoid", "silu", "exp", "tanh", "erf",
             "log", "pow", "softplus", "mish", "elu", "sin", "cos")
"""Operators of functions that NumPy computes by other polynomials."""

Arrays = dict[str, np.ndarray]


def programs_of(cases: Iterable[OperatorCase]) -> dict[str, tuple[OperatorCase, Program, Arrays]]:
    made = {}
    for number, case in enumerate(cases):
        net = Builder("net")
        for name, array in zip(case.node.inputs, case.inputs):
            net.add_input(name, TensorType(array.shape, array.dtype.name))
        net.emit(case.op, "node", case.node.inputs, "y", **case.attrs)
        graph = net.finish(["y"])
        program = kernel_program(recipe_of(graph, Group.of(graph.nodes, graph)))
        made[f"f{number}"] = case, program, {
            b.name: np.ascontiguousarray(array).reshape(b.shape)
            for b, array in zip(program.inputs, case.inputs, strict=True)}
    return made


def check(cases: Iterable[OperatorCase], folder: Path, *flags: str) -> None:
    made = programs_of(cases)
    text = kernels_text({name: program for name, (_, program, _) in made.items()})
    library = compile_c(text, folder, *flags)
    for name, (case, program, inputs) in made.items():
        found, wanted = call(library, name, program, inputs), interpret(program, inputs)["y"]
        if any(word in case.op for word in ESTIMATED) and wanted.dtype.kind == "f":
            np.testing.assert_allclose(found["y"], wanted, 1e-5, 1e-6, err_msg=str(case))
        else:
            np.testing.assert_array_equal(found["y"], wanted, str(case))


@pytest.mark.slow
def test_some_operators(tmp_path: Path) -> None:
    check(CASES[5::20], tmp_path, "-O0")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [
    ("-O2",), ("-O3", "-march=native"), ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover")],
    ids=" ".join)
def test_every_operator(flags: tuple[str, ...], tmp_path: Path) -> None:
    check(CASES, tmp_path, *flags)


CALLS = """\
import ctypes, sys
import numpy as np
arrays, library = np.load("arrays.npz"), ctypes.CDLL("./kernels.so")
for name in sorted({key.partition(":")[0] for key in arrays.files}):
    given = [arrays[f"{name}:{place}"] for place in range(int(arrays[f"{name}:count"]))]
    getattr(library, name)(*(ctypes.c_void_p(one.ctypes.data) for one in given))
"""


@pytest.mark.slow
def test_no_access_outside_of_arrays(tmp_path: Path) -> None:
    """In a process whose memory is watched, from its stack to arrays of NumPy."""
    made = programs_of(CASES)
    text = kernels_text({name: program for name, (_, program, _) in made.items()})
    build_c(text, tmp_path, "-O0", "-g", "-fsanitize=address")
    arrays = {}
    for name, (_, program, inputs) in made.items():
        outputs = [np.zeros(b.shape, numpy_dtype(b.dtype)) for b in program.outputs]
        for place, array in enumerate([*inputs.values(), *outputs]):
            arrays[f"{name}:{place}"] = array
        arrays[f"{name}:count"] = np.array(len(inputs) + len(outputs))
    np.savez(tmp_path / "arrays.npz", **arrays)
    watch = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True,
                           check=True).stdout.strip()
    done = subprocess.run([sys.executable, "-c", CALLS], cwd=tmp_path, capture_output=True,
                          text=True, env={"LD_PRELOAD": watch, "ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 0, done.stderr[-4000:]
