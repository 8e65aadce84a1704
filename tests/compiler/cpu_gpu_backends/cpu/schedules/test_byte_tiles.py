"""Sums of products of bytes in registers for tiles: where there are none, the nests that stand for
them run.
"""

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu import target
from compiler.cpu_gpu_backends.cpu.schedules import vectors
from compiler.cpu_gpu_backends.cpu.schedules.byte_groups import dot_of
from compiler.cpu_gpu_backends.cpu.schedules.schedule import own_schedule, schedule
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import ANY, AVX2, AVX512, NEON, SCALAR, SMALL
from compiler.cpu_gpu_backends.intrinsics.cpu import (ByteRows, ByteWindows, byte_tiles_named,
                                                      step_of)
from compiler.cpu_gpu_backends.llvm import MACHINES, build, host
from compiler.graph.reference import evaluate_node
from compiler.ir import Program, Tensorized, interpret, lower, verify, walk_stmts
from compiler.ops.records.node import Node
from compiler.ops.registry import expression
from compiler.schedule import Schedule
from tests.compiler.cpu_gpu_backends.cpu.schedules.test_block_tiles import (
    BYTES, QUANTIZED, byte_arrays)

TILES = Vectors(AVX512, True, tiles=True)
SAME = {"strides": (1, 1), "pads": (1, 1, 1, 1)}
PLAIN = {"strides": (1, 1), "pads": (0, 0, 0, 0)}


def named(program: Program) -> list[str]:
    return [s.intrinsic.name for s in walk_stmts(program.body) if isinstance(s, Tensorized)]


def computed(op: str, attrs: dict, x: tuple, w: tuple) -> tuple[Program, np.ndarray, np.ndarray]:
    vector = (w[0] * 16,) if op == "qpacked_matmul" else (w[0], 16)
    shapes = (x, w) if op == "grouped_matmul" else (x, w, vector, vector)
    names = tuple(f"x{place}" for place in range(len(shapes)))
    inputs = [te.placeholder(shape, dtype, name) for name, dtype, shape in
              zip(names, BYTES, shapes, strict=False)]
    made = verify(schedule(lower([expression(op, attrs, inputs, "y")], "f"), TILES))
    given = byte_arrays(x, w, vector, vector, extreme=True)[:len(shapes)]
    found = build(made).compute(dict(zip(names, given, strict=True)))["y"]
    wanted = evaluate_node(Node(op, op, names, ("y",), attrs), given)
    return made, found, wanted


@pytest.mark.parametrize(("attrs", "x", "w", "count"), [
    pytest.param(SAME, (1, 4, 4, 28, 16), (4, 3, 1, 48, 16, 4), 1, id="whole tiles"),
    pytest.param(SAME, (2, 4, 5, 13, 16), (3, 3, 1, 48, 16, 4), 2, id="a row left, three blocks"),
    pytest.param({**SAME, "strides": (2, 2)}, (1, 2, 9, 27, 16), (2, 3, 1, 24, 16, 4), 2,
                 id="strides"),
    pytest.param({**PLAIN, "dilations": (2, 3)}, (1, 2, 9, 22, 16), (2, 3, 3, 8, 16, 4), 2,
                 id="dilations"),
    pytest.param({**PLAIN, "group": 2}, (1, 8, 3, 19, 16), (4, 2, 2, 16, 16, 4), 1, id="groups"),
    pytest.param(PLAIN, (1, 9, 1, 33, 16), (2, 1, 1, 36, 16, 4), 2, id="pixels left"),
    pytest.param({**SAME, "pads": (0, 3, 2, 0)}, (1, 2, 4, 30, 16), (2, 3, 1, 40, 16, 4), 2,
                 id="five columns, uneven pads"),
])
def test_windows_of_images(attrs: dict, x: tuple, w: tuple, count: int) -> None:
    made, found, wanted = computed("qconv2d_blocks", {**attrs, **QUANTIZED}, x, w)
    assert len(named(made)) == count
    assert all(name.startswith("byte_windows_") for name in named(made))
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(found)) > 9


def test_images_of_few_channels() -> None:
    attrs = {"strides": (2, 2), "pads": (3, 3, 3, 3), **QUANTIZED}
    made, found, wanted = computed("qconv2d_into_blocks", attrs, (1, 4, 23, 57),
                                   (2, 7, 1, 7, 16, 4))
    assert named(made)[0].startswith("byte_windows_2_")
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("op", "x", "w", "count"), [
    ("qpacked_matmul", (197, 384), (24, 96, 16, 4), 2),
    ("qpacked_matmul", (2, 33, 128), (5, 32, 16, 4), 2),
    ("grouped_matmul", (3, 50, 64), (3, 4, 16, 16, 4), 2),
    ("grouped_matmul", (2, 3, 40, 126), (2, 3, 2, 32, 16, 4), 1)])
def test_rows_of_matrices(op: str, x: tuple, w: tuple, count: int) -> None:
    made, found, wanted = computed(op, QUANTIZED, x, w)
    assert len(named(made)) == count
    assert all(name.startswith("byte_rows_") for name in named(made))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("op", "x", "w"), [
    ("qpacked_matmul", (1, 512), (4, 128, 16, 4)),          # one row
    ("qpacked_matmul", (1, 2, 1, 33, 128), (1, 32, 16, 4)), # five axes, as an image has
    ("qconv2d_blocks", (1, 1, 5, 5, 16), (1, 1, 1, 4, 16, 4))])
