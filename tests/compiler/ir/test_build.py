"""Lowering of tensor expressions to plain nests."""

import re

import pytest

from compiler import te
from compiler.ir import lower, program_text, verify
from tests.compiler.ir.samples import convolution, scaled


def test_stages_in_the_order_of_their_dependence():
    assert program_text(lower([scaled(4)], "main")) == """\
program main(a: int32[4]) -> c: int32[4]
alloc b: int32[4]
for b_i in 0..4:
  b[b_i] = a[b_i] * 3
for c_i in 0..4:
  c[c_i] = b[c_i] + 1
"""


def test_reductions_are_loops_and_an_update():
    x, k = te.placeholder((4, 5), "int32", "x"), te.reduce_axis(5, "k")
    m = te.compute((4,), lambda i: te.max(x[i, k + 0], k), "m")
    assert program_text(lower([m], "main")) == """\
program main(x: int32[4, 5]) -> m: int32[4]
for m_i in 0..4:
  for k in 0..5:
    m[m_i] max= x[m_i, k] begin(k)
"""


def test_reduction_variables_get_names_of_their_own():
    x, k = te.placeholder((4, 4), "int32", "x"), te.reduce_axis(4, "k")
    p = te.compute((4, 4), lambda i, j: te.sum(x[i, k] * x[k, j], k), "p")
    q = te.compute((4, 4), lambda i, j: te.sum(p[i, k] * x[k, j], k), "q")
    text = program_text(verify(lower([q], "main")))
    assert "p[p_i, p_j] += x[p_i, k] * x[k, p_j] begin(k)" in text
    assert "q[q_i, q_j] += p[q_i, q_k] * x[q_k, q_j] begin(q_k)" in text


def test_an_output_may_be_read_by_another():
    a = te.placeholder((4,), "int32", "a")
    b = te.compute((4,), lambda i: a[i] * 2, "b")
    c = te.compute((4,), lambda i: b[i] + a[3 - i], "c")
    program = verify(lower([c, b], "main"))
    assert [buffer.name for buffer in program.outputs] == ["c", "b"]
    assert program_text(program).startswith(
        "program main(a: int32[4]) -> c: int32[4], b: int32[4]\nfor b_i")


def test_scalar():
    x, k = te.placeholder((5,), "int32", "x"), te.reduce_axis(5, "k")
    program = verify(lower([te.compute((), lambda: te.sum(x[k], k), "s")], "main"))
    assert program_text(program).splitlines()[1:] == ["for k in 0..5:", "  s[] += x[k] begin(k)"]


def test_inputs_in_the_order_in_which_they_are_met():
    assert [b.name for b in lower([convolution()], "conv").inputs] == ["x", "w", "par"]


def test_two_tensors_of_one_name_wrong():
    first = te.compute((4,), lambda i: te.const(1, "int32"), "t")
    second = te.compute((4,), lambda i: te.const(2, "int32"), "t")
    message = "Tensors of main must have names of their own, not two of them 't'"
    with pytest.raises(ValueError, match=f"^{message}$"):
        lower([te.compute((4,), lambda i: first[i] + second[i], "u")], "main")


def test_placeholder_as_output_wrong():
    message = re.escape("Output of main must be computed, not the placeholder 'x'")
    with pytest.raises(ValueError, match=f"^{message}$"):
        lower([te.placeholder((4,), "int32", "x")], "main")
