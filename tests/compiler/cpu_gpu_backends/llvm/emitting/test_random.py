"""Random program x random legal schedule on floats that round, as native code.

On one program, native code equals the interpreter to the bit. A schedule may change the order of a
sum, and `contract` may fuse products with it: both stay within the bound ``terms * eps * (the
program before, on magnitudes)``. (What is exact is compared in `test_random_schedules`.)
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import Combine, Program, interpret, map_exprs, walk_stmts
from compiler.te import Binary, Const, Expr, numpy_dtype, rewrite
from tests.compiler.schedule.strategies import Scheduled, scheduled
from tests.support.effort import tries

TERMS = 1 << 12         # more than any element of these programs is made of


def rounds(program: Program) -> bool:
    """Whether it calculates with floats, continuously: an argmax jumps."""
    return program.outputs[0].dtype == "float32" and not any(
        isinstance(stmt, Combine) for stmt in walk_stmts(program.body))


def of_magnitudes(program: Program) -> Program:
    """The program with constants' absolute values and sums for differences."""
    def rule(node: Expr) -> Expr | None:
        match node:
            case Const(value, "float32"): return Const(abs(value), "float32")
            case Binary("sub", a, b) if a.dtype == "float32": return Binary("add", a, b)
        return None

    return replace(program, body=map_exprs(program.body, lambda expr: rewrite(expr, rule)))


def check(case: Scheduled) -> None:
    if not rounds(case.program):
        return
    after, rng = case.steps[-1][1] if case.steps else case.program, np.random.default_rng(0)
    inputs = {b.name: (rng.normal(size=b.shape) * 4 % 256).astype(numpy_dtype(b.dtype))
              if b.dtype == "uint8" else rng.normal(size=b.shape).astype(numpy_dtype(b.dtype))
              for b in after.inputs}
    before, scheduled_ = interpret(case.program, inputs), interpret(after, inputs)
    sizes = interpret(of_magnitudes(case.program),
                      {name: np.abs(array) for name, array in inputs.items()})
    plain, fused = (build(after, contract=c).compute(inputs) for c in (False, True))
    for name, expected in before.items():
        np.testing.assert_array_equal(plain[name], scheduled_[name])
        bound = TERMS * np.finfo(np.float32).eps * sizes[name].astype(float)
        for found in (plain[name], fused[name]):
            assert (abs(found.astype(float) - expected) <= bound).all()


@given(scheduled(most=8))
@settings(max_examples=tries(120))
def test_floats(case: Scheduled):
    check(case)


@pytest.mark.slow
@given(scheduled())
@settings(max_examples=tries(1500))
def test_many_floats(case: Scheduled):
    check(case)
