"""Tiles of results in blocks of channels: any width, the order of sums of the expression."""

import re
from dataclasses import replace

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu.schedules.byte_groups import dot_of, pairs_of
from compiler.cpu_gpu_backends.cpu.schedules.schedule import schedule
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm import instruction_sets as sets
from compiler.cpu_gpu_backends.llvm import MACHINES, Kernel, assembly, build, emit, host
from compiler.cpu_gpu_backends.llvm.objects.jit import _object_code
from compiler.cpu_gpu_backends.llvm.machine import Processor
from compiler.graph.reference import evaluate_node
from compiler.ir import Alloc, For, Program, Tensorized, Update, lower, verify, walk_stmts
from compiler.ops.packed.quantized_blocks import NEAR, grouped_stem, in_singles, stored
from compiler.ops.records.node import Node
from compiler.ops.registry import expression
from compiler.schedule import Schedule
from tests.support.float_graphs import assert_near

AVX512, AVX2, SSE = (Vectors(sets.AVX512), Vectors(replace(sets.AVX2, registers=8)),
                     Vectors(sets.ANY))
TWO_PRODUCTS = Vectors(replace(sets.AVX512, costs=sets.TileCosts(3, 1.2, 32)))
PLAIN = {"strides": (1, 1), "pads": (0, 0, 0, 0)}
SAME = {"strides": (1, 1), "pads": (1, 1, 1, 1)}


def program(op: str, attrs: dict, *shapes: tuple[int, ...], vectors: Vectors = AVX512,
            dtypes: tuple[str, ...] = ()) -> Program:
    dtypes = dtypes or ("float32",) * len(shapes)
    inputs = [te.placeholder(shape, dtype, f"x{place}")
              for place, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))]
    return verify(schedule(lower([expression(op, attrs, inputs, "y")], op), vectors))


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def tile(made: Program) -> tuple[int, ...]:
    """Blocks and pixels of the first tile of sums."""
    shapes = [s.buffer.shape for s in walk_stmts(made.body) if isinstance(s, Alloc)]
    return next((shape[1], shape[3]) for shape in shapes if len(shape) == 5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("width", "vectors"), [
    (1, AVX512), (7, AVX2), (13, SSE), (17, AVX512), (31, TWO_PRODUCTS)])
def test_rows_of_any_width(width: int, vectors: Vectors) -> None:
    cases = [("conv2d_blocks", SAME, (1, 2, 3, width, 16), (3, 2, 3, 3, 16, 16), (3, 16)),
             ("conv2d_blocks", PLAIN, (2, 1, 2, width, 16), (4, 1, 1, 1, 16, 16)),
             ("depthwise_blocks", SAME, (1, 2, 3, width, 16), (2, 3, 3, 16)),
             ("conv2d_into_blocks", SAME, (1, 3, 3, width), (2, 3, 3, 3, 16), (2, 16))]
    for op, attrs, *shapes in cases:
        given = arrays(*shapes)
        found = build(program(op, attrs, *shapes, vectors=vectors)).compute(
            {f"x{place}": array for place, array in enumerate(given)})["y"]
        names = tuple(f"x{place}" for place in range(len(given)))
        assert_near(found, evaluate_node(Node(op, op, names, ("y",), attrs), given))


def test_every_processor_adds_in_the_same_order() -> None:
    shapes = (1, 3, 2, 13, 16), (2, 3, 3, 3, 16, 16)            # 432 terms: more than one block
    given = {f"x{place}": array for place, array in enumerate(arrays(*shapes))}
    found = {build(program("conv2d_blocks", PLAIN, (1, 3, 4, 15, 16), *shapes[1:], vectors=vectors)
                   ).compute({**given, "x0": arrays((1, 3, 4, 15, 16))[0]})["y"].tobytes()
             for vectors in (AVX512, AVX2, SSE, TWO_PRODUCTS)}
    assert len(found) == 1


