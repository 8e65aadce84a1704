"""Several outputs, reducers of one's own, recurrences, indices that are data."""

import re

import numpy as np
import pytest

from compiler import te
from compiler.ir import interpret, lower, program_text, verify
from tests.compiler.te.samples import argmax

X = te.placeholder((3, 5), "int32", "x")
RNG = np.random.default_rng(0)


def refuses(message: str, kind: type[Exception] = ValueError):
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def largest():
    k = te.reduce_axis(5, "k")
    return te.compute((3,), lambda i: argmax()((X[i, k], k), axis=k), name=("best", "where"))


def running_sum(n: int = 6):
    x = te.placeholder((n,), "int32", "x")
    return te.scan((n,), lambda: x[0],
                   lambda s, t: te.compute((), lambda: s[t - 1] + x[t], "next"), name="total")


def cell(steps: int = 4, n: int = 3):
    """A recurrent network without biases: h[t] = tanh(x[t] + h[t - 1] @ w)."""
    x = te.placeholder((steps, n), "float32", "x")
    w, k = te.placeholder((n, n), "float32", "w"), te.reduce_axis(n, "k")

    def step(h, t):
        z = te.compute((n,), lambda i: te.sum(h[t - 1, k] * w[k, i], k), "z")
        return te.compute((n,), lambda i: te.tanh(z[i] + x[t, i]), "next")

    return te.scan((steps, n), lambda i: te.const(0, "float32"), step, name="h")


def run(tensors, **inputs):
    return interpret(verify(lower(tensors, "main")), inputs)


def test_reduction_of_two_values():
    best, where = largest()
    assert (best.dtype, where.dtype, best.shape) == ("int32", "int64", (3,))
    assert best.reduce_axes == where.reduce_axes
    assert program_text(lower([best, where], "main")) == """\
program main(x: int32[3, 5]) -> best: int32[3], where: int64[3]
for best_i in 0..3:
  for k in 0..5:
    best[best_i], where[best_i] argmax= x[best_i, k], k begin(k)
"""
    data = RNG.integers(-3, 3, (3, 5), dtype=np.int32)
    found = run([best, where], x=data)
    np.testing.assert_array_equal(found["where"], data.argmax(1))


def test_output_that_is_not_asked_for_is_allocated():
    text = program_text(lower([largest()[1]], "main"))
    assert text.splitlines()[:2] == ["program main(x: int32[3, 5]) -> where: int64[3]",
                                     "alloc best: int32[3]"]


def test_reduction_over_two_axes():
    i, j = te.reduce_axis(3, "i"), te.reduce_axis(5, "j")
    flat = te.compute((1,), lambda n: argmax()((X[i, j], i * 5 + j), axis=(i, j)), ("m", "at"))
    data = RNG.permutation(15).astype(np.int32).reshape(3, 5)
    assert run(flat, x=data)["at"].tolist() == [data.argmax()]


def test_several_values_in_one_nest():
    low, high = te.compute((3, 5), lambda i, j: (X[i, j] & 15, X[i, j] >> 4), ("low", "high"))
    assert program_text(lower([low, high], "main")) == """\
program main(x: int32[3, 5]) -> low: int32[3, 5], high: int32[3, 5]
for low_i in 0..3:
  for low_j in 0..5:
    low[low_i, low_j] = x[low_i, low_j] & 15
    high[low_i, low_j] = x[low_i, low_j] >> 4
"""


def test_running_sum():
    assert program_text(lower([running_sum()], "main")) == """\
program main(x: int32[6]) -> total: int32[6]
total[0] = x[0]
for total_t in 0..5:
  total[total_t + 1] = total[total_t] + x[total_t + 1]
"""
    data = RNG.integers(-9, 9, 6, dtype=np.int32)
    np.testing.assert_array_equal(run([running_sum()], x=data)["total"], np.cumsum(data))


def test_recurrent_cell():
    assert program_text(lower([cell()], "main")) == """\
program main(w: float32[3, 3], x: float32[4, 3]) -> h: float32[4, 3]
for h_i in 0..3:
  h[0, h_i] = 0.0
for h_t in 0..3:
  alloc z: float32[3]
  for z_i in 0..3:
    for k in 0..3:
      z[z_i] += h[h_t, k] * w[k, z_i] begin(k)
  for next_i in 0..3:
    h[h_t + 1, next_i] = tanh(z[next_i] + x[h_t + 1, next_i])
"""
    x, w = (RNG.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3, 3)))
    h = np.zeros((4, 3), np.float32)
    for t in range(1, 4):
        h[t] = np.tanh(x[t] + h[t - 1] @ w)
    np.testing.assert_allclose(run([cell()], x=x, w=w)["h"], h, rtol=1e-5, atol=1e-6)


