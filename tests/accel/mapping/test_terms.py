"""Sums of terms on the accelerator: which instruction has them, and what fills up blocks."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, Declaration, gemm_op, vector_op
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler import te
from compiler.graph.graph import Graph, TensorType
from compiler.graph.rewrite import Builder
from tests.support.integer_graphs import assert_right

SQUARES = "(x0 - x1) * (x0 - x1)"
NEAR = "abs(x0 - x1) + 1"


def machine_of(*products: Declaration, **fields: int) -> Machine:
    return Machine(replace(preset("tiny-1x4x4"), **fields), (*SHIPPED, *products))


SQUARED = gemm_op("squares", term=lambda x, w: x * x - w * (x + x) + w * w)
"""Squares of differences, written in another way."""


def summed(term: str = SQUARES, depth: int = 8, rows: int = 5, before: str = "") -> Graph:
    """Sums of terms of an input, or of what an operator makes of it."""
    rng, builder = np.random.default_rng(5), Builder("sums")
    x = builder.add_input("x", TensorType((6, depth), "int8"))
    if before:
        x = builder.emit("qmap", "before", [x], "before", function=before)
    w = builder.add_constant("w", rng.integers(-128, 128, (rows, depth)).astype(np.int8))
    builder.emit("qterms", "sum", [x, w], "y", term=term, bias=-3, mult=40000, shift=30, zp=-7,
                 lo=-120, hi=110)
    return builder.finish(["y"])


def refusal(machine: Machine, graph: Graph) -> str | None:
    return AccelTarget(machine).refusal(graph, graph.nodes[-1])


@pytest.mark.parametrize(("depth", "rows", "fields"), [
    (8, 4, {}), (3, 1, {}), (21, 9, {"batch": 4}), (16, 3, {"block_in": 8, "block_out": 2})])
def test_any_extents_are_those_of_numpy(depth: int, rows: int, fields: dict[str, int]) -> None:
    x = np.random.default_rng(6).integers(-128, 128, (6, depth)).astype(np.int8)
    assert_right(machine_of(SQUARED, **fields), summed(depth=depth, rows=rows), {"x": x})


@pytest.mark.parametrize(("machine", "graph", "reason"), [
    (machine_of(), summed(), f"no instruction of gemm sums {SQUARES}"),
    (machine_of(gemm_op("near", term=lambda x, w: te.abs(x - w))), summed(),
     f"no instruction of gemm sums {SQUARES}"),
    (machine_of(gemm_op("near", term=lambda x, w: te.abs(x - w) + 1)), summed(NEAR, depth=7),
     "its term is not 0 of two numbers 0, which fill up a block of channels"),
    (machine_of(SQUARED), summed(depth=7, before="clamp(x0 + 1, -128, 127)"),
     "its input has 7 channels, and gemm reads 8; what fills up the last block is known of plain "
     "inputs and products")])
def test_what_it_cannot_sum_is_refused(machine: Machine, graph: Graph, reason: str) -> None:
    assert refusal(machine, graph) == reason


def test_whole_blocks_may_come_from_anywhere() -> None:
    graph = summed(before="clamp(x0 + 1, -128, 127)")
    assert refusal(machine_of(SQUARED), graph) is None


def test_a_wider_accumulator_is_refused() -> None:
    wide = tuple(gemm_op(accumulator="int40") if each.name == "gemm" else each
                 for each in SHIPPED if each.unit != "vector")
    machine = Machine(preset("tiny-1x4x4"), (*wide, vector_op(
        "keep", lambda a: a, accumulator="int40")))
    assert refusal(machine, summed()) == ("it is computed in int32; acc of the machine holds int40")
