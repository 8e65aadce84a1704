"""Tiles of results in blocks of channels: any width, the order of sums of the expression."""

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu.schedule import schedule
from compiler.cpu_gpu_backends.cpu.tiles import Vectors
from compiler.cpu_gpu_backends.llvm import build
from compiler.graph.reference import evaluate_node
from compiler.ir import Alloc, For, Program, lower, verify, walk_stmts
from compiler.ops.node import Node
from compiler.ops.registry import expression
from tests.support.float_graphs import assert_near

AVX512, AVX2, SSE = Vectors(16, 16), Vectors(8, 8), Vectors(4, 8)
PLAIN = {"strides": (1, 1), "pads": (0, 0, 0, 0)}
SAME = {"strides": (1, 1), "pads": (1, 1, 1, 1)}


def program(op: str, attrs: dict, *shapes: tuple[int, ...], vectors: Vectors = AVX512) -> Program:
    inputs = [te.placeholder(shape, "float32", f"x{place}") for place, shape in enumerate(shapes)]
    return verify(schedule(lower([expression(op, attrs, inputs, "y")], op), vectors))


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def tile(made: Program) -> tuple[int, ...]:
    """Blocks and pixels of the first tile of sums."""
    shapes = [s.buffer.shape for s in walk_stmts(made.body) if isinstance(s, Alloc)]
    return next((shape[1], shape[3]) for shape in shapes if len(shape) == 5)


@pytest.mark.parametrize(("width", "vectors"), [(1, AVX512), (7, AVX2), (13, SSE), (17, AVX512)])
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
             for vectors in (AVX512, AVX2, SSE)}
    assert len(found) == 1


def test_tiles_fill_registers_and_leave_no_guard() -> None:
    """Of pixels where rows are long, of blocks where they are short; the rest is a tile of its own.
    """
    for width, blocks, wanted in ((56, 4, (1, 14)), (7, 4, (2, 7)), (13, 1, (1, 13)),
                                  (29, 1, (1, 10)), (1, 8, (8, 1))):
        made = program("conv2d_blocks", PLAIN, (1, 1, 2, width, 16), (blocks, 1, 1, 1, 16, 16))
        assert tile(made) == wanted
        assert "if " not in str(made.body)
        kinds = {s.kind for s in walk_stmts(made.body) if isinstance(s, For)}
        assert {"vectorize", "unroll"} <= kinds


@pytest.mark.parametrize(("rows", "blocks", "vectors"), [
    ((1,), 6, AVX512), ((197,), 2, AVX512), ((2, 13), 3, AVX2), ((5,), 1, SSE)])
def test_products_of_any_number_of_rows(rows: tuple[int, ...], blocks: int, vectors: Vectors
                                        ) -> None:
    shapes = (*rows, 300), (blocks, 300, 16)
    given = arrays(*shapes)
    made = program("packed_matmul", {}, *shapes, vectors=vectors)
    assert "if " not in str(made.body)
    found = build(made).compute({"x0": given[0], "x1": given[1]})["y"]
    assert_near(found, evaluate_node(Node("packed_matmul", "n", ("x0", "x1"), ("y",), {}), given))
