"""Tiles by the processor's own instructions: exact, windows of anything, replaced where missing."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu.arrays import aligned
from tests.support.product_templates import TEMPLATES, in_panels, product
from compiler.cpu_gpu_backends.cpu.schedules.schedule import schedule
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import ANY, AVX2, AVX512, NEON
from compiler.cpu_gpu_backends.intrinsics.cpu import (amx, amx_bf16, dot, dot_by_steps,
                                                      dot_of_words, fp32)
from compiler.cpu_gpu_backends.llvm import (MACHINES, MachineError, build, compile_object, emit,
                                            header, host)
from compiler.cpu_gpu_backends.llvm.emitting import amx as tiles
from compiler.cpu_gpu_backends.llvm.machine import WITHOUT
from compiler.graph.reference import evaluate_node
from compiler.ir import Program, interpret, lower
from compiler.ops.records.node import Node
from compiler.ops.registry import expression
from compiler.schedule import Schedule, ScheduleError, parallel
from compiler.tensorize import Intrinsic
from tests.compiler.cpu_gpu_backends.llvm.objects.test_export import EMULATOR, cross_compile

X86 = [name for name in TEMPLATES if name != "neon_dot"]
MARKS = {"fp32_avx512": "<16 x float>", "fp32_avx2": "<8 x float>",
         "vnni": "vpdpbusd.512", "avx_vnni": "vpdpbusd.256", "amx": "tdpbssd",
         "amx_bf16": "tdpbf16ps", "neon_dot": "neon.sdot"}


def needs(kind: str) -> tuple[str, ...]:
    way = TEMPLATES[kind]
    return way.intrinsic(way.rows, way.columns, 64).needs


def skip_without(*features: str) -> None:
    if missing := [one for one in features if not host().has(one)]:
        pytest.skip(f"needs a processor with {', '.join(missing)}")


def random_operands(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Extreme bytes, and floats whose products and sums are exact."""
    rng, operands = np.random.default_rng(seed), {}
    for buffer in program.inputs:
        dtype = te.numpy_dtype(buffer.dtype)
        low, high = (-16, 17) if te.is_float(buffer.dtype) else (
            np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
        operands[buffer.name] = rng.integers(low, high, buffer.shape).astype(dtype)
    return operands


def assert_exact(program: Program, machine=None, strict: bool = True) -> None:
    inputs = random_operands(program)
    expected = interpret(program, inputs)
    kernel = build(program, machine, contract=True, strict=strict)
    for name, found in kernel.compute(inputs).items():
        np.testing.assert_array_equal(found, expected[name])


# Every kind of product

@pytest.mark.one_in(2)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", X86)
def test_products(kind, packed):
    skip_without(*needs(kind))
    way = TEMPLATES[kind]
    program = product(kind, 2 * way.rows, 2 * way.columns, 128, packed)
    assert MARKS[kind] in emit(program, contract=True)
    assert_exact(program)


@pytest.mark.parametrize("kind", [kind for kind in X86 if TEMPLATES[kind].depth == 256])
def test_products_whose_depth_is_cut(kind):
    skip_without(*needs(kind))
    way = TEMPLATES[kind]
    assert_exact(product(kind, way.rows, way.columns, 512))


@pytest.mark.parametrize("kind", TEMPLATES)
def test_what_a_machine_lacks_is_replaced_by_the_nest(kind):
    program = product(kind, TEMPLATES[kind].rows, TEMPLATES[kind].columns, 64)
    gone = [one for one in needs(kind) if host().has(one)]
    machine = host().without(*gone)
    assert MARKS[kind] not in emit(program, machine, contract=True)
    assert_exact(program, machine, strict=False)


@pytest.mark.parametrize("kind", X86)
def test_the_environment_takes_features_away(kind, monkeypatch):
    skip_without(*needs(kind))
    program = product(kind, TEMPLATES[kind].rows, TEMPLATES[kind].columns, 64)
    monkeypatch.setenv(WITHOUT, ",".join(needs(kind)))
    assert MARKS[kind] not in emit(program, contract=True)
    assert_exact(program, strict=False)


def test_strictly_what_a_machine_lacks_is_refused():
    program = product("amx", 32, 32, 64)
    machine = replace(MACHINES["x86-64-v4"], triple=host().triple)
    with pytest.raises(MachineError) as refusal:
        build(program, machine, strict=True)
    assert str(refusal.value) == (
        "amx_int8_int8_32x32x64 in product needs amx-int8, amx-tile, which this processor lacks "
        "or was told to do without (LOCKSTEP_CPU_WITHOUT)")


def test_bfloat16_runs_in_tiles_on_demand_only():
    """They add in an order of their own."""
    skip_without(*needs("amx_bf16"))
    program = product("amx_bf16", 32, 32, 96)
    assert "tdpbf16ps" not in emit(program) and "tdpbf16ps" in emit(program, contract=True)
    rng = np.random.default_rng(0)
    inputs = {b.name: rng.normal(size=b.shape).astype(te.numpy_dtype(b.dtype))
              for b in program.inputs}
    np.testing.assert_array_equal(build(program).compute(inputs)["c"],
                                  interpret(program, inputs)["c"])
    a, b = inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)
    b = b.transpose(1, 3, 0, 2).reshape(96, 32)
    bound = 97 * np.finfo(np.float32).eps * (abs(a) @ abs(b))
    assert (abs(build(program, contract=True).compute(inputs)["c"] - a @ b) <= bound).all()