def test_tiles_fill_registers_and_leave_no_guard() -> None:
    """They have pixels where rows are long, blocks where they are short; the rest is its own tile.
    """
    for width, blocks, vectors, wanted in (
            (56, 4, AVX512, (1, 14)), (7, 4, AVX512, (2, 7)), (13, 1, AVX512, (1, 13)),
            (29, 1, AVX512, (1, 10)), (1, 8, AVX512, (8, 1)), (56, 4, TWO_PRODUCTS, (2, 14)),
            (4, 4, TWO_PRODUCTS, (4, 4)), (28, 1, TWO_PRODUCTS, (1, 28))):
        made = program("conv2d_blocks", PLAIN, (1, 1, 2, width, 16), (blocks, 1, 1, 1, 16, 16),
                       vectors=vectors)
        assert tile(made) == wanted
        assert "if " not in str(made.body)
        kinds = {s.kind for s in walk_stmts(made.body) if isinstance(s, For)}
        assert {"vectorize", "unroll"} <= kinds


@pytest.mark.parametrize(("op", "weight", "attrs"), [
    ("conv2d_blocks", (4, 8, 1, 1, 16, 16), PLAIN), ("packed_matmul", (4, 128, 16), {"columns": 64})
])
def test_sums_of_a_tile_never_leave_their_registers(op: str, weight, attrs: dict) -> None:
    """Pixels are read one after the other, and each serves all blocks."""
    x = (1, 8, 1, 56, 16) if op == "conv2d_blocks" else (56, 128)
    made = program(op, attrs, x, weight, vectors=TWO_PRODUCTS)
    machine = MACHINES["x86-64-v4"]
    lines = assembly(emit(made, machine, True, ()), machine).splitlines()
    assert sum("vfmadd" in line for line in lines) == 28
    assert not re.search(r"= (add|mul) nsw i64 -?\d+, -?\d+$", emit(made, machine), re.MULTILINE)
    assert not [line for line in lines if "zmm" in line and "rsp" in line]


@pytest.mark.parametrize(("blocks", "threads", "copied"), [(4, 1, 1), (4, 2, 1), (3, 2, 3)])
def test_a_block_is_copied_when_it_is_needed(blocks: int, threads: int, copied: int) -> None:
    """By the thread that needs it, where each has as many."""
    made = program("depthwise_blocks", SAME, (1, blocks, 64, 64, 16), (blocks, 3, 3, 16),
                   vectors=replace(AVX512, threads=threads))
    shapes = [s.buffer.shape for s in walk_stmts(made.body) if isinstance(s, Alloc)]
    assert [shape[:4] for shape in shapes if 66 in shape] == [(1, copied, 66, 66)]
    shared = [s for s in walk_stmts(made.body) if isinstance(s, For) and s.kind == "parallel"]
    assert bool(shared) == (threads > 1)


@pytest.mark.parametrize(("rows", "blocks", "columns", "vectors"), [
    ((1,), (6,), 96, AVX512), ((197,), (2,), 32, AVX512), ((2, 13), (3,), 48, AVX2),
    ((5,), (1,), 16, SSE), ((2, 13), (2, 3), 37, AVX2), ((29,), (2,), 17, AVX512),
    ((1,), (63,), 1000, AVX2), ((31,), (7,), 112, TWO_PRODUCTS), ((3, 7), (3, 1), 5, AVX512)])
def test_products_of_any_number_of_rows_and_columns(
        rows: tuple[int, ...], blocks: tuple[int, ...], columns: int, vectors: Vectors) -> None:
    shapes, attrs = ((*rows, 300), (*blocks, 300, 16)), {"columns": columns}
    given = arrays(*shapes)
    made = program("packed_matmul", attrs, *shapes, vectors=vectors)
    assert "if " not in str(made.body)
    found = build(made).compute({"x0": given[0], "x1": given[1]})["y"]
    assert_near(found, evaluate_node(Node("packed_matmul", "n", ("x0", "x1"), ("y",), attrs),
                                     given))


# Bytes

QUANTIZED = {"pad_value": -9, "zp": 3, "lo": -128, "hi": 126}
BYTES = ("int8", "int8", "int32", "float64")
WORDS = ("int8", "int16", "int32", "float64")


