"""Statements as native code, against the interpreter."""

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import (Alloc, Binding, For, If, Program, Seq, Stmt, Store, Tensorized, Update,
                         interpret, lower)
from compiler.schedule import Schedule, fuse, reorder, split
from compiler.te import Buffer, Const, Var
from tests.compiler.cpu_gpu_backends.checks import assert_native_agrees
from tests.compiler.cpu_gpu_backends.flush import placed

PAIR = te.record("pair", small="int16", large="float64", flag="bool")
I, J, K, L = (Var(name) for name in "ijkl")


def product(dtype: str = "float32") -> Program:
    a, b = te.placeholder((5, 7), dtype, "a"), te.placeholder((7, 6), dtype, "b")
    k = te.reduce_axis(7, "k")
    return lower([te.compute((5, 6), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")], "product")


@pytest.mark.parametrize("order", ["ijk", "ikj", "kij", "kji"])
def test_reductions_at_any_place_in_the_nest(order):
    names = {"i": "c_i", "j": "c_j", "k": "k"}
    assert_native_agrees(reorder(product(), *(names[one] for one in order)))


@pytest.mark.parametrize("factor", [2, 3, 7])
def test_guarded_tails_of_a_split_reduction(factor):
    program = split(product("int32"), "k", factor)
    assert_native_agrees(program)
    assert_native_agrees(reorder(program, "k_o", "c_i", "c_j", "k_i"))
    assert_native_agrees(split(program, "c_j", 4))


def test_a_fused_reduction():
    x = te.placeholder((4, 3, 5), "int8", "x")
    k, l = te.reduce_axis(3, "k"), te.reduce_axis(5, "l")
    program = lower([te.compute((4,), lambda i: te.sum(x[i, k, l].astype("int32"), (k, l)), "y")],
                    "p")
    assert_native_agrees(fuse(program, "k", "l"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float32", "float64"])
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reductions(op, dtype):
    x = te.placeholder((3, 9), dtype, "x")
    k = te.reduce_axis(9, "k")
    assert_native_agrees(lower([te.compute((3,), lambda i: getattr(te, op)(x[i, k], k), "y")], "p"))


@pytest.mark.parametrize("op", ["max", "min"])
def test_reductions_of_conditions(op):
    x = te.placeholder((4, 2), "bool", "x")
    k = te.reduce_axis(2, "k")
    program = lower([te.compute((4,), lambda i: getattr(te, op)(x[i, k], k), "y")], "p")
    assert_native_agrees(program, {"x": np.array([[0, 0], [0, 1], [1, 0], [1, 1]], bool)})


@pytest.mark.parametrize(("op", "row"), [
    ("sum", [-0.0, -0.0]), ("max", [-np.inf, np.nan]), ("min", [np.inf, np.inf]),
    ("max", [-np.inf, -np.inf]),
])
def test_the_neutral_value_leaves_no_trace(op, row):
    x = te.placeholder((2,), "float32", "x")
    k = te.reduce_axis(2, "k")
    program = lower([te.compute((1,), lambda i: getattr(te, op)(x[k], k), "y")], "p")
    inputs = {"x": np.array(row, np.float32)}
    with np.errstate(invalid="ignore"):
        expected = interpret(program, inputs)["y"]
    found = build(program).compute(inputs)["y"]
    np.testing.assert_array_equal(found, expected)
    assert np.signbit(found) == np.signbit(expected) or np.isnan(expected)


def reducing_with_company() -> Stmt:
    """The loop over k holds more than the update, so each iteration decides for itself."""
    x, y, z = Buffer("x", (4, 5), "int32"), Buffer("y", (4,), "int32"), Buffer("z", (4, 5), "int32")
    pair = Seq((Store(z, (I, K), x[I, K] * 2), Update(y, (I,), "sum", z[I, K], (K,))))
    return For(I, 4, For(K, 5, pair))


def test_an_update_with_company():
    x, y, z = Buffer("x", (4, 5), "int32"), Buffer("y", (4,), "int32"), Buffer("z", (4, 5), "int32")
    assert_native_agrees(Program("p", (x,), (y, z), reducing_with_company()))


def test_a_reduction_that_began_outside():
    """The loop over l goes on with what the loop over k began."""
    x, y, z = Buffer("x", (3, 4), "int32"), Buffer("y", (2,), "int32"), Buffer("z", (3,), "int32")
    inner = For(J, 2, For(L, 4, Update(y, (J,), "sum", x[K, L] + J.astype("int32"), (K, L))))
    body = For(K, 3, Seq((Store(z, (K,), x[K, 0]), inner)))
    assert_native_agrees(Program("p", (x,), (y, z), body))


def test_one_statement_in_two_places_begins_in_both():
    x, y, s = Buffer("x", (6,), "int32"), Buffer("y", (2,), "int32"), Buffer("s", (1,), "int32")
    total = For(K, 6, Update(s, (Const(0, te.INDEX),), "sum", x[K], (K,)))
    body = Alloc(s, Seq((total, Store(y, (Const(0, te.INDEX),), s[0]),
                         total, Store(y, (Const(1, te.INDEX),), s[0]))))
    assert_native_agrees(Program("p", (x,), (y,), body))


def test_an_update_that_reads_its_own_buffer():
    """y[0] begins with what y[1] holds, so y[1] must not be prepared ahead of its time."""
    x, y = Buffer("x", (2,), "int32"), Buffer("y", (2,), "int32")
    value = te.select(I < 1, y[1 - I], x[I])
    body = Seq((For(J, 2, Store(y, (J,), x[J] + 5)),
                For(K, 3, For(I, 2, Update(y, (I,), "sum", value, (K,))))))
    assert_native_agrees(Program("p", (x,), (y,), body))


def test_a_guarded_reduction_begins_under_its_guard():
    x, y = Buffer("x", (4,), "int32"), Buffer("y", (4,), "int32")
    update = If(I + K < 2, Update(y, (I,), "sum", x[K], (K,)))
    body = Seq((For(J, 4, Store(y, (J,), x[J] + 5)), For(I, 4, For(K, 3, update))))
    assert_native_agrees(Program("p", (x,), (y,), body))


def test_an_update_without_reduction_variables_assigns():
    x, y = Buffer("x", (3,), "int32"), Buffer("y", (3,), "int32")
    assert_native_agrees(Program("p", (x,), (y,), For(I, 3, Update(y, (I,), "max", x[I], ()))))


def test_padding_does_not_read_outside():
    """The page before and after the array cannot be read."""
    x = te.placeholder((1 << 14,), "int8", "x")
    extent, reach = 1 << 14, 1 << 13
    program = lower([te.compute((extent + 2 * reach,), lambda i: te.select(
        te.all_of(i >= reach, i < extent + reach), x[i - reach], 7), "y")], "pad")
    assert_native_agrees(program)
    assert "load i8" in build(program).text and "select" not in build(program).text


def test_a_side_that_is_not_chosen_is_not_divided():
    x = te.placeholder((5,), "int32", "x")
    program = lower([te.compute((5,), lambda i: te.select(
        x[i].not_equal(0), te.const(12, "int32") // x[i], -1), "y")], "p")
    assert_native_agrees(program, {"x": np.array([0, 1, 0, -5, 12], np.int32)})


def test_records():
    p, q = te.placeholder((6,), PAIR, "p"), te.placeholder((6,), PAIR, "q")
    mixed = te.compute((6,), lambda i: te.select(
        p[i].flag, p[i].large + p[i].small.astype("float64"), q[5 - i].large), "y")
    whole = te.compute((6,), lambda i: te.select(p[i].flag, p[i], q[i]), "z")
    program = lower([mixed, whole], "records")
    data = np.zeros((2, 6), te.numpy_dtype(PAIR))
    data["small"], data["large"] = np.arange(12).reshape(2, 6), np.arange(12).reshape(2, 6) / 3
    data["flag"] = np.arange(12).reshape(2, 6) % 3 == 0
    found = build(program).compute({"p": data[0], "q": data[1]})
    flags = data["flag"][0]
    np.testing.assert_array_equal(
        found["y"], np.where(flags, data["large"][0] + data["small"][0], data["large"][1][::-1]))
    np.testing.assert_array_equal(found["z"], np.where(flags, data[0], data[1]))


@pytest.mark.parametrize("elements", [16, 1 << 12, 1 << 15])
def test_local_buffers_on_the_stack_and_off_it(elements):
    x = te.placeholder((elements,), "float32", "x")
    twice = te.compute((elements,), lambda i: x[i] * 2.0, "twice")
    program = lower([te.compute((elements,), lambda i: twice[elements - 1 - i] + 1.0, "y")], "p")
    assert_native_agrees(program)
    assert ("aligned_alloc" in build(program).text) == (elements > 1 << 12)


def test_many_small_local_buffers_do_not_overflow_the_stack():
    x = tensor = te.placeholder((4096,), "float32", "x")
    for stage in range(30):
        source = tensor
        tensor = te.compute((4096,), lambda i: source[4095 - i] + 1.0, f"t{stage}")     # noqa: B023
    program = lower([tensor], "chain")
    assert x.shape == (4096,) and 0 < build(program).text.count("call noalias") < 29
    assert_native_agrees(program)


def test_no_memory_for_local_buffers():
    huge, y = Buffer("huge", (1 << 50,), "int64"), Buffer("y", (100,), "int64")
    body = Seq((For(I, 100, Store(huge, (I * I,), I)), For(J, 100, Store(y, (J,), huge[J * J]))))
    kernel = build(Program("greedy", (), (y,), Alloc(huge, body)))
    assert kernel.text.count("@free(ptr %huge") == 2
    result = np.full(100, 5)
    with pytest.raises(MemoryError, match="^greedy cannot allocate its local buffers$"):
        kernel(result)
    assert (result == 5).all()


def test_a_tensorized_statement_is_its_body():
    y = Buffer("y", (3,), "int64")
    body = Tensorized(None, Binding(()), For(I, 3, Store(y, (I,), I * 2)))
    assert build(Program("p", (), (y,), body)).compute({})["y"].tolist() == [0, 2, 4]


def test_guards_and_virtual_threads():
    y = Buffer("y", (8,), "int64")
    store = If(I * 3 + J < 8, Store(y, (I * 3 + J,), I - J))
    program = Program("p", (), (y,), For(I, 3, For(J, 3, store), "virtual_thread"))
    assert_native_agrees(program)


def test_awkward_names():
    y = Buffer("1 y-\N{GREEK SMALL LETTER ALPHA}", (3,), "int64")
    odd = Var("0.i'")
    assert_native_agrees(Program("p\n", (), (y,), For(odd, 3, Store(y, (odd,), odd + 1))))


def test_an_unknown_buffer_wrong():
    y, z = Buffer("y", (3,), "int64"), Buffer("z", (3,), "int64")
    with pytest.raises(ValueError, match="^Buffer z must be an input, an output or allocated "
                                         "around its use$"):
        build(Program("p", (), (y,), For(I, 3, Store(y, (I,), z[I]))))


def test_an_unbound_variable_wrong():
    y = Buffer("y", (3,), "int64")
    with pytest.raises(ValueError, match="^Variable j must be the index of a loop around its use$"):
        build(Program("p", (), (y,), For(I, 3, Store(y, (I,), J))))


@pytest.mark.parametrize("vectors", [True, False])
def test_what_a_choice_inside_a_condition_reads_is_not_read_elsewhere(vectors: bool) -> None:
    """The array ends at a page that cannot be accessed: a read beyond ends the process."""
    x, y = te.placeholder((4,), "float32", "x"), Buffer("y", (4096,), "float32")
    seen = te.select(I < 4, x[I], -1.0)
    body = For(I, 4096, Store(y, (I,), te.select(seen > 0.0, x[I] * 2.0, 7.0)),
               "vectorize" if vectors else "serial")
    kernel = build(Program("f", (x.buffer,), (y,), body))
    given, found = placed((4,), "float32", True), np.empty(4096, np.float32)
    given[:] = [1, -2, 3, -4]
    kernel(given, found)
    np.testing.assert_array_equal(found, [2, 7, 6, 7, *[7] * 4092])


def test_a_side_that_reads_what_the_condition_reads_needs_no_branch() -> None:
    x = te.placeholder((16,), "float32", "x")
    s = Schedule([te.compute((16,), lambda i: te.select(x[i] > 0.0, x[i] * 2.0, 7.0), "y")])
    s["y"].vectorize("i")
    text = build(s.program).text
    assert "masked" not in text
    assert "select <16 x i1>" in text
