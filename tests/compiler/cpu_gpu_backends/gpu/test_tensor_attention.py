"""Attention on tensor cores: one kernel, whose products are rounded as others are."""

from compiler.cpu_gpu_backends.gpu.lowering import passes
from compiler.graph.passes.pipeline import optimize

import ml_dtypes
import numpy as np
import pytest

from compiler.cpu_gpu_backends.gpu.attention import attention_of
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from compiler.cpu_gpu_backends.gpu.target import PRECISIONS, GpuTarget, ValueForms
from compiler.cpu_gpu_backends.gpu.tensor_attention import (TensorAttention, tensor_attention_of,
                                                            tile_tensor_attention)
from compiler.cpu_gpu_backends.gpu.tensor_tiles import in_precision
from compiler.cpu_gpu_backends.gpu.shared_tiles import SHARED, shared_bytes
from compiler.cpu_gpu_backends.groups import recipe_of, unscheduled
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races
from compiler.graph import TensorType
from compiler.graph.fusion import Group, fuse
from compiler.ir import Program
from compiler.schedule import Schedule
from compiler.graph.division.protocols import Values
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from tests.support.attention import Heads, Shape, attention, given_to
from tests.support.effort import Effort
from tests.support.nvrtc import require_nvrtc

# Whole tiles, tiles that are left over, several steps of weights, and heads as wide as fit.
SHAPES = [(1, 3, 64, 64, 64), (2, 3, 50, 33, 20), (1, 1, 20, 197, 24), (1, 1, 21, 40, 200)]
QUICK = [("bf16", SHAPES[1]), ("f16", SHAPES[2])]
CASES = [*QUICK, *(pytest.param(kind, shape, marks=pytest.mark.slow) for kind, shape in (
    ("tf32", SHAPES[0]), ("f16", SHAPES[1]), ("bf16", SHAPES[2]), ("f16", SHAPES[3])))]
UNITS = {"tf32": 2**-11, "f16": 2**-11, "bf16": 2**-8}     # how far the nearest number is


def rounded(kind: str, x: np.ndarray) -> np.ndarray:
    if kind == "tf32":
        return ((x.view(np.uint32) + 0x1000) & ~np.uint32(0x1fff)).view(np.float32)
    return x.astype(np.float16 if kind == "f16" else ml_dtypes.bfloat16)


def grouped(net: Heads, kind: str, masked: bool = True) -> tuple[Program, Group, Values]:
    """The program of attention, its group and constants."""
    graph = optimize(net.finish([net.attend(masked)]),
                     passes(ValueForms((), PRECISIONS[kind])))
    group = fuse(graph, lambda _, group: True).groups[-1]
    program = unscheduled(recipe_of(graph, group))
    return in_precision(program, kind), group, graph.constants


def tensors(s: Schedule) -> TensorAttention:
    stages = attention_of(s)
    found = stages and tensor_attention_of(stages)
    assert found
    return found


def assert_rounded(found: np.ndarray, inputs: Values, kind: str, masked: bool) -> None:
    """Weights are rounded, and sums of them are of 1; other sums are those of float32."""
    wanted = attention(inputs, masked, lambda x: rounded(kind, x))
    values = inputs["values" if "values" in inputs else "values.tokens"]
    error = np.abs(found - wanted).max() / np.abs(values).max()
    assert 1e-7 < error < UNITS[kind] + 1e-5


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind, shape", CASES, ids=str)
def test_attention_is_one_kernel(kind: str, shape: Shape) -> None:
    net = Heads(*shape)
    graph = net.finish([net.attend(masked := shape[3] < 64)])
    inputs = given_to(graph)
    segment = GpuTarget("cuda", "cuda", precision=kind).compile(graph)
    name = segment.steps[-1].group.name
    assert name.startswith("matmul+") and name.endswith("+matmul")
    assert segment.text[0].count(f"  mma_m16n8k{8 if kind == 'tf32' else 16}_{kind}(") == 2
    found, = segment.on(EmulatedDevice())(inputs).values.values()
    assert_rounded(found, inputs, kind, masked)


@pytest.mark.slow
@pytest.mark.parametrize("kind, shape", [
    ("tf32", SHAPES[1]), *(pytest.param(kind, shape, marks=pytest.mark.slow) for kind, shape in (
        ("f16", SHAPES[2]), ("bf16", SHAPES[3])))], ids=str)
def test_keys_with_their_depth_last(kind: str, shape: Shape) -> None:
    """And the result stored by tokens."""
    net = Heads(*shape, turned=True)
    net.emit("transpose", "turn", [net.attend()], "turned", perm=(0, 2, 1, 3))
    graph = net.finish(["turned"])
    inputs = given_to(graph)
    segment = GpuTarget("cuda", "cuda", precision=kind).compile(graph)
    name = segment.steps[-1].group.name
    assert name.startswith("transpose+transpose+transpose+matmul+") and name.endswith("+transpose")
    found, = segment.on(EmulatedDevice())(inputs).values.values()
    assert_rounded(found.transpose(0, 2, 1, 3), inputs, kind, masked=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["f16", pytest.param("tf32", marks=pytest.mark.slow)])