def byte_arrays(*shapes: tuple[int, ...], extreme: bool = False, dtypes: tuple[str, ...] = BYTES
                ) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    given = [rng.choice([-128, 127], shape) if extreme else rng.integers(-128, 128, shape)
             for shape in shapes[:2]]
    return [*(array.astype(dtype) for array, dtype in zip(given, dtypes, strict=False)),
            rng.integers(-1000, 1000, shapes[2]).astype(np.int32),
            (rng.random(shapes[3]) / 5000).astype(dtypes[3])]


BYTE_CASES = [
    ("qconv2d_blocks", {**SAME, **QUANTIZED}, (1, 2, 3, 13, 16), (3, 3, 1, 24, 16, 4)),
    ("qconv2d_blocks", {**PLAIN, **QUANTIZED, "strides": (2, 2)}, (1, 2, 3, 5, 16),
     (4, 1, 1, 8, 16, 4)),
    ("qconv2d_into_blocks", {**SAME, **QUANTIZED}, (1, 4, 3, 7), (2, 3, 1, 3, 16, 4)),
    ("qpacked_matmul", QUANTIZED, (17, 10), (6, 3, 16, 4))]


WORD_CASES = [
    ("qconv2d_blocks", {**SAME, **QUANTIZED}, (1, 2, 3, 13, 16), (3, 3, 1, 48, 16, 2)),
    ("qconv2d_blocks", {**PLAIN, **QUANTIZED, "dilations": (1, 2)}, (1, 2, 4, 9, 16),
     (4, 2, 3, 16, 16, 2)),
    ("qconv2d_blocks", {**PLAIN, **QUANTIZED, "group": 2}, (2, 2, 3, 5, 16), (4, 1, 1, 8, 16, 2)),
    ("qconv2d_into_blocks", {**SAME, **QUANTIZED}, (1, 3, 3, 7), (2, 3, 1, 5, 16, 2)),
    ("qconv2d_into_blocks", {**SAME, **QUANTIZED}, (1, 1, 3, 7), (2, 3, 1, 3, 16, 2)),
    ("qpacked_matmul", QUANTIZED, (17, 9), (6, 5, 16, 2))]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", BYTE_CASES, ids=lambda case: case[0])
@pytest.mark.parametrize("vectors", [AVX512, AVX2, SSE, Vectors(sets.AVX512, True),
                                     Vectors(replace(sets.AVX2, registers=8), True)], ids=str)
def test_bytes_are_added_four_at_a_time(case, vectors: Vectors) -> None:
    dot = dot_of(vectors.instructions, vectors.sums_bytes)
    if vectors.sums_bytes and not host().has(*dot.needs):
        pytest.skip(f"needs a processor with {', '.join(dot.needs)}")
    op, attrs, x, w = case
    vector = (w[0] * 16,) if op == "qpacked_matmul" else (w[0], 16)
    made = program(op, attrs, x, w, vector, vector, vectors=vectors, dtypes=BYTES)
    named = {s.intrinsic.name for s in walk_stmts(made.body) if isinstance(s, Tensorized)}
    assert named == {dot.name}
    sums = [s for s in walk_stmts(made.body) if isinstance(s, Update) and s.axes]
    assert all(any(update in walk_stmts(s.body) for s in walk_stmts(made.body)
                   if isinstance(s, Tensorized)) for update in sums)      # of the last tile too
    given = byte_arrays(x, w, vector, vector, extreme=True)
    found = build(made).compute({f"x{place}": array for place, array in enumerate(given)})["y"]
    names = tuple(f"x{place}" for place in range(4))
    wanted = evaluate_node(Node(op, op, names, ("y",), attrs), given)
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(found)) > 9


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("case", "vectors", "near"), [
    pytest.param(case, vectors, near, id=f"{case[0]}-{place}-{vectors}-{near}",
                 marks=pytest.mark.slow if (place + turn + near) % 2 else ())
    for place, case in enumerate(WORD_CASES)
    for turn, vectors in enumerate((AVX512, Vectors(sets.AVX2), SSE)) for near in (0, 1)])
