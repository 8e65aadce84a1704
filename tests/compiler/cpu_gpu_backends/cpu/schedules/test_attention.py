"""Attention: which operators make one kernel, and what it computes."""

import itertools

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu.schedules import attention
from compiler.cpu_gpu_backends.cpu.groups import group_program, own_plan
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import ANY, AVX2, AVX512
from compiler.cpu_gpu_backends.groups import recipe_of
from compiler.graph import Graph, evaluate
from compiler.graph.fusion import fuse
from compiler.ir import Alloc, verify, walk_stmts
from tests.support.attention import Heads
from tests.support.float_graphs import assert_near, inputs_of
from tests.support.slow_cases import each_once

# Batch, heads, queries, keys, width: whole tiles, tiles that are left over, and blocks of rows.
SHAPES = [(1, 2, 48, 48, 32), (2, 3, 50, 33, 20), (1, 1, 197, 197, 24), (1, 1, 131, 1024, 17),
          (3, 1, 8, 17, 32)]
SOFTMAX = "mul+{}reduce_max+sub+exp+reduce_sum+div+packed_matmul"


def names(graph: Graph) -> list[str]:
    return [group.name for group in CpuTarget().groups(CpuTarget().lowered(graph)).groups]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape, masked", [
    pytest.param(shape, masked, marks=() if shape in SHAPES[1:3] else pytest.mark.slow)
    for shape, masked in zip(SHAPES, itertools.cycle((True, False)))], ids=str)
def test_attention_is_one_kernel_of_the_same_values(shape: tuple[int, ...], masked: bool) -> None:
    net = Heads(*shape)
    graph = net.finish([net.attend(masked)])
    assert names(graph)[-1] == "packed_matmul+" + SOFTMAX.format("add+" if masked else "")
    inputs = inputs_of(graph)
    found = CpuTarget().compile(graph)(inputs)["y"]
    assert_near(found, evaluate(graph, inputs)["y"])
    for target in (CpuTarget(fusion=False), CpuTarget(threads=2)):
        np.testing.assert_array_equal(found, target.compile(graph)(inputs)["y"])


@each_once("shape, vectors", SHAPES, (Vectors(ANY), Vectors(AVX2), Vectors(AVX512)), ids=str)
def test_only_some_rows_of_scores_are_there_at_a_time(shape: tuple[int, ...], vectors: Vectors
                                                      ) -> None:
    net = Heads(*shape)
    graph = CpuTarget().lowered(net.finish([net.attend()]))
    recipe = recipe_of(graph, fuse(graph, attention.is_one_kernel).groups[-1])
    program = group_program(recipe, vectors)
    verify(program)
    stages = [*program.outputs[1:], *(s.buffer for s in walk_stmts(program.body)
                                      if isinstance(s, Alloc))]
    assert max(stage.size_bytes for stage in stages) <= attention.ROOM // 2
    again = group_program(recipe, vectors, own_plan(recipe, vectors))
    assert again == program


def test_a_head_without_a_scale() -> None:
    net = Heads(1, 2, 40, 56, 20)
    graph = net.finish([net.attend(scaled=False)])
    inputs = inputs_of(graph)
    assert names(graph)[-1] == "packed_matmul+" + SOFTMAX.format("").removeprefix("mul+")
    assert_near(CpuTarget().compile(graph)(inputs)["y"], evaluate(graph, inputs)["y"])


def test_transposes_in_front_stay_apart() -> None:
    net = Heads(1, 2, 40, 56, 20, turned=True)
    graph = net.finish([net.attend()])
    inputs = inputs_of(graph)
    assert "transpose" in names(graph) and "transpose" not in names(graph)[-1]
    assert names(graph)[-1] == "packed_matmul+" + SOFTMAX.format("")
    assert_near(CpuTarget().compile(graph)(inputs)["y"], evaluate(graph, inputs)["y"])


@pytest.mark.parametrize("kept", ["scores", "scaled", "powers", "weights"])
def test_what_somebody_else_reads_is_stored(kept: str) -> None:
    net = Heads(1, 2, 40, 56, 20)
    graph = net.finish([net.attend(), kept])
    assert names(graph)[-1] == "packed_matmul"
    inputs = inputs_of(graph)
    found, wanted = CpuTarget().compile(graph)(inputs), evaluate(graph, inputs)
    for name in graph.outputs:
        assert_near(found[name], wanted[name])


def test_heads_of_one_block_of_columns_stay_apart() -> None:
    for shape in ((1, 2, 40, 56, 16), (1, 2, 40, 16, 32)):
        net = Heads(*shape)
        graph = net.finish([net.attend()])
        assert names(graph)[-1] == "packed_matmul"


def test_rows_that_are_longer_than_a_row_of_softmax_stay_apart() -> None:
    net = Heads(1, 1, 20, 1030, 20)
    graph = net.finish([net.attend()])
    assert names(graph)[-1] == "packed_matmul"


def test_products_of_products_stay_apart() -> None:
    net = Heads(1, 2, 40, 56, 20)
    net.emit("matmul", "scores", ["x", "keys"], "scores")
    graph = net.finish([net.emit("matmul", "y", ["scores", "values"], "y")])
    assert names(graph)[-1] == "packed_matmul"
    inputs = inputs_of(graph)
    assert_near(CpuTarget().compile(graph)(inputs)["y"], evaluate(graph, inputs)["y"])
