"""Programs whose extents are known when they run: one kernel for all sizes."""

import subprocess

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import MACHINES, build, compile_object, header
from compiler.ir import For, If, Program, Seq, Store, interpret, lower
from compiler.schedule import parallel, reorder, vectorize
from compiler.te import Buffer, Var
from tests.compiler.cpu_gpu_backends.checks import marked
from tests.compiler.cpu_gpu_backends.llvm.objects.test_export import needs_c

N, M = te.symbol("n"), te.symbol("m")
I, J = Var("i"), Var("j")
SIZES = ((1, 1), (1, 5), (3, 2), (5, 7), (16, 16), (17, 33), (40, 64), (7, 65))


def product() -> Program:
    """Through scratch of a size that is not known."""
    a, b = te.placeholder((N, M), "float32", "a"), te.placeholder((M, 17), "float32", "b")
    k = te.reduce_axis(M, "k")
    twice = te.compute((N, M), lambda i, j: a[i, j] * 2.0, "twice")
    return lower([te.compute((N, 17), lambda i, j: te.sum(twice[i, k] * b[k, j], k), "c")],
                 "product")


def assert_same(program: Program, shapes: dict[str, tuple[int, ...]], **symbols: int) -> None:
    rng = np.random.default_rng(0)
    inputs = {b.name: rng.integers(-9, 9, shapes[b.name]).astype(b.dtype) for b in program.inputs}
    expected = interpret(program, inputs, symbols)
    found = build(program).compute(inputs, **symbols)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("size", SIZES)
def test_one_kernel_for_all_sizes(size):
    plain = product()
    fast = vectorize(parallel(reorder(plain, "k", "c_j"), "c_i"), "c_j")
    fast = marked(fast, twice_j="vectorize", twice_i="parallel")
    for program in (plain, fast, marked(plain, c_i="vectorize", twice_i="unroll")):
        assert_same(program, {"a": size, "b": (size[1], 17)})


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 100, 257])
def test_vectors_of_any_number(n):
    """Whole vectors and one that is masked, also of columns."""
    x, y = Buffer("x", (N, N), "int16"), Buffer("y", (N, N), "int16")
    body = For(I, N, For(J, N, Store(y, (I, J), x[J, I] * 3 + J.astype("int16"))))
    program = Program("turned", (x,), (y,), body, (N,))
    for loop in "ij":
        assert_same(marked(program, **{loop: "vectorize"}), {"x": (n, n)})


@pytest.mark.parametrize("n", [1, 7, 8, 9, 30])
def test_loops_that_may_not_run(n):
    x, y = Buffer("x", (N,), "int32"), Buffer("y", (N,), "int32")
    place = I * 8 + J
    cut = For(I, (N + 7) // 8, For(J, 8, If(place < N, Store(y, (place,), x[place] + 1))))
    short = For(I, N - 1, Store(y, (I + 1,), x[I]))
    first = For(J, 1, Store(y, (J,), x[J] * 2))
    for kinds in ({}, {"j": "vectorize"}, {"i": "parallel"}, {"i": "vectorize"}):
        assert_same(marked(Program("cut", (x,), (y,), cut, (N,)), **kinds), {"x": (n,)})
        rest = Seq((first, short))
        assert_same(marked(Program("short", (x,), (y,), rest, (N,)), **kinds), {"x": (n,)})


def test_a_parameter_that_no_shape_says():
    y = Buffer("y", (N * 2,), te.INDEX)
    program = Program("count", (), (y,), For(I, N * 2, Store(y, (I,), I + N)), (N,))
    assert build(program).compute({}, n=3)["y"].tolist() == [3, 4, 5, 6, 7, 8]


MAIN = r"""
#include <stdio.h>
#include "kernels.h"
int main(void) {
    float a[6] = {1, 2, 3, 4, 5, 6}, b[51], c[34];
    for (int i = 0; i < 51; i++) b[i] = 1;
    if (product(a, b, c, 2, 3)) return 1;
    printf("%g %g", c[0], c[33]);
    return 0;
}
"""


@needs_c
def test_parameters_follow_the_arrays_in_c(tmp_path):
    programs = {"product": product()}
    text = header(programs)
    assert ("/* (a: float32[n, m], b: float32[m, 17]) -> c: float32[n, 17] */\n"
            "int32_t product(const float *a, const float *b, float *c, int64_t n, int64_t m);"
            ) in text
    (tmp_path / "kernels.o").write_bytes(compile_object(programs))
    (tmp_path / "kernels.h").write_text(text)
    (tmp_path / "main.c").write_text(MAIN)
    subprocess.run(["gcc", "-Wall", "-Werror", "main.c", "kernels.o", "-o", "main"],
                   cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert said.stdout == "12 30"


@pytest.mark.parametrize("machine", ["aarch64", "riscv64", "wasm32"])
def test_scratch_of_any_size_on_other_machines(machine):
    assert compile_object({"product": product()}, MACHINES[machine])


X = np.ones((3, 4), np.float32)


@pytest.mark.parametrize(("symbols", "arrays", "message"), [
    ({}, {"a": X, "b": X}, "Array b must be float32[4, 17], not float32[3, 4]"),
    ({"n": 4}, {"a": X, "b": np.ones((4, 17), np.float32)},
     "Array a must be float32[4, 4], not float32[3, 4]"),
    ({"k": 4}, {"a": X, "b": X}, "Parameter of product must be one of n, m, not 'k'"),
    ({"n": 0}, {"a": X, "b": X},
     "Parameter n of product must be given, a positive integer, not 0"),
])
def test_parameters_wrong(symbols, arrays, message):
    with pytest.raises(ValueError) as refusal:      # noqa: PT011 - the whole message is compared
        build(product()).compute(arrays, **symbols)
    assert str(refusal.value) == message
