"""Kinds of loops as native code: vectors with masks, threads, copies; reducers of one's own."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import (MACHINES, assembly, build, compile_object, emit,
                                            optimized)
from compiler.cpu_gpu_backends.llvm.objects.pool import LIBRARY, pool, set_threads
from compiler.ir import (Alloc, Barrier, Combine, For, If, Program, Seq, Store, Update, interpret,
                         lower, rewrite_stmts)
from compiler.schedule import Schedule, reorder, split
from compiler.te import Buffer, Const, Var
from tests.compiler.cpu_gpu_backends.checks import assert_native_agrees, marked, random_inputs

I, J, K, L = (Var(name) for name in "ijkl")
ZERO = Const(0, te.INDEX)


def product(dtype: str = "float32", rows: int = 5, inner: int = 7, columns: int = 6) -> Program:
    a, b = te.placeholder((rows, inner), dtype, "a"), te.placeholder((inner, columns), dtype, "b")
    k = te.reduce_axis(inner, "k")
    return lower([te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")],
                 "product")


def shifted(extent: int) -> Program:
    x, y = Buffer("x", (extent + 3,), "float32"), Buffer("y", (extent,), "float32")
    return Program("shifted", (x,), (y,), For(I, extent, Store(y, (I,), x[I + 3] * x[I])))


# Vectors

@pytest.mark.parametrize("extent", [1, 2, 3, 7, 8, 16, 31, 64, 65, 100, 127, 128, 129, 1000])
def test_vectors_of_any_length(extent):
    program = marked(shifted(extent), i="vectorize")
    assert_native_agrees(program)
    lanes = extent if extent <= 64 else 16
    assert extent == 1 or f"load <{lanes} x float>" in emit(program)


@pytest.mark.parametrize("order", ["ijk", "ikj", "kij"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "float32", "float64"])
def test_vectors_inside_and_outside_a_reduction(order, dtype):
    names = {"i": "c_i", "j": "c_j", "k": "k"}
    program = reorder(product(dtype), *(names[one] for one in order))
    for loop in ("c_i", "c_j"):
        assert_native_agrees(marked(program, **{loop: "vectorize"}))


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_tails_are_masked(factor):
    program = split(reorder(product(columns=13), "k", "c_j"), "c_j", factor)
    program = marked(program, c_j_i="vectorize")
    assert_native_agrees(program)
    assert "llvm.masked.load" in emit(program) and "llvm.masked.store" in emit(program)


def test_rows_columns_and_gathers():
    """Steps of 1, 2, -1 and of a whole row, and places that data choose."""
    x, y = Buffer("x", (20, 40), "int16"), Buffer("y", (20, 20), "int16")
    at = Buffer("at", (20,), "int32")
    where = te.cast(at[J], te.INDEX)
    value = (x[I, J] + x[I, 2 * J] * 3 - x[I, 19 - J] * 5 + x[J, I] * 7 + x[J, where] * 11
             + x[where, J] + x[I, (J * 3) % 20] * 13 + x[I, I])
    body = For(I, 20, For(J, 20, Store(y, (I, J), value)))
    program = Program("p", (x, at), (y,), body)
    inputs = random_inputs(program)
    inputs["at"] = np.random.default_rng(1).permutation(20).astype(np.int32)
    for loop in "ij":
        assert_native_agrees(marked(program, **{loop: "vectorize"}), inputs)
    scattered = Program("p", (x,), (y,), For(I, 20, For(J, 20, Store(y, (J, 19 - I), x[I, J]))))
    for loop in "ij":
        assert_native_agrees(marked(scattered, **{loop: "vectorize"}))


def test_conditions_in_lanes():
    x, y, z = (Buffer(name, (37,), "int32") for name in "xyz")
    inner = If((I % 3).equal(1), Store(z, (I,), x[I] // te.maximum(x[I] - 3, 1)))
    body = For(I, 37, Seq((Store(y, (I,), te.select(x[I] > 0, x[I], -x[I])),
                           Store(z, (I,), y[I] + 1), If(x[I] < 2, inner))))
    assert_native_agrees(marked(Program("p", (x,), (y, z), body), i="vectorize"))


def test_only_chosen_lanes_read():
    """Indices of the others are far outside."""
    x, y = Buffer("x", (40,), "int32"), Buffer("y", (64,), "int32")
    far = x[(I - 12) * te.select(I < 12, te.const(1 << 40, te.INDEX), 1)]
    for value in (x[I - 12], far, x[40 - (I - 11)], x[ZERO + 0 * I] + x[I - 12]):
        chosen = te.select(te.all_of(I >= 12, I < 52), value, 7)
        program = Program("p", (x,), (y,), For(I, 64, Store(y, (I,), chosen)))
        assert_native_agrees(marked(program, i="vectorize"))


def test_a_place_that_no_lane_chooses_is_not_read():
    x, y, n = (Buffer("x", (1,), "int32"), Buffer("y", (8,), "int32"),
               Buffer("n", (1,), te.INDEX))
    chosen = te.select(I < n[0], x[n[0] * (1 << 40)], 7)
    program = marked(Program("p", (x, n), (y,), For(I, 8, Store(y, (I,), chosen))), i="vectorize")
    assert_native_agrees(program, {"x": np.ones(1, np.int32), "n": np.zeros(1, np.int64)})


def test_conditions_as_data():
    x, y = Buffer("x", (21,), "bool"), Buffer("y", (21,), "bool")
    body = For(I, 21, If(I > 2, Store(y, (I,), te.all_of(x[I], x[20 - I]))))
    program = Program("p", (x,), (y,), Seq((For(J, 21, Store(y, (J,), x[J])), body)))
    assert_native_agrees(marked(program, i="vectorize", j="vectorize"))


def test_functions_in_lanes():
    x, y = Buffer("x", (11,), "float64"), Buffer("y", (11,), "float64")
    program = Program("p", (x,), (y,), For(I, 11, Store(y, (I,), te.tanh(x[I]))))
    plain, lanes = (build(one).compute(random_inputs(program))["y"]
                    for one in (program, marked(program, i="vectorize")))
    np.testing.assert_array_equal(plain, lanes)


@pytest.mark.parametrize("extent", [3, 8, 70])
def test_what_is_allocated_inside_is_each_lane_s_own(extent):
    x, y = Buffer("x", (extent, 5), "int32"), Buffer("y", (extent, 5), "int32")
    t, s = Buffer("t", (5,), "int32", "local"), Buffer("s", (1,), "int32", "local")
    fill = For(J, 5, Store(t, (4 - J,), x[I, J] * 3))
    total = For(K, 5, Update(s, (ZERO,), "sum", t[K], (K,)))
    at = te.cast(x[I, L] % 5, te.INDEX)                 # each lane reads a place of its own
    use = For(L, 5, If(x[I, L] > -5, Store(y, (I, L), s[0] + t[L] + t[at])))
    body = For(I, extent, Seq((For(Var("z"), 5, Store(y, (I, Var("z")), x[I, Var("z")])),
                               Alloc(t, Alloc(s, Seq((fill, total, use)))))))
    program = marked(Program("p", (x,), (y,), body), i="vectorize")
    assert "x i32>" in emit(program)
    assert_native_agrees(program)


@pytest.mark.parametrize("change", ["reduction", "one place", "inside vectors"])
def test_what_cannot_be_vectors_runs_as_loops(change):
    x, y, t = Buffer("x", (6, 6), "int32"), Buffer("y", (6,), "int32"), Buffer("t", (1,), "int32")
    z = Buffer("z", (6, 6), "int32")
    total = For(I, 6, For(K, 6, Update(y, (I,), "sum", x[I, K], (K,))))
    shared = Alloc(t, For(I, 6, Seq((Store(t, (ZERO,), x[I, 0]), Store(y, (I,), t[0] * 2)))))
    nest = For(I, 6, For(J, 6, Store(z, (I, J), x[I, J] + 1)))
    programs = {"reduction": marked(Program("p", (x,), (y,), total), k="vectorize"),
                "one place": marked(Program("p", (x,), (y,), shared), i="vectorize"),
                "inside vectors": marked(Program("p", (x,), (z,), nest), i="vectorize",
                                         j="vectorize")}
    assert_native_agrees(programs[change])


def test_gaps_between_rows():
    x, y = Buffer("x", (5, 9), "int32"), Buffer("y", (5, 9), "int32")
    t = Buffer("t", (5, 9), "int32", strides=(16, 1))
    body = Alloc(t, Seq((For(I, 5, For(J, 9, Store(t, (I, J), x[I, J] * 2))),
                         For(K, 5, For(L, 9, Store(y, (K, L), t[4 - K, L]))))))
    program = Program("p", (x,), (y,), body)
    assert_native_agrees(program)
    assert_native_agrees(marked(program, j="vectorize", l="vectorize"))


# Products that are fused with sums

def test_fused_products():
    program = marked(product(columns=16), c_j="vectorize")
    assert "contract" not in emit(program)
    machine = MACHINES["x86-64-v3"]
    assert "fmul contract <16 x float>" in optimized(emit(program, machine, True), machine)
    rng = np.random.default_rng(0)
    inputs = {b.name: rng.normal(size=b.shape).astype(np.float32) for b in program.inputs}
    a, b = (inputs[name].astype(np.float64) for name in "ab")
    bound = (a.shape[1] + 1) * np.finfo(np.float32).eps * (abs(a) @ abs(b))
    assert (abs(build(program, contract=True).compute(inputs)["c"] - a @ b) <= bound).all()


def test_fusing_leaves_integers_alone():
    for dtype in ("int8", "int32", "uint16"):
        assert emit(product(dtype), contract=True) == emit(product(dtype))


def test_accumulators_stay_in_registers():
    """Eight rows of two vectors, by a schedule alone: 16 fused products a step, nothing spilled."""
    s = Schedule(product(rows=8, inner=64, columns=32))
    total = s["c"].cache_write("local")
    _, outer, _, inner = s["c"].tile("i", "j", 8, 32)
    total.compute_at(outer)
    total.reorder("k", "i", "j")
    total.unroll("i")
    total.vectorize("j")
    s["c"].vectorize(inner)
    machine = MACHINES["x86-64-v4"]
    code = assembly(emit(s.program, machine, contract=True), machine)
    assert code.count("vfmadd") == 16 and "rsp)" not in code
    assert_native_agrees(s.program)


# Copies

@pytest.mark.parametrize("extent", [2, 9, 5000])
def test_loops_that_are_written_out(extent):
    program = marked(shifted(extent), i="unroll")
    assert_native_agrees(program)
    assert ("phi" in emit(program)) == (extent == 5000) == ("llvm.loop.unroll" in emit(program))


def test_copies_of_a_reduction():
    for loops in (("c_i",), ("c_i", "c_j"), ("k",), ("c_i", "c_j", "k")):
        assert_native_agrees(marked(product(), **dict.fromkeys(loops, "unroll")))


def test_copies_share_their_scratch():
    program = with_scratch(64)
    program = marked(program, i="unroll", j="unroll")
    assert emit(program).count("alloca") == 1
    assert_native_agrees(program)


def test_axes_of_a_gpu_run_one_after_the_other():
    program = marked(product("int32"), c_i="blockIdx.x", c_j="threadIdx.x")
    assert_native_agrees(replace(program, body=Seq((Barrier(), program.body))))


# Threads

@pytest.mark.one_in(3)
@pytest.mark.parametrize("extent", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_share_the_iterations(extent, threads):
    program = marked(product("float32", rows=extent), c_i="parallel")

    def wanting(node):
        return replace(node, annotations=(("num_threads", threads),)) if (
            isinstance(node, For) and node.kind == "parallel") else None

    program = replace(program, body=rewrite_stmts(program.body, wanting))
    assert extent == 1 or f"i32 {threads}, i32 0)" in emit(program)
    assert_native_agrees(program)


def test_threads_inside_a_reduction():
    """The reduction begins outside of the loop that is shared out."""
    program = reorder(product("int32"), "k", "c_i", "c_j")
    for loop in ("c_i", "c_j"):
        assert_native_agrees(marked(program, **{loop: "parallel"}))


def test_threads_of_vectors_and_vectors_of_threads():
    assert_native_agrees(marked(product(), c_i="parallel", c_j="vectorize"))
    assert_native_agrees(marked(product(), c_i="vectorize", c_j="parallel"))
    assert_native_agrees(marked(product(), c_i="parallel", c_j="parallel"))


def with_scratch(elements: int) -> Program:
    """Each iteration has a buffer of its own."""
    x, y = Buffer("x", (8, elements), "int32"), Buffer("y", (8, elements), "int32")
    t = Buffer("t", (elements,), "int32")
    body = Alloc(t, Seq((For(J, elements, Store(t, (J,), x[I, J] + 1)),
                         For(K, elements, Store(y, (I, K), t[elements - 1 - K])))))
    return Program("scratch", (x,), (y,), For(I, 8, body, "parallel"))


@pytest.mark.parametrize("elements", [16, 1 << 14])
def test_every_thread_has_its_own_scratch(elements):
    assert_native_agrees(with_scratch(elements))


def test_no_memory_for_the_scratch_of_a_thread():
    huge, y, z = (Buffer("huge", (1 << 50,), "int64"), Buffer("y", (100,), "int64"),
                  Buffer("z", (20000,), "int64"))
    body = Alloc(huge, Seq((For(L, 100, Store(huge, (L * L,), L)), Store(y, (I,), huge[I * I]))))
    outside = Alloc(z, Seq((For(K, 20000, Store(z, (K,), K)), For(I, 100, body, "parallel"),
                            For(J, 100, Store(y, (J,), y[J] + z[J])))))
    with pytest.raises(MemoryError, match="^greedy cannot allocate its local buffers$"):
        build(Program("greedy", (), (y,), outside))(np.full(100, 5))


def test_several_threads_of_the_host_at_once():
    kernel = build(marked(product("int32", rows=64), c_i="parallel"))
    inputs = random_inputs(kernel.program)
    expected = interpret(kernel.program, inputs)["c"]
    with ThreadPoolExecutor(4) as host:
        for found in host.map(lambda n: kernel.compute({**inputs, "a": inputs["a"] * n})["c"],
                              [1] * 100):
            np.testing.assert_array_equal(found, expected)


def test_the_number_of_threads():
    before = pool().threads
    set_threads(3)
    assert pool().threads == 3
    set_threads(before)
    with pytest.raises(ValueError, match="^Number of threads must be positive, not 0$"):
        set_threads(0)


FORKED = """
import os
import numpy as np
from tests.compiler.cpu_gpu_backends.llvm.emitting.test_loops import (
    build, marked, product, set_threads)