def test_floats_are_fused_on_demand_only():
    skip_without(*needs("fp32_avx2"))
    program = product("fp32_avx2", 4, 16, 64)
    assert "contract" not in emit(program)
    assert "fmul contract <8 x float>" in emit(program, contract=True)
    rng = np.random.default_rng(0)
    inputs = {b.name: rng.normal(size=b.shape).astype(np.float32) for b in program.inputs}
    np.testing.assert_array_equal(build(program).compute(inputs)["c"],
                                  interpret(program, inputs)["c"])
    a, b = inputs["a"].astype(np.float64), inputs["b"].transpose(1, 0, 2).reshape(64, 16)
    bound = 65 * np.finfo(np.float32).eps * (abs(a) @ abs(b))
    assert (abs(build(program, contract=True).compute(inputs)["c"] - a @ b) <= bound).all()


# Tiles and windows

def tiled(intrinsic: Intrinsic, shape: tuple[int, int], at: tuple[int, int], cuts: int = 1,
          scope: str = "global") -> Program:
    """The intrinsic on a window of larger buffers, its depth in `cuts` pieces."""
    (rows, columns), a, b = intrinsic.dst.shape, *intrinsic.operands
    depth, together = a.shape[1] * cuts, b.shape[2] if len(b.shape) == 3 else 1
    x = te.placeholder((at[0] + rows, depth + 8), a.dtype, "x")
    y = te.placeholder((depth // together, at[1] + columns + 3, together)[:len(b.shape)],
                       b.dtype, "y")
    k, t = te.reduce_axis(depth // together, "k"), te.reduce_axis(together, "t")
    dtype = intrinsic.dst.dtype
    if together == 1:
        c = te.compute((rows, columns), lambda i, j: te.sum(
            x[i + at[0], k + 8] * y[k, j + at[1]], k), "c")
    else:
        c = te.compute((rows, columns), lambda i, j: te.sum(
            x[i + at[0], together * k + t.var + 8].astype(dtype)
            * y[k, j + at[1], t].astype(dtype), (k, t)), "c")
    d = te.compute(shape, lambda i, j: c[i % rows, j % columns] + te.const(1, dtype), "d")
    s = Schedule([d], "tiled")
    stage = s[c]
    outer, inner = stage.split("k", depth // together // cuts)
    steps = (inner,) if together == 1 else (inner, "t")
    stage.reorder(outer, "i", "j", *steps)
    stage.tensorize("i", intrinsic)
    if scope != "global":
        stage.set_scope(scope)
    return s.program


TILES = [
    *((fp32(rows, columns, depth, 16), ("avx512f",))
      for rows, columns, depth in ((1, 16, 1), (3, 16, 5), (6, 64, 7), (14, 32, 3))),
    *((fp32(rows, columns, depth, 8), ("avx2", "fma"))
      for rows, columns, depth in ((1, 8, 1), (6, 16, 9), (5, 24, 2))),
    *((dot(rows, columns, depth, "uint8", 16), ("avx512vnni",))
      for rows, columns, depth in ((1, 16, 4), (5, 48, 12), (8, 32, 20))),
    *((dot(rows, columns, depth, "uint8", 8), ("avxvnni",))
      for rows, columns, depth in ((1, 8, 4), (6, 16, 12))),
    *((dot_of_words(rows, columns, depth, vectors), (feature,))
      for rows, columns, depth, vectors, feature in (
          (1, 16, 4, AVX512, "avx512bw"), (1, 16, 4, AVX2, "avx2"), (5, 24, 12, AVX2, "avx2"),
          (3, 16, 20, ANY, "sse2"))),
    *((replace(dot_by_steps(rows, columns, depth), needs=()), ())       # any processor runs it
      for rows, columns, depth in ((1, 16, 4), (5, 48, 12))),
    *((amx(rows, columns, depth, a, b), ("amx-int8", "amx-tile"))
      for rows, columns, depth, a, b in (
          (16, 16, 64, "int8", "int8"), (32, 32, 128, "int8", "int8"), (16, 48, 64, "int8", "int8"),
          (48, 16, 192, "int8", "int8"), (32, 16, 64, "uint8", "int8"),
          (16, 32, 64, "int8", "uint8"), (16, 16, 128, "uint8", "uint8"))),
    *((amx_bf16(rows, columns, depth), ("amx-bf16", "amx-tile"))
      for rows, columns, depth in ((16, 16, 32), (32, 32, 96), (16, 48, 64))),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cuts", [1, 3])
@pytest.mark.parametrize(("intrinsic", "features"), TILES, ids=lambda x: getattr(x, "name", ""))
def test_windows_of_larger_buffers(intrinsic, features, cuts):
    skip_without(*features)
    rows, columns = intrinsic.dst.shape
    program = tiled(intrinsic, (rows, columns + 1), (2, 5), cuts)
    assert intrinsic.needs == features
    assert_exact(program)


@pytest.mark.parametrize("intrinsic", [fp32(6, 16, 9, 8), amx(32, 32, 64)],
                         ids=lambda one: one.name)
def test_tiles_in_local_buffers(intrinsic):
    skip_without(*intrinsic.needs)
    assert_exact(tiled(intrinsic, intrinsic.dst.shape, (0, 1), 2, "local"))


def test_tiles_on_several_threads():
    skip_without(*needs("amx"))
    s = Schedule(product("amx", 128, 64, 64))
    s.apply(parallel, "c_i_o")
    assert_exact(s.program)


def test_the_system_refuses_tile_registers(monkeypatch):
    """As Linux does when the state that is asked for is unknown to it."""
    skip_without(*needs("amx"))
    monkeypatch.setattr(tiles, "_DEFINITION", tiles._DEFINITION.replace("i64 4131, i64 18",
                                                                        "i64 4131, i64 63"))
    program = product("amx", 32, 32, 64)
    with pytest.raises(MachineError) as refusal:
        build(program).compute(random_operands(program))
    assert str(refusal.value) == (
        "product needs the tile registers of AMX, which the operating system refuses: "
        "set LOCKSTEP_CPU_WITHOUT=amx-tile to do without")


# Another processor

MAIN = r"""
#include <stdio.h>
#include "kernels.h"
static int8_t a[8 * 64], b[2 * 16 * 16 * 4];
static int32_t c[8 * 32];
int main(void) {
    for (int i = 0; i < 8 * 64; i++) a[i] = i * 37 % 256 - 128;
    for (int i = 0; i < 2 * 16 * 16 * 4; i++) b[i] = i * 91 % 256 - 128;
    if (product(a, b, c)) return 1;
    for (int i = 0; i < 8 * 32; i++) printf("%d ", c[i]);
    return 0;
}
"""


@pytest.mark.cross
def test_dot_products_of_neon_in_emulation(tmp_path):
    program = product("neon_dot", 8, 32, 64)
    assert "neon.sdot" in emit(program, MACHINES["aarch64"])
    (tmp_path / "kernels.o").write_bytes(compile_object({"product": program},
                                                        MACHINES["aarch64"]))
    (tmp_path / "kernels.h").write_text(header({"product": program}))
    (tmp_path / "main.c").write_text(MAIN)
    cross_compile(tmp_path, "main")
    said = subprocess.run([EMULATOR, tmp_path / "main"], capture_output=True, text=True,
                          check=True, timeout=60)
    inputs = {"a": (np.arange(8 * 64) * 37 % 256 - 128).astype(np.int8).reshape(8, 64),
              "b": (np.arange(2048) * 91 % 256 - 128).astype(np.int8).reshape(2, 16, 16, 4)}
    expected = interpret(program, inputs)["c"]
    assert [int(word) for word in said.stdout.split()] == expected.ravel().tolist()


BYTES_MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "kernels.h"
static void *file(const char *name, long size) {
    void *all = malloc(size);
    FILE *f = fopen(name, "rb");
    if (!f || fread(all, 1, size, f) != (unsigned long)size) exit(1);
    return all;
}
static int8_t y[3 * 3 * 13 * 16], *x0, *x1;
static int32_t *x2;
static double *x3;
int main(void) {
    x0 = file("x0", 2 * 3 * 13 * 16), x1 = file("x1", 3 * 3 * 24 * 16 * 4);
    x2 = file("x2", 3 * 16 * 4), x3 = file("x3", 3 * 16 * 8);
    if (conv(x0, x1, x2, x3, y)) return 1;
    for (unsigned i = 0; i < sizeof y; i++) printf("%d ", y[i]);
    return 0;
}
"""


@pytest.mark.one_in(3)
@pytest.mark.cross
@pytest.mark.parametrize(("features", "mark", "cpu"), [
    (("dotprod", "neon"), "neon.sdot", "max"), (("dotprod", "i8mm", "neon"), "neon.usdot", "max"),
    (("neon",), "mul <16 x i32>", "cortex-a72")])
def test_convolutions_of_bytes_by_neon_in_emulation(features, mark, cpu, tmp_path):
    """As networks have them, with bytes without a sign, at their ends."""
    attrs = {"strides": (1, 1), "pads": (1, 1, 1, 1), "pad_value": -9, "zp": 3, "lo": -128,
             "hi": 126}
    rng = np.random.default_rng(0)
    given = [rng.choice([-128, 127], (1, 2, 3, 13, 16)).astype(np.int8),
             rng.choice([-128, 127], (3, 3, 1, 24, 16, 4)).astype(np.int8),
             rng.integers(-1000, 1000, (3, 16)).astype(np.int32), rng.random((3, 16)) / 5000]
    inputs = [te.placeholder(array.shape, array.dtype.name, f"x{place}")
              for place, array in enumerate(given)]
    program = schedule(lower([expression("qconv2d_blocks", attrs, inputs, "y")], "conv"),
                       Vectors(NEON, "dotprod" in features))
    machine = replace(MACHINES["aarch64"], features=features)
    assert mark in emit(program, machine)
    (tmp_path / "kernels.o").write_bytes(compile_object({"conv": program}, machine))
    (tmp_path / "kernels.h").write_text(header({"conv": program}))
    (tmp_path / "main.c").write_text(BYTES_MAIN)
    for place, array in enumerate(given):
        (tmp_path / f"x{place}").write_bytes(array.tobytes())
    cross_compile(tmp_path, "main")
    said = subprocess.run([EMULATOR, "-cpu", cpu, tmp_path / "main"], capture_output=True,
                          text=True, check=True, timeout=60, cwd=tmp_path)
    node = Node("qconv2d_blocks", "n", ("x0", "x1", "x2", "x3"), ("y",), attrs)
    wanted = evaluate_node(node, given).ravel().tolist()
    assert [int(word) for word in said.stdout.split()] == wanted


# Operands, refusals

def test_panels_begin_at_cache_lines():
    b = np.arange(64 * 64, dtype=np.int8).reshape(64, 64)
    panels = in_panels("amx", b)
    assert panels.ctypes.data % 64 == 0 and panels.shape == (2, 16, 32, 4)
    assert panels[1, 3, 5, 2] == b[14, 37]
    assert aligned((3, 5), "float64").ctypes.data % 64 == 0


@pytest.mark.parametrize(("make", "message"), [
    (lambda: amx(24, 16, 64), "Rows and columns must be multiples of 16 that fill at most 8 "
                              "registers, not 24 and 16"),
    (lambda: amx(48, 48, 64), "Rows and columns must be multiples of 16 that fill at most 8 "
                              "registers, not 48 and 48"),
    (lambda: amx(16, 16, 32), "Depth must be a multiple of 64, not 32"),
    (lambda: amx_bf16(16, 16, 16), "Depth must be a multiple of 32, not 16"),
    (lambda: amx(16, 16, 64, "int16"), "Operands must be int8 or uint8, not int16"),
    (lambda: dot(4, 16, 6), "Depth must be a multiple of 4, not 6"),
    (lambda: dot(4, 24, 8), "Columns must be a multiple of 16, not 24"),
    (lambda: dot(4, 16, 8, "int8", 8), "Dtype and lanes must be one of ('uint8', 16), "
                                       "('uint8', 8), ('int8', 4), ('uint8', 4), not ('int8', 8)"),
    (lambda: fp32(4, 16, 8, 4), "Lanes must be one of 16, 8, not 4"),
    (lambda: product("int4", 8, 8, 8), "Kind of product must be one of fp32_avx512, fp32_avx2, "
                                       "vnni, avx_vnni, amx, amx_bf16, neon_dot, not 'int4'"),
    (lambda: product("amx", 40, 32, 64), "Rows of amx must be a multiple of 32, not 40"),
])
def test_sizes_wrong(make, message):
    with pytest.raises(ValueError) as refusal:      # noqa: PT011 - the whole message is compared
        make()
    assert str(refusal.value) == message


def test_a_tile_that_moves_with_its_lanes_wrong():
    """Not a window: the rows of x overlap."""
    x, y = te.placeholder((20, 8), "float32", "x"), te.placeholder((8, 8), "float32", "y")
    k = te.reduce_axis(8, "k")
    c = te.compute((4, 8), lambda i, j: te.sum(x[i + k.var, k] * y[k, j], k), "c")
    s = Schedule([c])
    with pytest.raises(ScheduleError, match="^tensorize: fp32_4x8x8_8 does not match: a must be "
                                            "read at the lanes of its tile: "):
        s[c].tensorize("i", fp32(4, 8, 8, 8))