def test_two_states_and_what_does_not_depend_on_time():
    x = te.placeholder((7,), "int64", "x")
    twice = te.compute((7,), lambda i: x[i] * 2, "twice")

    def step(states, t):
        a, b = states
        return (te.compute((), lambda: a[t - 1] + b[t - 1], "a_next"),
                te.compute((), lambda: a[t - 1] + twice[t], "b_next"))

    a, b = te.scan((7,), (lambda: x[0], lambda: x[1]), step, name=("a", "b"))
    program = lower([a, b], "main")
    assert program_text(program) == """\
program main(x: int64[7]) -> a: int64[7], b: int64[7]
alloc twice: int64[7]
for twice_i in 0..7:
  twice[twice_i] = x[twice_i] * 2
a[0] = x[0]
b[0] = x[1]
for a_t in 0..6:
  a[a_t + 1] = a[a_t] + b[a_t]
  b[a_t + 1] = a[a_t] + twice[a_t + 1]
"""
    data = np.arange(7)
    expected = [(0, 1)]
    for t in range(1, 7):
        expected.append((sum(expected[-1]), expected[-1][0] + 2 * t))
    found = run([a, b], x=data)
    assert list(zip(found["a"].tolist(), found["b"].tolist())) == expected


def test_what_reads_a_scan_comes_after_it():
    total = running_sum()
    last = te.compute((6,), lambda i: total[5] - total[i], "rest")
    data = np.arange(6, dtype=np.int32)
    np.testing.assert_array_equal(run([last], x=data)["rest"], 15 - np.cumsum(data))


def test_indices_that_are_data():
    table, where = te.placeholder((9, 2), "int32", "table"), te.placeholder((4,), "int32", "where")
    rows = te.compute((4, 2), lambda i, j: table[te.cast(where[i], te.INDEX), j], "rows")
    data, at = np.arange(18, dtype=np.int32).reshape(9, 2), np.array([8, 0, 3, 3], np.int32)
    np.testing.assert_array_equal(run([rows], table=data, where=at)["rows"], data[at])
    with pytest.raises(IndexError, match=r"^Index 0 of table, int64\(where\[rows_i\]\), must be "
                                         r"from 0 to 8, not 9$"):
        run([rows], table=data, where=np.array([0, 9, 0, 0], np.int32))


def test_a_read_under_a_false_condition_is_not_performed():
    x, where = te.placeholder((4,), "int32", "x"), te.placeholder((4,), "int64", "where")
    y = te.compute((4,), lambda i: te.select(
        te.all_of(where[i] >= 0, where[i] < 4), x[where[i]], -1), "y")
    found = run([y], x=np.arange(4, dtype=np.int32), where=np.array([3, -7, 99, 0]))
    assert found["y"].tolist() == [3, -1, -1, 0]


def test_names_wrong():
    with refuses("Names of y must be a tuple exactly if its body has several values, not 'y'"):
        te.compute((3,), lambda i: (X[i, 0],), "y")
    with refuses("Body of a must have 2 values, one for each name, not 1"):
        te.compute((3,), lambda i: (X[i, 0],), ("a", "b"))


def test_values_of_a_reducer_wrong():
    k = te.reduce_axis(5, "k")
    with refuses("Values of argmax must be int32, int64, not int32, int32", TypeError):
        te.compute((3,), lambda i: argmax()((X[i, k], X[i, k]), axis=k), ("m", "at"))
    with refuses("Axis of argmax must be a reduce_axis, not 'x'"):
        argmax()((X[0, 0], 0), axis=te.Axis(te.Var("x"), 3))


def test_several_values_with_a_reduction_inside_wrong():
    k = te.reduce_axis(5, "k")
    with refuses("Reduction in a must be the outermost operation of its body"):
        te.compute((3,), lambda i: (X[i, 0], te.sum(X[i, k], k)), ("a", "b"))


def scan_with(step, shape=(6,), init=lambda: te.const(0, "int32"),
              name: str | tuple[str, ...] = "s"):
    return te.scan(shape, init, step, name)


def test_scan_of_one_time_wrong():
    with refuses("Scan s must have two times or more, not shape (1,)"):
        scan_with(lambda s, t: s, shape=(1,))


def test_number_of_beginnings_and_steps_wrong():
    with refuses("Beginnings of a must be 2, one for each state, not 1"):
        scan_with(lambda s, t: s, name=("a", "b"))
    with refuses("Steps of s must be 1 tensors, one for each state, not 2"):
        scan_with(lambda s, t: (s, s))


def test_step_wrong():
    with refuses("Step of s must be computed by itself, not 's'"):
        scan_with(lambda s, t: s)
    with refuses("Step of s must be int32[], not int64[]"):
        scan_with(lambda s, t: te.compute((), lambda: te.const(0, "int64"), "next"))


def test_step_that_reads_its_own_time_wrong():
    late = scan_with(lambda s, t: te.compute((), lambda: s[t] + 1, "next"))
    with refuses("Step of s must read earlier times than s_t + 1, not s[s_t + 1]"):
        lower([late], "main")


def test_scan_in_the_step_of_a_scan_wrong():
    def step(s, t):
        inner = te.scan((3,), lambda: s[t - 1], lambda u, v: te.compute(
            (), lambda: u[v - 1] + 1, "u_next"), name="u")
        return te.compute((), lambda: inner[2], "next")

    with refuses("Step of s must not depend on its time through the scan u"):
        lower([scan_with(step)], "main")


def test_two_tensors_of_one_name_wrong():
    k = te.reduce_axis(5, "k")
    first = te.compute((3,), lambda i: argmax()((X[i, k], k), axis=k), ("m", "at"))
    other = te.compute((3,), lambda i: X[i, 0], "at")
    with refuses("Tensors of main must have names of their own, not two of them 'at'"):
        lower([first[0], other], "main")
