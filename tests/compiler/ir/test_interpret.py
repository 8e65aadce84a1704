"""The reference interpreter against NumPy, and what it does not let pass."""

import re

import numpy as np
import pytest

from compiler import te
from compiler.ir import (Alloc, Barrier, Combine, For, If, Program, Seq, Store, Update, interpret,
                         lower, verify)
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import Buffer, Const, Extern, Var
from tests.compiler.ir.samples import arrays, convolution, matmul
from tests.compiler.te.samples import argmax

I, J = Var("i"), Var("j")
A, C = Buffer("a", (4,), "int32"), Buffer("c", (4,), "int32")
ONE = Const(1, "int32")


def program(body, inputs=(A,), outputs=(C,)) -> Program:
    return Program("main", inputs, outputs, body)


def run(body, **given):
    inputs = {"a": np.array([3, 1, 4, 1], np.int32)} | given
    return interpret(program(body), inputs)["c"].tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_product_of_matrices_wraps(dtype):
    c = lower([matmul(5, 7, 9, dtype)], "main")
    data = arrays(c)
    np.testing.assert_array_equal(interpret(c, data)["c"], data["x"] @ data["y"])


def test_float_sums_are_added_in_the_order_of_the_program():
    c = lower([matmul(2, 3, 50, "float32")], "main")
    rng = np.random.default_rng(1)
    x, y = rng.random((2, 50), np.float32), rng.random((50, 3), np.float32)
    expected = np.zeros((2, 3), np.float32)
    for k in range(50):
        expected += x[:, k, None] * y[k]
    np.testing.assert_array_equal(interpret(c, {"x": x, "y": y})["c"], expected)


def quantized_convolution(x, w, par, padding, stride, zero):
    """What `convolution` means, with NumPy alone and float64, which is exact here."""
    p = padding
    rows = np.pad(x.astype(np.int64), [(0, 0), (p, p), (p, p), (0, 0), (0, 0), (0, 0)],
                  constant_values=zero)
    k = w.shape[1]
    windows = np.lib.stride_tricks.sliding_window_view(rows, (k, k), axis=(1, 2))
    windows = windows[:, ::stride, ::stride]
    acc = np.einsum("nyxcbihw,ohwcji->nyxobj", windows, w.astype(np.int64))
    acc = acc + par["bias"][:, None, :]
    scaled = np.rint(acc * par["mult"].astype(float)[:, None, :]
                     / 2.0 ** par["shift"][:, None, :])
    return np.clip(zero + scaled, -128, 127).astype(np.int8)


@pytest.mark.parametrize("padding, stride", [(0, 1), (1, 1), (1, 2)])
def test_quantized_convolution(padding, stride):
    program_ = lower([convolution(padding=padding, stride=stride)], "main")
    data = arrays(program_, seed=3)
    expected = quantized_convolution(data["x"], data["w"], data["par"], padding, stride, 3)
    assert len(np.unique(expected)) > 10
    np.testing.assert_array_equal(interpret(program_, data)["out"], expected)


def test_records_pass_through():
    p = te.placeholder((3,), PARAM, "p")
    program_ = lower([te.compute((3,), lambda i: p[2 - i], "q")], "main")
    data = arrays(program_)
    assert (interpret(program_, data)["q"] == data["p"][::-1]).all()


def test_only_the_chosen_side_is_evaluated():
    body = For(I, 4, Store(C, (I,), te.select(I >= 1, A[I - 1], 7)))
    assert run(body) == [7, 3, 1, 4]


def test_store_that_reads_its_buffer_runs_in_order():
    first = Store(C, (Const(0, "int64"),), A[0])
    rest = For(I, 3, Store(C, (I + 1,), C[I] + A[I + 1]))
    assert run(Seq((first, rest))) == [3, 4, 8, 9]


def test_last_store_to_an_element_remains():
    body = For(I, 4, For(J, 4, Store(C, (J,), A[I])))
    assert run(body) == [1, 1, 1, 1]


def test_update_begins_where_its_variables_are_zero():
    body = For(I, 4, For(J, 4, Update(C, (I,), "max", A[J], (J,))))
    assert run(body) == [4, 4, 4, 4]


