"""Fused kernels: random networks fused, unfused and by NumPy; what is one kernel, and how."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu.groups import group_program
from compiler.cpu_gpu_backends.groups import flat_pixels, recipe_of
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import ANY, AVX2, AVX512
from compiler.cpu_gpu_backends.llvm import build
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.graph.fusion import fuse, overwritable
from compiler.ir import Alloc, For, Program, walk_stmts
from tests.support.effort import tries
from tests.support.float_graphs import assert_near, inputs_of, random_graph

VECTORS = Vectors(AVX512)


@pytest.mark.parametrize("seed", range(tries(16)))
def test_random_networks_fused_unfused_and_by_numpy(seed: int) -> None:
    graph = random_graph(seed)
    inputs = inputs_of(graph, seed)
    wanted = evaluate(graph, inputs)
    fused, separate = (CpuTarget(fusion=fusion).compile(graph)(inputs) for fusion in (True, False))
    for name, array in wanted.items():
        assert_near(fused[name], array)
        assert_near(separate[name], array)


def block(size: tuple[int, int] = (7, 9), kernel: int = 1) -> Graph:
    """relu(conv(x) + x), x [1,4,rows,columns]."""
    net = Builder("block")
    net.add_input("x", TensorType((1, 4, *size), "float32"))
    rng = np.random.default_rng(0)
    net.add_constant("w", rng.standard_normal((4, 4, kernel, kernel)).astype(np.float32))
    net.add_constant("b", rng.standard_normal(4).astype(np.float32))
    net.emit("conv2d", "conv", ["x", "w", "b"], "c", strides=(1, 1), pads=(kernel // 2,) * 4)
    net.emit("add", "sum", ["c", "x"], "s")
    net.emit("relu", "relu", ["s"], "y")
    return net.finish(["y"])


def program(graph: Graph, vectors: Vectors = VECTORS) -> Program:
    group, = fuse(graph).groups
    return group_program(recipe_of(graph, group), vectors)


def test_a_fused_block_stores_its_result_alone() -> None:
    """The sum is a tile of registers, 4 rows by a vector, and another behind whole vectors; the
    rows are copied, once.
    """
    made = program(block((7, 9), 3))
    local = [s.buffer.shape for s in walk_stmts(made.body) if isinstance(s, Alloc)]
    assert [b.name for b in made.outputs] == ["y"]
    assert sorted(local) == [(1, 4, 1, 8), (1, 4, 1, 8), (1, 4, 9, 18)]


def test_large_copies_are_workspaces_of_the_caller() -> None:
    made = program(block((40, 40), 3))
    assert [(b.name, b.shape) for b in made.outputs] == [
        ("y", (1, 4, 40, 40)), ("t0_acc_padded", (1, 4, 42, 50))]


@pytest.mark.parametrize("behind", ["h_o", "w_o"])
def test_partial_sums_of_peeled_loops_are_workspaces_once(behind: str) -> None:
    """A loop and what is peeled off it have partial sums of their own."""
    net = Builder("long sums")
    net.add_input("x", TensorType((1, 32, 32, 40), "float32"))
    net.add_constant("w", np.random.default_rng(0).standard_normal((8, 32, 3, 3)).astype(
        np.float32))
    net.emit("conv2d", "conv", ["x", "w"], "c", strides=(1, 1), pads=(1,) * 4)
    graph = net.finish([net.emit("relu", "relu", ["c"], "y")])
    group, = fuse(graph).groups
    recipe = recipe_of(graph, group)
    plan = "\n".join(("split(t0_w, 16)", "split(t0_h, 16)", "reorder(t0_rc, t0_kh, t0_kw, t0_h_o, "
                      "t0_w_o, t0_h_i, t0_c, t0_w_i)", f"peel(t0_{behind}, behind)"))
    made = group_program(recipe, VECTORS, plan)
    names = [buffer.name for buffer in made.outputs]
    assert len(set(names)) == len(names) and any("_part" in name for name in names)
    x = inputs_of(graph)["x"]
    found = build(made).compute({"x0": x, "x1": graph.constants["w"]})
    assert_near(found["y"], evaluate(graph, {"x": x})["y"])


def test_pixels_that_do_not_know_their_place_are_one_row() -> None:
    graph = block((7, 9))
    group, = fuse(graph).groups
    recipe = recipe_of(graph, group)
    assert [t.shape for t in flat_pixels(recipe).types] == [(1, 4, 1, 63), (4, 4, 1, 1), (4,)]
    group, = fuse(block((7, 9), 3)).groups
    assert flat_pixels(recipe_of(block((7, 9), 3), group)).types[0].shape == (1, 4, 7, 9)


@pytest.mark.parametrize("kernel", [1, 3])
def test_pixels_of_blocks_too(kernel: int) -> None:
    """With a residual sum and a factor for each channel."""
    rng, window = np.random.default_rng(0), {"strides": (1, 1), "pads": (kernel // 2,) * 4}
    net = Builder("net")
    net.add_input("x", TensorType((2, 2, 7, 9, 16), "float32"))
    net.add_input("z", TensorType((2, 3, 7, 9, 16), "float32"))
    net.add_input("gate", TensorType((2, 3, 1, 1, 16), "float32"))
    w = net.add_constant("w", rng.standard_normal(
        (3, 2, kernel, kernel, 16, 16)).astype(np.float32))
    x = net.emit("conv2d_blocks", "conv", ["x", w], "a", **window)
    graph = net.finish([net.emit("mul", "mul", [net.emit("add", "add", [x, "z"], "b"), "gate"],
                                 "y")])
    group, = fuse(graph).groups
    recipe = flat_pixels(recipe_of(graph, group))
    assert recipe.result.shape == ((2, 3, 1, 63, 16) if kernel == 1 else (2, 3, 7, 9, 16))
    inputs = inputs_of(graph)
    assert_near(CpuTarget().compile(graph)(inputs)["y"], evaluate(graph, inputs)["y"])


@pytest.mark.parametrize(("weight", "shape"), [((2, 1, 1, 8, 16, 4), (1, 2, 1, 63, 16)),
                                               ((2, 1, 1, 24, 16, 4), (1, 2, 7, 7, 16)),   # 1 x 3
                                               ((2, 1, 3, 8, 16, 4), (1, 2, 7, 7, 16))])
def test_pixels_of_blocks_of_bytes_too(weight: tuple[int, ...], shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    net = Builder("net")
    net.add_input("x", TensorType((1, 2, 7, 9, 16), "int8"))
    constants = [net.add_constant(name, array) for name, array in (
        ("w", rng.integers(-128, 128, weight).astype(np.int8)),
        ("b", rng.integers(-99, 99, (2, 16)).astype(np.int32)), ("s", rng.random((2, 16)) / 500))]
    graph = net.finish([net.emit("qconv2d_blocks", "conv", ["x", *constants], "y", strides=(1, 1),
                                 pads=(0,) * 4, pad_value=3, zp=1, lo=-128, hi=127)])
    group, = fuse(graph).groups
    assert flat_pixels(recipe_of(graph, group)).result.shape == shape
    inputs = {"x": rng.integers(-128, 128, (1, 2, 7, 9, 16)).astype(np.int8)}
    np.testing.assert_array_equal(CpuTarget().compile(graph)(inputs)["y"],
                                  evaluate(graph, inputs)["y"])


@pytest.mark.parametrize(("op", "x", "q"), [("dequantizelinear", "float32", "int8"),
                                            ("quantizelinear", "int8", "float32")])
def test_rows_stay_where_an_operand_of_two_dimensions_has_an_axis(op: str, x: str, q: str) -> None:
    """Its axis 1 is that of columns where it meets an image."""
    net = Builder("net")
    net.add_input("x", TensorType((1, 1, 7, 9), x))
    net.add_input("q", TensorType((7, 9), q))
    scale = net.add_constant("scale", np.linspace(1, 2, 9, dtype=np.float32))
    point = net.add_constant("point", np.ones(9, np.int8))
    net.emit(op, "own", ["q", scale, point], "d", axis=1)
    net.emit("add", "sum", ["x", "d"], "y")
    graph = net.finish(["y"])
    recipe = recipe_of(graph, fuse(graph).groups[0])
    assert len(recipe.operations) == 2 and flat_pixels(recipe) == recipe
    inputs = {name: array.astype(graph.values[name].dtype)
              for name, array in inputs_of(graph).items()}
    np.testing.assert_array_equal(CpuTarget().compile(graph)(inputs)["y"],
                                  evaluate(graph, inputs)["y"])


@pytest.mark.parametrize("shape", [(9,), (7, 9), (1, 1, 1, 9), (1, 1, 7, 1), (7, 1)])
def test_rows_and_columns_stay_where_an_operand_tells_them_apart(shape) -> None:
    net = Builder("net")
    net.add_input("x", TensorType((1, 4, 7, 9), "float32"))
    net.add_input("z", TensorType(shape, "float32"))
    net.emit("add", "sum", ["x", "z"], "y")
    graph = net.finish(["y"])
    recipe = recipe_of(graph, fuse(graph).groups[0])
    assert flat_pixels(recipe) == recipe
    inputs = inputs_of(graph)
    np.testing.assert_array_equal(CpuTarget().compile(graph)(inputs)["y"],
                                  evaluate(graph, inputs)["y"])


def test_axis_1_of_three_dimensions_is_no_channel_of_images() -> None:
    """Its data meets images by broadcasting: its last two dimensions are pixels."""
    net = Builder("net")
    net.add_input("q", TensorType((4, 7, 9), "uint8"))
    net.add_input("z", TensorType((1, 4, 7, 9), "float32"))
    parameters = [net.add_constant("s", np.arange(1, 8, dtype=np.float32)),
                  net.add_constant("o", np.arange(7, dtype=np.uint8))]
    x = net.emit("dequantizelinear", "x", ["q", *parameters], "x", axis=1)
    graph = net.finish([net.emit("add", "sum", [x, "z"], "y")])
    group, = fuse(graph).groups
    assert len(group.nodes) == 2
    inputs = inputs_of(graph) | {"q": np.arange(252, dtype=np.uint8).reshape(4, 7, 9)}
    np.testing.assert_array_equal(CpuTarget().compile(graph)(inputs)["y"],
                                  evaluate(graph, inputs)["y"])


@pytest.mark.parametrize(("shape", "seen"), [
    ((4, 1, 1), (4, 1, 1)), ((), ()), ((4, 7, 9), (4, 1, 63)), ((1, 1, 7, 9), (1, 1, 1, 63)),
])
def test_operands_that_treat_pixels_alike_do_not_keep_rows_apart(shape, seen) -> None:
    net = Builder("net")
    net.add_input("x", TensorType((2, 4, 7, 9), "float32"))
    net.add_input("z", TensorType(shape, "float32"))
    net.emit("mul", "product", ["x", "z"], "y")
    graph = net.finish(["y"])
    recipe = flat_pixels(recipe_of(graph, fuse(graph).groups[0]))
    assert [type_.shape for type_ in recipe.types] == [(2, 4, 1, 63), seen]
    inputs = inputs_of(graph)
    np.testing.assert_array_equal(CpuTarget().compile(graph)(inputs)["y"],
                                  evaluate(graph, inputs)["y"])


def test_groups_with_one_recipe_share_a_kernel() -> None:
    one, other = (CpuTarget().compile(block()).steps[0].kernel for _ in range(2))
    assert one is other


@pytest.mark.parametrize("vectors", [
    Vectors(ANY), Vectors(replace(AVX2, registers=8)), VECTORS], ids=str)
@pytest.mark.parametrize(("extent", "columns"), [(7, 8), (14, 16), (28, 32), (49, 64), (5, 16)])
def test_tiles_divide_what_they_can(vectors: Vectors, extent: int, columns: int) -> None:
    size = vectors.columns(extent)
    assert 2 <= size <= 2 * vectors.lanes
    assert vectors.rows(12, size) * size <= max(vectors.registers * vectors.lanes, 12 * size // 12)
    if vectors.lanes == 16:
        assert -(-extent // size) * size <= columns


def test_every_sum_that_has_rows_is_computed_by_vectors() -> None:
    for graph in (block((7, 9), 3), block((7, 9))):
        kinds = [s.kind for s in walk_stmts(program(graph).body) if isinstance(s, For)]
        assert "vectorize" in kinds and "unroll" in kinds


def convolution(size: int, stride: int, channels: tuple[int, int] = (4, 12)) -> Graph:
    """3x3, padded by one."""
    net = Builder("convolution")
    net.add_input("x", TensorType((1, channels[0], size, size), "float32"))
    net.add_constant("w", np.ones((channels[1], channels[0], 3, 3), np.float32))
    net.emit("conv2d", "conv", ["x", "w"], "y", strides=(stride, stride), pads=(1, 1, 1, 1))
    return net.finish(["y"])


def loops(made: Program) -> list[str]:
    return [s.var.name for s in walk_stmts(made.body) if isinstance(s, For)]


def test_columns_that_are_apart_are_copied_side_by_side() -> None:
    """A row has its even columns, then its odd ones: 33, one more than results for the last tap."""
    made = program(convolution(64, 2))
    assert [(b.name, b.shape) for b in made.outputs] == [
        ("y", (1, 12, 32, 32)), ("y_padded", (1, 4, 65, 2, 33))]


def test_the_lighter_operand_is_read_again() -> None:
    """With a large image, tiles of pixels read the weights again; with many weights, the image."""
    image, weights = program(convolution(64, 1)), program(convolution(8, 1, (64, 96)))
    assert loops(image).index("y_w_o") < loops(image).index("y_c_o")
    assert loops(weights).index("y_w_o") > loops(weights).index("y_c_o")


def test_tables_are_fused_and_their_result_lies_where_no_table_does() -> None:
    """Two tables that turn bytes round, of as many elements as the tables have."""
    net = Builder("tables")
    net.add_input("x", TensorType((256,), "int8"))
    net.add_constant("table", np.arange(256)[::-1].astype(np.uint8).view(np.int8))
    net.emit("qtable", "first", ["x", "table"], "y")
    net.emit("qtable", "second", ["y", "table"], "z")
    graph = net.finish(["z"])
    group, = fuse(graph).groups
    assert overwritable(graph, group) == ("x",)
    x = np.random.default_rng(0).permutation(256).astype(np.uint8).view(np.int8)
    np.testing.assert_array_equal(CpuTarget().compile(graph)({"x": x})["z"], x)