def test_words_are_added_two_at_a_time(case, vectors: Vectors, near: int) -> None:
    """With scales of float64 of any sums, and of float32 of such as it holds."""
    op, attrs, x, w = case
    attrs, dtypes = {**attrs, "near": near}, (*WORDS[:3], "float32") if near else WORDS
    vector = (w[0] * 16,) if op == "qpacked_matmul" else (w[0], 16)
    made = program(op, attrs, x, w, vector, vector, vectors=vectors, dtypes=dtypes)
    named = {s.intrinsic.name for s in walk_stmts(made.body) if isinstance(s, Tensorized)}
    assert named == {pairs_of(vectors.instructions).name}
    given = byte_arrays(x, w, vector, vector, extreme=True, dtypes=dtypes)
    if op == "qconv2d_into_blocks":
        weight = np.random.default_rng(1).choice([-128, 127], (w[0] * 16, x[1], 3, 3))
        given[1] = grouped_stem(weight.astype(np.int16), False)
    assert given[1].shape == w
    found = build(made).compute({f"x{place}": array for place, array in enumerate(given)})["y"]
    names = tuple(f"x{place}" for place in range(4))
    wanted = evaluate_node(Node(op, op, names, ("y",), attrs), given)
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(found)) > 9


def test_words_stay_in_their_registers() -> None:
    """Six pixels by sixteen channels, two vectors of weights, and no sum in memory."""
    op, attrs, x, w = "qconv2d_blocks", {**PLAIN, **QUANTIZED}, (1, 4, 1, 60, 16), (
        2, 1, 1, 32, 16, 2)
    made = program(op, attrs, x, w, (2, 16), (2, 16), vectors=Vectors(sets.AVX2), dtypes=WORDS)
    assert tile(made) == (1, 6)
    machine = MACHINES["x86-64-v3"]
    lines = assembly(emit(made, machine), machine).splitlines()
    steps = [place for place, line in enumerate(lines) if "vpmaddwd" in line]
    assert len(steps) % 12 == 0
    assert not [line for line in lines[steps[0]:steps[-1]] if "rsp" in line]


def rounded(sums: np.ndarray, scales: np.ndarray, machine: Processor, lanes: int = 8
            ) -> tuple[np.ndarray, str]:
    """What a kernel makes of sums by ``near`` requantization, and its assembly."""
    x = te.placeholder(sums.shape, "int32", "x")
    scale = te.placeholder(scales.shape, "float32", "scale")
    attrs = {"zp": -5, "lo": -128, "hi": 127, "near": 1}
    out = te.compute(sums.shape, lambda i, j: stored(attrs, x[i, j], scale[j]), "y")
    s = Schedule(lower([out], "round"))
    _, inner = s["y"].split("y_j", lanes)
    s["y"].vectorize(inner)
    made = verify(s.program)
    text = assembly(emit(made, machine), machine)
    return build(made, machine).compute({"x": sums, "scale": scales})["y"], text


@pytest.mark.parametrize("name", ["host", "without fma"])
def test_one_rounding_by_a_fused_multiply_add(name: str) -> None:
    """As in whole numbers: ties, their neighbours, the greatest sums, multipliers of 16 bits."""
    rng = np.random.default_rng(11)
    machine = host() if name == "host" else host().without(*{"fma"} & set(host().features))
    sums, mults, shifts = [], rng.integers(1 << 15, 1 << 16, 64), rng.integers(18, 40, 64)
    mults[:16] = 1 << 15                                     # of which products are ties
    for mult, shift in zip(mults, shifts, strict=True):
        half = (2 * rng.integers(-140, 140, 300) + 1) * (1 << int(shift) - 1)
        near = half // mult + rng.integers(-1, 2, 300)
        far = rng.integers(-NEAR, NEAR, 200, endpoint=True)
        sums.append(np.clip(np.concatenate([near, far, [NEAR, -NEAR, 0]]), -NEAR, NEAR))
    columns = np.stack(sums, axis=1).astype(np.int32)
    found, text = rounded(columns, np.ldexp(mults, -shifts).astype(np.float32), machine)
    exact = columns.astype(np.int64) * mults
    whole, rest = exact >> shifts, exact & (1 << shifts) - 1
    half = 1 << shifts - 1
    whole += (rest > half) | ((rest == half) & (whole & 1 == 1))
    np.testing.assert_array_equal(found, np.clip(whole - 5, -128, 127))
    assert ((rest == half) & (np.abs(whole) < 140)).sum() > 300
    assert ("vfmadd" in text) == machine.fuses