def test_update_that_begins_again_in_between():
    """Each element begins twice: what came before the second time is forgotten."""
    body = For(I, 2, For(J, 4, Update(C, (J % 4,), "sum", A[J] + te.cast(I, "int32"), ())))
    assert run(body) == [4, 2, 5, 2]
    zero = Const(0, "int64")
    again = For(I, 2, For(J, 4, Update(C, (zero,), "sum", A[J] + te.cast(I, "int32"), (J,))))
    assert run(Seq((For(Var("k"), 4, Store(C, (Var("k"),), ONE)), again))) == [13, 1, 1, 1]
    late = Seq((For(I, 4, Store(C, (I,), ONE)),
                For(Var("k"), 2, For(J, 4, Update(C, (J,), "sum", A[J], (Var("k"),))))))
    assert run(late) == [6, 2, 8, 2]


def test_guard():
    whole = For(I, 4, Store(C, (I,), A[I]))
    guarded = For(J, 4, If(J >= 2, Store(C, (J,), ONE)))
    assert run(Seq((whole, guarded))) == [3, 1, 1, 1]


def test_allocated_buffer_is_new_each_time():
    b = Buffer("b", (4,), "int32")
    body = For(I, 4, Alloc(b, Seq((
        If((I % 2).equal(0), Store(b, (I,), A[I])), Store(C, (I,), b[I])))))
    with pytest.raises(LookupError) as caught:
        run(body)
    assert str(caught.value) == "b[1] is read before it is written"


def test_update_of_what_was_never_written_wrong():
    body = For(I, 4, If(I >= 1, Update(C, (Const(0, "int64"),), "sum", A[I], (I,))))
    with pytest.raises(LookupError) as caught:
        run(body)
    assert str(caught.value) == "c[0] is read before it is written"


def test_output_that_is_not_complete_wrong():
    with pytest.raises(LookupError) as caught:
        run(For(I, 3, Store(C, (I,), A[I])))
    assert str(caught.value) == "Output c[3] was never written"


@pytest.mark.parametrize("body, message", [
    (For(I, 4, Store(C, (I,), A[I + 1])),
     "Index 0 of a, i + 1, must be from 0 to 3, not 4"),
    (For(I, 4, Store(C, (I,), A[I - 1])),
     "Index 0 of a, i - 1, must be from 0 to 3, not -1"),
    (For(I, 5, Store(C, (I,), ONE)),
     "Index 0 of c, i, must be from 0 to 3, not 4")])
def test_index_outside_wrong(body, message):
    with pytest.raises(IndexError) as caught:
        run(body)
    assert str(caught.value) == message


def test_input_missing_wrong():
    message = re.escape("Inputs of main must hold 'a', not only ['b']")
    with pytest.raises(ValueError, match=f"^{message}$"):
        interpret(program(For(I, 4, Store(C, (I,), A[I]))), {"b": np.zeros(4)})


@pytest.mark.parametrize("array, text", [(np.zeros(4), "float64[4]"),
                                         (np.zeros((2, 2), np.int32), "int32[2, 2]")])
def test_input_that_does_not_fit_wrong(array, text):
    message = re.escape(f"Input a must be int32[4], not {text}")
    with pytest.raises(ValueError, match=f"^{message}$"):
        run(For(I, 4, Store(C, (I,), A[I])), a=array)


def test_inputs_and_outputs_stay_apart():
    given = np.array([3, 1, 4, 1], np.int32)
    result = interpret(program(For(I, 4, Store(C, (I,), A[I] * 2))), {"a": given})["c"]
    result[0] = 99
    assert given.tolist() == [3, 1, 4, 1]


BEST, WHERE = Buffer("best", (3,), "int32"), Buffer("where", (3,), "int64")


def largest(*loops: Var, x: Buffer) -> Program:
    """Largest element of each row of `x`, and the first place of it."""
    r, k = Var("r"), Var("k")
    body = Combine((BEST, WHERE), (r,), argmax(), (x[r, k], k), (k,))
    for var in reversed(loops):
        body = For(var, {"r": 3, "k": 5}[var.name], body)
    return Program("main", (x,), (BEST, WHERE), body)