kernel = build(marked(product("int32", rows=64), c_i="parallel"))
set_threads(4)
ones = {"a": np.ones((64, 7), np.int32), "b": np.ones((7, 6), np.int32)}
assert (kernel.compute(ones)["c"] == 7).all()
child = os.fork()
if child == 0:
    os._exit(0 if (kernel.compute(ones)["c"] == 7).all() else 1)
assert os.waitpid(child, 0)[1] == 0
assert (kernel.compute(ones)["c"] == 7).all()
"""


def test_a_process_that_was_forked_goes_on_alone():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)


def test_without_libgomp():
    environment = {**os.environ, LIBRARY: "none"}
    said = subprocess.run([sys.executable, "-c", FORKED], env=environment, check=True, timeout=60,
                          capture_output=True, text=True).stderr
    assert (f"PoolWarning: Parallel loops run on one thread: libgomp could not be loaded "
            f"({LIBRARY} is 'none'); install libgomp1, or name its file in {LIBRARY}") in said
    assert said.count("PoolWarning") == 1


def test_parallel_loops_on_other_machines():
    program = {"product": marked(product(), c_i="parallel")}
    assert b"GOMP_parallel" in compile_object(program, MACHINES["aarch64"])
    assert b"GOMP_parallel" not in compile_object(program, MACHINES["wasm32"])


# Reducers of one's own

def later_if_larger(left, right):
    better = te.any_of(right[0] > left[0],
                       te.all_of(right[0].equal(left[0]), right[1] < left[1]))
    return te.select(better, right[0], left[0]), te.select(better, right[1], left[1])


def argmax(rows: int, columns: int, dtype: str) -> Program:
    reducer = te.reducer("argmax", later_if_larger,
                         (te.const(-100, dtype), te.const((1 << 63) - 1, te.INDEX)))
    x = Buffer("x", (rows, columns), dtype)
    best, place = Buffer("best", (rows,), dtype), Buffer("place", (rows,), te.INDEX)
    combine = Combine((best, place), (I,), reducer, (x[I, K], K), (K,))
    return Program("argmax", (x,), (best, place), For(I, rows, For(K, columns, combine)))


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
@pytest.mark.parametrize("kinds", [{}, {"i": "vectorize"}, {"i": "parallel"}, {"k": "unroll"},
                                   {"k": "vectorize"}])
def test_the_place_of_the_largest(dtype, kinds):
    program = argmax(13, 9, dtype)
    assert_native_agrees(marked(program, **kinds))
    assert_native_agrees(reorder(program, "k", "i") if not kinds else marked(program, **kinds))


def test_a_reducer_without_reduction_assigns():
    program = argmax(13, 9, "int8")
    loop = program.body
    assert isinstance(loop, For)
    body = rewrite_stmts(loop.body, lambda s: replace(s, axes=())
                         if isinstance(s, Combine) else None)
    assert_native_agrees(replace(program, body=replace(loop, body=body)))


def test_a_type_that_processors_lack_is_refused():
    x = te.placeholder((4,), "int64", name="x")
    y = te.compute((4,), lambda i: (x[i].astype("int48") + 1).astype("int64"), name="y")
    with pytest.raises(TypeError, match="^Type of an element must be one that processors have, "
                                        "not int48$"):
        emit(lower([y], "main"))
