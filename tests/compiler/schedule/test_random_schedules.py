"""Random program x random legal schedule: the interpreter before = after = native code.

Integers to the bit; floats too, because all their sums are exact (small whole numbers), so that a
permitted change of order changes nothing. The bound where they are not is that of summation,
``terms * 2**-24 * sum(|terms|)`` for float32: `test_rounding_is_that_of_summation`.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import interpret, lower, verify
from compiler.schedule import reorder, rfactor, split
from tests.compiler.ir.samples import arrays, matmul
from tests.compiler.schedule.strategies import Scheduled, scheduled
from tests.support.effort import tries


def check(case: Scheduled):
    program = verify(case.steps[-1][1] if case.steps else case.program)
    inputs = arrays(case.program)
    expected = interpret(case.program, inputs)
    for found in (interpret(program, inputs), build(program).compute(inputs)):
        assert list(found) == list(expected)
        for name, array in expected.items():
            assert array.dtype == found[name].dtype
            np.testing.assert_array_equal(found[name], array, err_msg=name)


@given(scheduled())
@settings(max_examples=tries(100))
def test_legal_schedules_keep_the_meaning(case):
    check(case)


@pytest.mark.slow
@given(scheduled())
@settings(max_examples=tries(2000))
def test_many_legal_schedules_keep_the_meaning(case):
    check(case)


@given(st.integers(2, 40), st.integers(1, 8), st.integers(0, 9), st.booleans())
@settings(max_examples=tries(30))
def test_rounding_is_that_of_summation(terms, factor, seed, partial):
    program = lower([matmul(3, 4, terms, "float32")], "main")
    cut = split(program, "k", min(factor, terms))
    other = (rfactor(cut, "c", "k_o", reassociate=True) if partial
             else reorder(cut, "k_i", "k_o", reassociate=True))
    rng = np.random.default_rng(seed)
    inputs = {b.name: rng.normal(size=b.shape).astype(np.float32) for b in program.inputs}
    bound = terms * 2.0**-24 * (np.abs(inputs["x"]) @ np.abs(inputs["y"]))
    exact = inputs["x"].astype(np.float64) @ inputs["y"].astype(np.float64)
    for one in (program, other):
        assert (np.abs(interpret(one, inputs)["c"] - exact) <= bound).all()
