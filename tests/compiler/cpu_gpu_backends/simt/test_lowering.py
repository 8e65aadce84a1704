"""From loop programs to kernels: text, barriers, vectors, copies, and what is refused."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from tests.support.gpu_schedules import (MatmulTiles, matmul, matmul_bytes,
                                                     matmul_tensor_cores, reduce_rows,
                                                     schedule_bytes, schedule_elementwise,
                                                     schedule_matmul, schedule_reduce_rows,
                                                     schedule_softmax, schedule_tensor_cores,
                                                     schedule_transpose, softmax, transpose)
from compiler.cpu_gpu_backends.intrinsics.gpu import load_fragment, mma
from compiler.cpu_gpu_backends.simt.generate import generate, generate_all
from compiler.cpu_gpu_backends.simt.kernels import SimtError
from compiler.cpu_gpu_backends.simt.lowering import lower
from compiler.errors import ArgumentError
from compiler.ir import (Alloc, For, If, Program, Seq, Stmt, Store, Update, rewrite_stmts,
                         substitute_stmt)
from compiler.schedule import Schedule
from compiler.te import INDEX, Buffer, Const, Read, Var
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice

SHOWN = {
    "transpose": lambda: schedule_transpose(transpose(64, 50, "float32"), "transpose"),
    "matmul": lambda: schedule_matmul(matmul(64, 64, 32, "float32"), "matmul",
                                      MatmulTiles(lanes=4)),
    "matmul_pipelined": lambda: schedule_matmul(matmul(64, 64, 32, "float32"), "matmul_pipelined",
                                                MatmulTiles(stages=2, lanes=4)),
    "softmax": lambda: schedule_softmax(softmax(4, 200), "softmax"),
    "matmul_bytes": lambda: schedule_bytes(matmul_bytes(32, 32, 16), "matmul_bytes"),
    "matmul_tensor_cores": lambda: schedule_tensor_cores(
        matmul_tensor_cores(70, 64, 64, "f16", transposed="b"), "matmul_tensor_cores"),
}

ENDING = {"cuda": "cu", "opencl": "cl", "metal": "metal"}


@pytest.mark.parametrize(("name", "dialect"), [
    *((name, "cuda") for name in SHOWN),
    *((name, "opencl") for name in SHOWN if name not in ("matmul_bytes", "matmul_tensor_cores")),
    ("matmul", "metal"), ("softmax", "metal")])
def test_text_that_people_read(golden, name: str, dialect: str) -> None:
    text = generate(SHOWN[name]().program, dialect).text
    assert max(map(len, text.splitlines())) <= 100
    golden(f"simt/{name}.{ENDING[dialect]}", text)


# Small programs, written as trees

TX, BX = "threadIdx.x", "blockIdx.x"
I, J, K = Var("i"), Var("j"), Var("k")
X = Buffer("x", (64,), "float32")
Y = Buffer("y", (64,), "float32")
S = Buffer("s", (64,), "float32", "shared")


def kernel(body: Stmt, **options: bool):
    (one,) = lower(Program("p", (X,), (Y,), body), **options).kernels
    return one


def text(body: Stmt) -> str:
    return generate(Program("p", (X,), (Y,), body)).text.split("{\n", 1)[1].removesuffix("}\n")


def threads(body: Stmt, var: Var = I, extent: int = 64, kind: str = TX) -> For:
    return For(var, extent, body, kind)


def one_block(*stmts: Stmt) -> Stmt:
    """The statements in one kernel."""
    return For(Var("b"), 1, Seq(stmts), BX)


def barriers(body: Stmt) -> int:
    return text(body).count("__syncthreads();")


def shared(*stmts: Stmt) -> Stmt:
    return Alloc(S, Seq(stmts))


WRITE = threads(Store(S, (I,), X[I]))


def test_no_barrier_where_each_thread_uses_its_own() -> None:
    assert barriers(shared(WRITE, threads(Store(Y, (J,), S[J]), J))) == 0


def test_a_barrier_between_what_threads_exchange() -> None:
    assert barriers(shared(WRITE, threads(Store(Y, (J,), S[63 - J]), J))) == 1


def test_one_barrier_for_several_exchanges() -> None:
    t = replace(S, name="t")
    body = Alloc(t, shared(WRITE, threads(Store(t, (K,), X[K]), K),
                           threads(Store(Y, (J,), S[63 - J] + t[63 - J]), J)))
    assert barriers(body) == 1


def test_what_a_loop_carries_takes_a_barrier_at_its_beginning() -> None:
    body = shared(For(K, 4, Seq((WRITE, threads(Store(Y, (J,), S[63 - J]), J)))))
    found = text(body)
    assert found.count("__syncthreads();") == 2
    assert re.search(r"\+\+k\) \{\n    __syncthreads", found)


def test_a_barrier_stands_outside_of_loops_where_it_can() -> None:
    body = shared(WRITE, For(K, 4, threads(Store(Y, (J,), S[63 - J]), J)))
    assert re.search(r"^  __syncthreads\(\);\n  for \(int k", text(body), re.MULTILINE)


def test_a_barrier_parts_what_device_memory_passes_on() -> None:
    y = Read(Y, (63 - J,))
    body = one_block(threads(Store(Y, (I,), X[I])), threads(Store(Y, (J,), y), J, 32))
    assert barriers(body) == 1
    found = generate(Program("p", (X,), (Y,), body), "opencl").text
    assert "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);" in found


def test_two_halves_in_turns_take_one_barrier() -> None:
    t = Buffer("t", (2, 64), "float32", "shared")
    turn = K % 2
    body = Alloc(t, For(K, 8, Seq((threads(Store(t, (turn, I), X[I])),
                                   threads(Store(Y, (J,), t[turn, 63 - J]), J)))))
    assert barriers(body) == 1


def test_guards_that_threads_differ_in_make_room_for_a_barrier() -> None:
    row = Var("row")
    t = Buffer("t", (4, 16), "float32", "shared")
    inner = Seq((threads(Store(t, (row, I), X[I]), extent=16),
                 threads(Store(Y, (row * 16 + J,), t[row, 15 - J]), J, 16)))
    body = Alloc(t, threads(If(row < 3, inner), row, 4, "threadIdx.y"))
    assert text(body).splitlines()[-3:] == [
        "  if (ty < 3) t[ty][tx] = x[tx];", "  __syncthreads();",
        "  if (ty < 3) y[ty * 16 + tx] = t[ty][15 - tx];"]


def test_fewer_threads_than_the_block_has() -> None:
    body = one_block(threads(Store(Y, (I,), X[I])), threads(Store(Y, (J,), X[J]), J, 7))
    assert "if (tx < 7) y[tx] = x[tx];" in text(body)


def test_statements_outside_of_threads_are_done_once() -> None:
    body = one_block(Store(Y, (Const(0, INDEX),), X[0]), threads(Store(Y, (I,), X[I])))
    assert "  if (tx == 0) y[0] = x[0];\n" in text(body)


def test_statements_become_kernels_and_what_is_between_them_temporaries() -> None:
    t = Buffer("t", (64,), "float32")
    program = Program("p", (X,), (Y,), Alloc(t, Seq((
        threads(Store(t, (I,), X[I])), threads(threads(Store(Y, (K,), t[K]), K), J, 2, BX)))))
    code = generate(program)
    assert [launch.kernel for launch in code.launches] == ["k0_p", "k1_p"]
    assert code.temporaries == (t,) and code.launches[0].arguments == (X, t)
    assert (code.launches[1].grid, code.launches[1].block) == ((2, 1, 1), (64, 1, 1))


def test_names_are_those_of_c() -> None:
    tx, for_ = Var("tx"), Buffer("for", (64,), "float32")
    body = For(tx, 4, threads(Store(for_, (I,), X[I])))
    found = generate(Program("p", (X,), (for_,), body)).text
    assert "float* __restrict__ for_" in found and "for (int tx_ = 0;" in found


@pytest.mark.parametrize(("dtype", "lanes", "wanted"), [
    ("float32", 4, "*reinterpret_cast<float4*>(&y[tx * 4]) = "
                   "*reinterpret_cast<const float4*>(&x[tx * 4]);"),
    ("int8", 16, "*reinterpret_cast<uint4*>(&y[tx * 16]) = "
                 "*reinterpret_cast<const uint4*>(&x[tx * 16]);"),
    ("int8", 4, "*reinterpret_cast<char4*>(&y[tx * 4]) = "
                "*reinterpret_cast<const char4*>(&x[tx * 4]);"),
    ("float32", 8, "for (int lane = 0; lane < 8; ++lane) y[tx * 8 + lane] = x[tx * 8 + lane];")])
def test_vectors(dtype: str, lanes: int, wanted: str) -> None:
    x = te.placeholder((16 * lanes,), dtype, name="x")
    y = te.compute((16 * lanes,), lambda i: x[i], name="y")
    assert wanted in generate(schedule_elementwise(y, "copy", 16, lanes).program).text


def test_a_shifted_row_is_no_vector() -> None:
    x = te.placeholder((257,), "float32", name="x")
    y = te.compute((256,), lambda i: x[i + 1], name="y")
    assert "float4" not in generate(schedule_elementwise(y, "copy", 16, 4).program).text


@pytest.mark.parametrize(("dtype", "asynchronous"), [("float32", True), ("int8", False)])
def test_copies_are_asynchronous_where_an_instruction_has_their_size(dtype, asynchronous) -> None:
    schedule = schedule_matmul(matmul(32, 32, 32, dtype), "m", MatmulTiles(stages=1))
    assert ("async_wait<0>();" in generate(schedule.program).text) is asynchronous


@pytest.mark.parametrize(("threads_", "shuffled"), [(64, True), (32, True), (48, False)])
def test_whole_warps_reduce_by_shuffles(threads_: int, shuffled: bool) -> None:
    schedule = schedule_reduce_rows(reduce_rows("max", 3, 128, "float32"), "r", threads_)
    assert ("__shfl_xor_sync" in generate(schedule.program).text) is shuffled
    assert "shfl" not in generate(schedule.program, "opencl").text


def test_integers_wrap() -> None:
    a, b = (te.placeholder((64,), "int32", name=name) for name in "ab")
    y = te.compute((64,), lambda i: a[i] * b[i] + te.cast(i, "int32"), name="y")
    found = generate(schedule_elementwise(y, "wrap", 16).program).text
    assert "wrapping_add(wrapping_mul(a[" in found
    assert "return (int)((unsigned)a * (unsigned)b);" in found


# Refusals

def refused(body: Stmt, message: str, **options: bool) -> None:
    with pytest.raises(SimtError, match=f"^p: {re.escape(message)}\n"):
        lower(Program("p", (X,), (Y,), body), **options)


def test_a_type_that_processors_lack_wrong() -> None:
    x = te.placeholder((4,), "int64", name="x")
    y = te.compute((4,), lambda i: (x[i].astype("int48") + 1).astype("int64"), name="y")
    with pytest.raises(SimtError, match="^p: types must be those that processors have, not "
                                          "int48\n"):
        generate(Schedule([y], "p").program)


def test_too_many_threads_wrong() -> None:
    inner = threads(Store(Y, (I,), X[I]))
    refused(For(J, 32, inner, "threadIdx.y"),
            "threads of a block must be at most 1024, not 64 x 32 x 1")


def test_blocks_inside_of_a_loop_wrong() -> None:
    refused(For(K, 2, threads(Store(Y, (J,), X[J]), J, 64, BX), "unroll"),
            "blocks j must be outside of k")


def test_a_loop_of_another_machine_wrong() -> None:
    refused(For(K, 64, Store(Y, (K,), X[K]), "parallel"),
            "loop k must be bound to blocks or threads, not parallel")


def test_a_buffer_of_the_device_inside_of_a_kernel_wrong() -> None:
    t = Buffer("t", (64,), "float32")
    refused(threads(Alloc(t, Store(Y, (I,), X[I]))),
            "scope of t must be shared or local inside a kernel, not global")


def test_a_race_in_one_statement_wrong() -> None:
    refused(shared(threads(Store(S, (63 - I,), S[I]))),
            "threads must not meet in s where no barrier can part them:")


def test_all_threads_write_one_element_wrong() -> None:
    refused(threads(Store(Y, (Const(0, INDEX),), X[I])),
            "threads must not meet in y where no barrier can part them:")


def test_what_stands_between_threads_and_their_reduction_wrong() -> None:
    """A guard of the destination would be lost, a loop over it reduced as one."""
    guarded = If(K < 7, Update(Y, (K,), "sum", X[I], (I,)))
    inner = For(K, 8, Update(Y, (K,), "sum", X[I], (I,)))
    message = ("between the threads i and the reduction to y must be loops and guards of the "
               "reduction alone")
    refused(For(K, 8, threads(guarded)), message)
    refused(threads(inner), message)


def test_a_fragment_outside_of_intrinsics_wrong() -> None:
    y = te.placeholder((16, 8), "float32", name="x2")
    z = te.compute((16, 8), lambda i, j: y[i, j], name="z")
    held = Schedule([z], "p")
    held["z"].cache_write("fragment", name="held")
    held["held"].compute_at("z_i")
    with pytest.raises(SimtError, match=r"^p: held\[held_i, held_j\] of a fragment must be used by "
                                        r"the thread that holds it, held_i % 8\*4 \+ held_j % 8 "
                                        r"// 2 of threadIdx.x\n"):
        lower(held.program, intrinsics=True)
    held["held"].set_scope("fragment_a")
    with pytest.raises(SimtError, match="^p: held, a fragment of an operand, must be used by "
                                        "intrinsics alone\n"):
        lower(held.program, intrinsics=True)


def test_an_element_of_a_fragment_that_another_thread_holds_wrong() -> None:
    schedule = schedule_tensor_cores(matmul_tensor_cores(64, 64, 64, "f16"), "p")
    lane = Var("lane")
    other = rewrite_stmts(schedule.program.body, lambda s: substitute_stmt(
        s, {lane: 31 - lane}) if isinstance(s, Store) and s.buffer.name == "c" else None)
    with pytest.raises(SimtError, match="of a fragment must be used by the thread that holds it"):
        lower(replace(schedule.program, body=other), intrinsics=True)


def test_intrinsics_of_warps_need_warps_wrong() -> None:
    schedule = schedule_tensor_cores(matmul_tensor_cores(64, 64, 64, "f16"), "p")
    body = schedule.program.body

    def narrow(stmt: Stmt) -> Stmt | None:
        return replace(stmt, extent=16) if isinstance(stmt, For) and stmt.kind == TX else None

    with pytest.raises(SimtError, match="^p: threadIdx.x must be the 32 threads of a warp, not 16, "
                                        "around an intrinsic of warps\n"):
        lower(replace(schedule.program, body=rewrite_stmts(body, narrow)), intrinsics=True)


def test_a_kind_of_mma_that_there_is_not_wrong() -> None:
    with pytest.raises(ValueError, match="^Kind of mma must be one of f16, bf16, tf32, s8, "
                                         "not 'f64'$"):
        mma("f64")


def test_operands_of_mma_that_there_are_not_wrong() -> None:
    with pytest.raises(ValueError, match="^Operand of mma must be a or b, not 'c'$"):
        load_fragment("s8", "c")
    with pytest.raises(ValueError, match="^Operands that are transposed must have 16 bits, not 8$"):
        load_fragment("s8", "b", transposed=True)


def test_a_type_that_opencl_lacks_wrong() -> None:
    x = te.placeholder((64,), "float16", name="x")
    y = te.compute((64,), lambda i: x[i], name="y")
    with pytest.raises(ValueError, match="^Type of x must be one that opencl has, not float16$"):
        generate(schedule_elementwise(y, "p", 16).program, "opencl")


def test_a_type_in_between_that_a_dialect_lacks_is_refused() -> None:
    x = te.placeholder((64,), "float32", name="x")
    y = te.compute((64,), lambda i: te.cast(te.cast(x[i], "float16"), "float32"), name="y")
    with pytest.raises(SimtError, match="^p: types must be those that opencl has, not float16"):
        generate(schedule_elementwise(y, "p", 16).program, "opencl")


def scaled(name: str, inputs: Sequence[str], dtype: str = "float32"):
    """exp of a sum of vectors that are called like this, 128 elements a block."""
    xs = [te.placeholder((300,), dtype, name) for name in inputs]
    y = te.compute((300,), lambda i: te.exp(sum((x[i] for x in xs[1:]), xs[0][i])), "y")
    schedule = Schedule([y], name)
    block, thread = schedule[y].split("i", 128)
    schedule[y].bind(block, "blockIdx.x")
    schedule[y].bind(thread, "threadIdx.x")
    return schedule.program


TAKEN = """exp expf fabs int float4 uchar NAN INFINITY NULL main threadIdx asm operator get_group_id
    barrier printf errno stdin EOF y1 half linux unix M_PI CLK_LOCAL_MEM_FENCE convert_int std simt
    memcpy read_only uint8_t size_t vload4 abs isnan select event_t ulong longlong4 dim3
    wrapping_add mma_tile async_copy __device__""".split()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dialect, device", [("cuda", EmulatedDevice), ("opencl", OpenClDevice)])
def test_no_name_means_something_else_in_a_language(dialect: str, device) -> None:
    """Programs and buffers that are called like words, functions and types."""
    programs = [scaled(name, ["x"]) for name in ("main", "fadd", "int", "kernel", "ü", "a-b", "")]
    codes = generate_all([*programs, scaled("all", TAKEN)], dialect)
    if dialect == "cuda":
        compile_cuda(codes[0].text)
    x = np.linspace(-1, 1, 300, dtype=np.float32)
    for code, names in zip(codes, [["x"]] * len(programs) + [TAKEN], strict=True):
        found = compute(device(), code, {name: x / len(names) for name in names})["y"]
        np.testing.assert_allclose(found, np.exp(x), 1e-5)


def test_names_of_programs_differ_in_a_text() -> None:
    with pytest.raises(ArgumentError, match="^names of programs must differ, in ASCII letters, "
                                            "digits and _: 2 have a kernel k0_a_b$"):
        generate_all([scaled("a-b", ["x"]), scaled("a_b", ["x"])], "cuda")


def test_a_buffer_is_not_called_like_the_place_of_a_thread() -> None:
    with pytest.raises(SimtError, match="^p: buffer tx must have another name: places of threads "
                                        "and blocks are called bx, by, bz, tx, ty, tz\n"):
        generate(scaled("p", ["tx"]))


def test_a_dialect_that_is_none() -> None:
    message = "^dialect must be one of cuda, opencl, metal, not 'c'$"
    with pytest.raises(ArgumentError, match=message):
        generate(scaled("p", ["x"]), "c")