@pytest.mark.parametrize(("bias", "scale", "is_near"), [
    (0, 0.25, True), (1, 0.25, False), (-1, 0.25, False), (0, 0.250001, False),
    (0, 1 / 7, False)])
def test_near_sums_are_those_that_float32_holds(bias: int, scale: float, is_near: bool) -> None:
    """128 times 2^17 is the greatest, of bytes and of words; a scale is one of float32."""
    weight = np.full((1, 1024), -128, np.int16)
    total = np.array([bias])
    for weights, its in ((weight, total), (weight.astype(np.int8), total + 128 * 128 * 1024)):
        found = in_singles(weights, its, np.array([scale]))
        assert (found is not None) == is_near


SPELLED = """
define <16 x i32> @spelled(<16 x i32> %sum, <16 x i32> %x, <16 x i32> %y) {
  %a = bitcast <16 x i32> %x to <64 x i8>
  %b = bitcast <16 x i32> %y to <64 x i8>
  %u = zext <64 x i8> %a to <64 x i32>
  %s = sext <64 x i8> %b to <64 x i32>
  %p = mul <64 x i32> %u, %s
"""


def spelled() -> str:
    """What `vpdpbusd` says, in other instructions."""
    text, total = SPELLED, "%sum"
    for step in range(4):
        places = ", ".join(f"i32 {4 * lane + step}" for lane in range(16))
        text += (f"  %p{step} = shufflevector <64 x i32> %p, <64 x i32> poison, "
                 f"<16 x i32> <{places}>\n  %t{step} = add <16 x i32> {total}, %p{step}\n")
        total = f"%t{step}"
    return f"{text}  ret <16 x i32> {total}\n}}\n"


def test_the_instruction_for_bytes_on_any_processor() -> None:
    """The kernel as it is for AVX-512 VNNI, with that instruction spelled out."""
    op, attrs, x, w = "qconv2d_blocks", BYTE_CASES[0][1], (1, 2, 2, 5, 16), (1, 3, 1, 24, 16, 4)
    made = program(op, attrs, x, w, (1, 16), (1, 16), vectors=Vectors(sets.AVX512, True),
                   dtypes=BYTES)
    with_vnni = replace(host(), features=(*host().features, "avx512vnni"))
    text = emit(made, with_vnni, False, ())
    name = "@llvm.x86.avx512.vpdpbusd.512"
    assert text.count(name) >= 5 * 4
    lines = [line for line in text.splitlines()
             if not (line.startswith("declare") and name in line)]
    whole = "\n".join(lines).replace(name, "@spelled") + spelled()
    kernel = Kernel.restored(made, _object_code(whole, host()))
    given = byte_arrays(x, w, (1, 16), (1, 16))
    found = kernel.compute({f"x{place}": array for place, array in enumerate(given)})["y"]
    names = tuple(f"x{place}" for place in range(4))
    np.testing.assert_array_equal(found, evaluate_node(Node(op, op, names, ("y",), attrs), given))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize(("equation", "x", "w"), [
    ("nwk,ck->nwc", (1, 5, 4), (16, 4)), ("nwjk,jck->nwc", (1, 5, 3, 4), (3, 16, 4))])
def test_other_sums_of_four_for_sixteen_are_no_groups(dtype: str, equation: str, x, w) -> None:
    """Sums that wrap in the type of their terms, of one axis, of bytes of one sign."""
    rng, attrs = np.random.default_rng(0), {"equation": equation}
    given = [rng.integers(0, 100, shape).astype(dtype) for shape in (x, w)]
    made = program("einsum", attrs, x, w, vectors=AVX2, dtypes=(dtype, dtype))
    found = build(made).compute({"x0": given[0], "x1": given[1]})["y"]
    wanted = evaluate_node(Node("einsum", "n", ("x0", "x1"), ("y",), attrs), given)
    np.testing.assert_array_equal(found, wanted)
