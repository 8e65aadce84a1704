"""What tests of back ends for the CPU share."""

import itertools
from dataclasses import replace

import ml_dtypes
import numpy as np

from compiler import te
from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import For, Program, interpret, rewrite_stmts

INTEGERS = tuple(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64))
FLOATS = ("float16", "bfloat16", "float32", "float64")


def edges(dtype: str) -> np.ndarray:
    """Values where an operator may go wrong."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in FLOATS:
        finfo = ml_dtypes.finfo(te.numpy_dtype(dtype))
        ends = [float(one) for one in (finfo.max, finfo.tiny, -finfo.smallest_subnormal)]
        return np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -7.25, 1e-3, 6e4, *ends,
                         np.inf, -np.inf, np.nan], te.numpy_dtype(dtype))
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, 5, info.bits - 1, info.bits, info.bits + 1, 100,
              info.max, info.max - 1, info.min, info.min + 1]
    return np.array(values + ([-1, -2, -7, -100] if info.min else []), dtype)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    values = edges(dtype)
    if dtype not in (*FLOATS, "bool"):
        rng = np.random.default_rng(0)
        info = np.iinfo(dtype)
        values = np.append(values, rng.integers(info.min, info.max, 20, dtype, endpoint=True))
    a, b = np.array(list(itertools.product(values, values)), values.dtype).T
    return np.ascontiguousarray(a), np.ascontiguousarray(b)


def marked(program: Program, **kinds: str) -> Program:
    """The program with loops, by name, of other kinds: nothing is proved."""
    def rule(node):
        return replace(node, kind=kinds[node.var.name]) if (
            isinstance(node, For) and node.var.name in kinds) else None

    return replace(program, body=rewrite_stmts(program.body, rule))


def random_inputs(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = {}
    for buffer in program.inputs:
        data = rng.integers(-9, 9, buffer.shape)
        inputs[buffer.name] = data.astype(te.numpy_dtype(buffer.dtype))
    return inputs


def assert_native_agrees(program: Program, inputs=None) -> None:
    """Native code and interpreter give the same, to the bit."""
    inputs = inputs or random_inputs(program)
    expected, found = interpret(program, inputs), build(program).compute(inputs)
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
