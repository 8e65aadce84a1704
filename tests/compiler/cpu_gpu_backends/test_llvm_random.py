"""Random program x random legal schedule: interpreter before = interpreter after = native code.

Integers to the bit. Floats: native code equals the interpreter on the same program to the bit; a
schedule may change the order of a sum, and `contract` may fuse products, so both are held to the
bound ``terms * eps * (the same with all magnitudes)`` of the program before.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import Alloc, Program, interpret, map_exprs, rewrite_stmts
from compiler.te import Binary, Buffer, Const, Expr, Read, rewrite
from tests.compiler.cpu_gpu_backends.checks import random_inputs
from tests.compiler.schedule.strategies import Scheduled, scheduled

TERMS = 1 << 12         # more than any element of these programs is made of


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def check_integers(case: Scheduled) -> None:
    after = case.steps[-1][1] if case.steps else case.program
    inputs = random_inputs(case.program)
    expected = interpret(case.program, inputs)
    same(interpret(after, inputs), expected)
    same(build(after).compute(inputs), expected)


def in_floats(program: Program, magnitudes: bool = False) -> Program:
    """The program with float32 for int32, and of absolute values if `magnitudes` are wanted."""
    def buffer(old: Buffer) -> Buffer:
        return replace(old, dtype="float32") if old.dtype == "int32" else old

    def expression(node: Expr) -> Expr | None:
        match node:
            case Const(value, "int32"):
                return Const(float(abs(value) if magnitudes else value), "float32")
            case Read(): return Read(buffer(node.buffer), node.indices)
            case Binary("sub", a, b) if magnitudes and a.dtype == "float32":
                return Binary("add", a, b)
        return None

    def statement(node):
        match node:
            case Alloc(): return Alloc(buffer(node.buffer), node.body)
            case _ if hasattr(node, "indices") and hasattr(node, "buffer"):
                return replace(node, buffer=buffer(node.buffer))
        return None

    body = map_exprs(rewrite_stmts(program.body, statement),
                     lambda expr: rewrite(expr, expression))
    return replace(program, inputs=tuple(map(buffer, program.inputs)),
                   outputs=tuple(map(buffer, program.outputs)), body=body)


def check_floats(case: Scheduled) -> None:
    before = in_floats(case.program)
    after = in_floats(case.steps[-1][1] if case.steps else case.program)
    rng = np.random.default_rng(0)
    inputs = {b.name: rng.normal(size=b.shape).astype(b.dtype) for b in before.inputs}
    expected, scheduled_ = interpret(before, inputs), interpret(after, inputs)
    sizes = interpret(in_floats(case.program, magnitudes=True),
                      {name: np.abs(array) for name, array in inputs.items()})
    same(build(after).compute(inputs), scheduled_)
    fused = build(after, contract=True).compute(inputs)
    for name in expected:
        bound = TERMS * np.finfo(np.float32).eps * sizes[name].astype(float)
        for found in (scheduled_[name], fused[name]):
            assert (abs(found.astype(float) - expected[name]) <= bound).all()


@given(scheduled())
@settings(max_examples=200)
def test_integers(case: Scheduled):
    check_integers(case)


@given(scheduled(most=8))
@settings(max_examples=40)
def test_floats(case: Scheduled):
    check_floats(case)


@pytest.mark.slow
@given(scheduled())
@settings(max_examples=2000)
def test_many_integers(case: Scheduled):
    check_integers(case)


@pytest.mark.slow
@given(scheduled())
@settings(max_examples=400)
def test_many_floats(case: Scheduled):
    check_floats(case)