def test_heads_of_all_batches_beside_each_other(kind: str) -> None:
    """As PyTorch has them: values[keys, batch * heads, width]. The place of a head in it is no loop
    but a sum of two.
    """
    batch, heads, count, width = 2, 3, 33, 24
    net = Heads(batch, heads, count, count, width)
    del net.values["values"]
    net.inputs.remove("values")
    net.add_input("rows", TensorType((count, batch * heads, width), "float32"))
    net.emit("transpose", "turn", ["rows"], "turned", perm=(1, 0, 2))
    net.emit("reshape", "apart", ["turned"], "values", shape=(batch, heads, count, width))
    graph = net.finish([net.attend()])
    inputs = given_to(graph)
    segment = GpuTarget("cuda", "cuda", precision=kind).compile(graph)
    assert segment.text[0].count(f"  mma_m16n8k{8 if kind == 'tf32' else 16}_{kind}(") == 2
    found, = segment.on(EmulatedDevice())(inputs).values.values()
    values = inputs.pop("rows").reshape(count, batch, heads, width).transpose(1, 2, 0, 3)
    assert_rounded(found, {**inputs, "values": values}, kind, masked=False)


@pytest.mark.slow
def test_rows_and_columns_in_one_dimension_are_left_to_threads() -> None:
    """No tile of values[keys * width, heads] lies together."""
    heads, count, width = 3, 33, 24
    net = Heads(1, heads, count, count, width)
    del net.values["values"]
    net.inputs.remove("values")
    net.add_input("rows", TensorType((count * width, heads), "float32"))
    net.emit("transpose", "turn", ["rows"], "turned", perm=(1, 0))
    net.emit("reshape", "apart", ["turned"], "values", shape=(1, heads, count, width))
    graph = net.finish([net.attend()])
    inputs = given_to(graph)
    found, = GpuTarget("cuda", "cuda", precision="f16").compile(graph).on(EmulatedDevice())(
        inputs).values.values()
    values = inputs.pop("rows").T.reshape(1, heads, count, width)
    assert_rounded(found, {**inputs, "values": values}, "f16", masked=False)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "place"), [
    ("tf32", -1), *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("f16", 0), ("f16", 3), ("f16", -1), ("tf32", 0), ("tf32", 3)))])
def test_tiles_of_any_size(kind: str, place: int) -> None:
    heads, queries, keys = (1, 35, 45) if Effort.quick else (2, 50, 75)
    net = Heads(1, heads, queries, keys, 40)
    program, group, constants = grouped(net, kind)
    s = Schedule(program)
    found = tensors(s)
    tiles = found.offered()[place]
    tile_tensor_attention(s, found, *tiles)
    assert shared_bytes(s) <= SHARED
    inputs = given_to(net.finish(["y"]))
    given = {buffer.name: (rounded(kind, inputs[value.removesuffix(".halves")])
                           if value not in constants and value != "mask" else
                           inputs[value] if value in inputs else constants[value])
             for buffer, value in zip(s.program.inputs, group.inputs, strict=True)}
    code = generate(s.program, "cuda")
    launch, = code.launches
    assert launch.grid == (1, -(-queries // tiles[0].rows), heads)
    assert_rounded(compute(EmulatedDevice(), code, given)["y"], inputs, kind, masked=True)
    assert find_races(lower(s.program, True, True, True), given) == []


def test_tiles_fit_into_shared_memory() -> None:
    for shape in SHAPES[:1] if Effort.quick else SHAPES:
        s = Schedule(grouped(Heads(*shape), "f16")[0])
        found = tensors(s)
        assert found.offered()
        for first, last in found.offered()[::27 if Effort.quick else 9]:
            assert first.rows == last.rows and first.warp_rows == last.warp_rows
            again = Schedule(s.program)
            tile_tensor_attention(again, found, first, last)
            assert shared_bytes(again) <= SHARED


@pytest.mark.slow
def test_few_columns_of_scores_are_of_one_warp() -> None:
    """Fragments of several would be indexed by the warp, and lie in memory."""
    s = Schedule(grouped(Heads(1, 2, 41, 13, 47), "tf32")[0])
    found = tensors(s)
    for first, last in found.offered():
        assert first.columns == first.warp_columns and last.columns == last.warp_columns
        again = Schedule(s.program)
        tile_tensor_attention(again, found, first, last)
        require_nvrtc()
        taken, = compile_cuda(generate(again.program).text, "sm_80").resources.values()
        assert taken.local_bytes == 0


def test_rows_for_which_there_is_no_room_stay_apart() -> None:
    net = Heads(1, 1, 20, 1000, 40)
    graph = net.finish([net.attend()])
    groups = GpuTarget("cuda", "cuda", precision="f16").groups(
        optimize(graph, passes(ValueForms((), PRECISIONS["f16"]))))
    assert groups.groups[-1].name == "matmul"


def test_products_of_float32_are_no_tensor_attention() -> None:
    net = Heads(1, 1, 20, 40, 40)
    graph = net.finish([net.attend()])
    group = fuse(graph, lambda _, group: True).groups[-1]
    stages = attention_of(Schedule(unscheduled(recipe_of(graph, group))))
    assert stages and tensor_attention_of(stages) is None


@pytest.mark.parametrize("heads, count, rows", [(3, 64, 16), (96, 128, 32)])
def test_blocks_have_four_warps(heads: int, count: int, rows: int) -> None:
    """Blocks have as many rows as leave no multiprocessor idle."""
    found = tensors(Schedule(grouped(Heads(1, heads, count, count, 64), "f16")[0]))
    first, last = found.offered()[0]
    assert first.rows == last.rows == rows
    for tiles in (first, last):
        assert tiles.rows // tiles.warp_rows * (tiles.columns // tiles.warp_columns) == 4
