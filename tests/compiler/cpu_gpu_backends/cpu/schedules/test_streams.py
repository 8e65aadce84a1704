"""Weights are fetched before they are needed, each once, and nothing else changes."""

from dataclasses import replace

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu.schedules.schedule import own_schedule, schedule
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import AVX512, TileCosts
from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import For, Program, lower, walk_stmts
from compiler.ops.registry import expression
from tests.compiler.cpu_gpu_backends.flush import placed

NONE = Vectors(replace(AVX512, costs=TileCosts(3, 1.2, 32)))
AHEAD = Vectors(replace(AVX512, costs=TileCosts(3, 1.2, 32, ahead=2048)))
PLAIN = {"strides": (1, 1), "pads": (0, 0, 0, 0)}
CASES = [
    ("conv2d_blocks", PLAIN, [(1, 4, 2, 30, 16), (4, 4, 1, 1, 16, 16)], [(32, 4)]),
    ("packed_matmul", {"columns": 80}, [(17, 600), (5, 600, 16)], [(32, 5), (32, 5)]),
    ("conv2d_blocks", PLAIN, [(1, 1, 4, 4, 16), (2, 1, 3, 3, 16, 16)], [(32, 2)]),
    ("depthwise_blocks", PLAIN, [(1, 2, 4, 9, 16), (2, 3, 3, 16)], [])]


def scheduled(op: str, attrs: dict, shapes: list[tuple[int, ...]], vectors: Vectors,
              replayed: bool = False) -> Program:
    inputs = [te.placeholder(shape, "float32", f"x{place}") for place, shape in enumerate(shapes)]
    program = lower([expression(op, attrs, inputs, "y")], op)
    return schedule(program, vectors,
                    own_schedule(program, vectors).text() if replayed else None)


@pytest.mark.parametrize(("op", "attrs", "shapes", "wanted"), CASES)
def test_every_vector_of_weights_is_fetched_once(op, attrs, shapes, wanted) -> None:
    """So many iterations before, each of a tile's blocks."""
    made = scheduled(op, attrs, shapes, AHEAD)
    notes = [dict(s.annotations).get("prefetch") for s in walk_stmts(made.body)
             if isinstance(s, For) and s.annotations]
    assert notes == [ahead for ahead, _ in wanted]
    text = build(made).text
    assert text.count("call void @llvm.prefetch") == sum(count for _, count in wanted)
    assert scheduled(op, attrs, shapes, AHEAD, replayed=True) == made
    assert "prefetch" not in build(scheduled(op, attrs, shapes, NONE)).text


@pytest.mark.parametrize(("op", "attrs", "shapes", "wanted"), CASES)
def test_what_lies_behind_the_end_may_not_be_there(op, attrs, shapes, wanted) -> None:
    rng = np.random.default_rng(0)
    given = {f"x{place}": rng.standard_normal(shape).astype(np.float32)
             for place, shape in enumerate(shapes)}
    plain = build(scheduled(op, attrs, shapes, NONE)).compute(given)["y"]
    arrays = [placed(array.shape, "float32", True) for array in (*given.values(), plain)]
    for array, values in zip(arrays, given.values(), strict=False):
        array[...] = values
    build(scheduled(op, attrs, shapes, AHEAD))(*arrays)
    np.testing.assert_array_equal(arrays[-1], plain)


@pytest.mark.parametrize("op", [te.max, te.sum])
def test_lanes_with_loops_of_their_own_fetch_nothing(op) -> None:
    """A plan may put rows in lanes, each of which then has the loops of an ordered sum."""
    x, k = te.placeholder((32, 64), "float32", "x"), te.reduce_axis(64, name="k")
    program = lower([te.compute((32,), lambda i: op(x[i, k], axis=k), name="y")], "rows")
    made = build(schedule(program, AHEAD, "split(y_i, 16)\nvectorize(y_i_i)"))
    given = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    wanted = given.max(1) if op is te.max else given.sum(1)
    np.testing.assert_allclose(made.compute({"x": given})["y"], wanted, rtol=1e-5, atol=1e-5)
    assert "prefetch" not in made.text
