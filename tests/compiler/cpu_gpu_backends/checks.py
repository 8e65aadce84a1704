"""What tests of back ends for the CPU share."""

from dataclasses import replace

import numpy as np

from compiler import te
from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import For, Program, interpret, rewrite_stmts


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