def test_vectors_where_they_take_less(op: str, x: tuple, w: tuple) -> None:
    made, found, wanted = computed(op, {**PLAIN, **QUANTIZED}, x, w)
    assert set(named(made)) == {dot_of(TILES.instructions, True).name}
    np.testing.assert_array_equal(found, wanted)


def test_instructions_are_those_of_tiles() -> None:
    if not host().has("amx-int8", "amx-tile"):
        pytest.skip("needs a processor with amx-int8")
    made, *_ = computed("qconv2d_blocks", {**SAME, **QUANTIZED}, (1, 4, 4, 28, 16),
                        (4, 3, 1, 48, 16, 4))
    text = build(made).text
    assert text.count("@llvm.x86.tdpbusd(i8") >= 4
    assert "[i8 14, i8 14" in text                              # rows of a register


def test_two_shapes_of_registers_do_not_meet_in_a_function() -> None:
    """The second nest runs as it stands."""
    if not host().has("amx-int8", "amx-tile"):
        pytest.skip("needs a processor with amx-int8")
    k, t = te.reduce_axis(16, "k"), te.reduce_axis(4, "t")
    b = te.placeholder((1, 16, 16, 4), "int8", "b")
    rows = {"c": 32, "d": 28}

    def product(name: str, count: int) -> te.Tensor:
        a = te.placeholder((count, 64), "uint8", f"a{count}")
        return te.compute((1, count, 16), lambda block, i, lane: te.sum(
            a[i, 4 * k.var + t.var].astype("int32") * b[block, k, lane, t].astype("int32"),
            (k, t)), name)

    s = Schedule([product(name, count) for name, count in rows.items()])
    for (name, count), size in zip(rows.items(), (16, 14), strict=True):
        s[name].tensorize("block", ByteRows(1, count, size, 64).intrinsic())
    kernel = build(s.program)
    assert kernel.text.count("call void @llvm.x86.tilestored64(") == 2
    rng = np.random.default_rng(0)
    given = {x.name: rng.integers(0, 100, x.shape).astype(x.dtype) for x in s.program.inputs}
    found, wanted = kernel.compute(given), interpret(s.program, given)
    for name in rows:
        np.testing.assert_array_equal(found[name], wanted[name])


def test_a_plan_names_them() -> None:
    inputs = [te.placeholder(shape, dtype, f"x{place}") for place, (shape, dtype) in enumerate(zip(
        ((1, 4, 4, 28, 16), (4, 3, 1, 48, 16, 4), (4, 16), (4, 16)), BYTES, strict=True))]
    plain = lower([expression("qconv2d_blocks", {**SAME, **QUANTIZED}, inputs, "y")], "f")
    plan = own_schedule(plain, TILES).text()
    assert "byte_windows_" in plan
    assert schedule(plain, TILES, plan) == schedule(plain, TILES)


@pytest.mark.parametrize("tiles", [ByteWindows(2, 1, 28, 14, (3, 1), 192, (1, 64), (1, 0)),
                                   ByteRows(1, 32, 16, 100)])
def test_a_name_says_all(tiles) -> None:
    assert byte_tiles_named(tiles.name) == tiles.intrinsic()
    assert byte_tiles_named(f"{tiles.name}_1") is None


def test_names_of_others_wrong() -> None:
    assert byte_tiles_named("byte_rows_1_2") is None
    assert byte_tiles_named("byte_rows_1_17_17_64") is None


@pytest.mark.parametrize(("make", "message"), [
    (lambda: ByteRows(1, 30, 16, 64), "Rows of a register must be from 1 to 16 and divide 30, "
                                      "not 16"),
    (lambda: ByteRows(1, 16, 0, 64), "Rows of a register must be from 1 to 16 and divide 16, "
                                     "not 0"),
    (lambda: ByteRows(3, 16, 16, 64), "A block of the destination must be of at most 2 by 2 "
                                      "registers, not 3 by 1"),
    (lambda: ByteRows(1, 16, 16, 62), "Depth must be a multiple of 4, not 62")])
def test_sizes_wrong(make, message: str) -> None:
    with pytest.raises(ValueError) as refusal:      # noqa: PT011 - the whole message is compared
        make()
    assert str(refusal.value) == message


def test_steps_divide_the_depth() -> None:
    assert [step_of(depth) for depth in (4, 28, 64, 96, 144, 68, 192)] == [
        4, 28, 64, 48, 48, 4, 64]


@pytest.mark.parametrize(("machine", "wanted"), [
    ("aarch64", Vectors(NEON, True, fuses=True)),
    ("armv8-a", Vectors(NEON, sums_words=True, fuses=True)),
    ("x86-64", Vectors(ANY)),
    ("x86-64-v3", Vectors(AVX2, sums_words=True, fuses=True)), ("armv7", Vectors(ANY)),
    ("riscv64", Vectors(SCALAR)),
    ("cortex-m7", Vectors(SMALL, doubles=False, stacked=256)),
    ("riscv32", Vectors(SMALL, singles=False, doubles=False, stacked=256))])
def test_vectors_of_other_processors(machine: str, wanted: Vectors) -> None:
    assert target.CpuTarget(machine=MACHINES[machine]).vectors == wanted


@pytest.mark.parametrize("granted", [True, False])
def test_tiles_need_the_permission_of_the_system(granted: bool, monkeypatch) -> None:
    if not host().has("avx512vnni", "amx-int8", "amx-tile"):
        pytest.skip("needs a processor with amx-int8")
    monkeypatch.setattr(vectors, "grants_tiles", lambda: granted)
    assert target.CpuTarget().vectors.tiles == granted