@pytest.mark.parametrize("order", ["rk", "kr"])
def test_combine_keeps_value_and_place_together(order):
    data = np.array([[1, 7, 7, 2, 0], [-5, -6, -5, -9, -5], [4, 4, 4, 4, 9]], np.int32)
    found = interpret(verify(largest(*map(Var, order), x=Buffer("x", (3, 5), "int32"))),
                      {"x": data})
    np.testing.assert_array_equal(found["best"], data.max(1))
    np.testing.assert_array_equal(found["where"], data.argmax(1))


def test_combine_of_what_was_never_written_wrong():
    x, r, k = Buffer("x", (3, 5), "int32"), Var("r"), Var("k")
    body = Combine((BEST, WHERE), (r,), argmax(), (x[r, k], k), (k,))
    late = Program("main", (x,), (BEST, WHERE), For(r, 3, For(k, 5, If(k >= 1, body))))
    with pytest.raises(LookupError) as caught:
        interpret(late, {"x": np.zeros((3, 5), np.int32)})
    assert str(caught.value) == "best[0] is read before it is written"


def test_gaps_between_rows_are_never_touched():
    near = Buffer("near", (3, 4), "int32", "shared", strides=(5, 1))
    a, c = Buffer("a", (3, 4), "int32"), Buffer("c", (4, 3), "int32")
    i, j, k, l = map(Var, "ijkl")
    body = Alloc(near, Seq((For(i, 3, For(j, 4, Store(near, (i, j), a[i, j]))), Barrier(),
                            For(k, 4, For(l, 3, Store(c, (k, l), near[l, k]))))))
    data = np.arange(12, dtype=np.int32).reshape(3, 4)
    found = interpret(verify(Program("main", (a,), (c,), body)), {"a": data})["c"]
    np.testing.assert_array_equal(found, data.T)


@pytest.mark.parametrize("kind, expected", [("serial", 4), ("parallel", 1), ("threadIdx.x", 1)])
def test_iterations_without_order_run_backwards(kind, expected):
    c, i = Buffer("c", (1,), "int64"), Var("i")
    body = For(i, 4, Store(c, (Const(0, "int64"),), i + 1), kind)
    assert interpret(Program("main", (), (c,), body), {})["c"][0] == expected


def test_unwritten_element_of_a_buffer_with_gaps_wrong():
    near = Buffer("near", (2, 3), "int32", strides=(4, 1))
    c, i = Buffer("c", (2,), "int32"), Var("i")
    body = Alloc(near, For(i, 2, Store(c, (i,), near[i, 2])))
    with pytest.raises(LookupError) as caught:
        interpret(Program("main", (), (c,), body), {})
    assert str(caught.value) == "near[0, 2] is read before it is written"


@pytest.mark.parametrize("dtype, bits", [("int24", 24), ("int40", 40), ("int48", 48)])
def test_integers_that_numpy_lacks_wrap(dtype, bits):
    """Sums, products, differences, shifts, absolute values and conversions."""
    x, k = te.placeholder((3, 5), "int64", name="x"), te.reduce_axis(5, name="k")
    total = te.compute((3,), lambda i: te.sum(x[i, k.var].astype(dtype), k), name="total")
    values = te.compute((3,), lambda i: (
        (te.abs(total[i] * 3 - 1) << 2) ^ total[i]).astype("int64"), name="values")
    data = np.random.default_rng(2).integers(-1 << 62, 1 << 62, (3, 5))
    data[0] = -(1 << bits - 1), 0, 0, 0, 0

    def wrapped(number):
        return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

    def wanted(row):
        start = wrapped(sum(row))
        return wrapped(wrapped(abs(wrapped(start * 3 - 1))) << 2) ^ start

    found = interpret(lower([values], "main"), {"x": data})["values"]
    assert found.tolist() == [wanted(row) for row in data.tolist()]


def test_what_only_an_instruction_computes():
    value = Extern("softmax", (A[I],), "int32")
    program = Program("p", (A,), (C,), For(I, 4, Store(C, (I,), value)))
    with pytest.raises(TypeError, match="^softmax must be performed by an instruction: no "):
        interpret(program, {"a": np.zeros(4, np.int32)})
