"""Functions of rows that an instruction of a stream unit computes."""

import importlib
import re
from dataclasses import replace
from functools import cache
from math import prod
from types import ModuleType

import numpy as np
import pytest

import lockstep
from accel.figures.traffic import dram_bytes
from accel.machine.dram import Dram
from accel.machine.intrinsics import SHIPPED
from accel.machine.program import AccelProgram
from accel.machine.streams import Computes
from accel.mapping.bounds import bound_of
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.layers import build_layers, forms_of
from accel.mapping.lowering import LoweringError
from accel.mapping.memory.layout import blocks_of
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler.graph.graph import Graph
from tests.support.integer_graphs import assert_right, assert_simulators_agree
from tests.support.softmax_graphs import softmax_graph


def example() -> ModuleType:
    """The module of the machine, which takes seconds to be declared."""
    return importlib.import_module("examples.machines.softmax")


@cache
def machine_of(preset: str = "tiny-1x4x4", **changes) -> lockstep.Machine:
    config = replace(lockstep.preset(preset), structure=example().structure, **changes)
    return lockstep.Machine(config, (*SHIPPED, example().instruction))


def rows(rng, shape: tuple[int, ...]) -> np.ndarray:
    return np.clip(rng.normal(size=shape) * 40 + 15, -128, 127).astype(np.int8)


def executed(machine: lockstep.Machine, program: AccelProgram) -> set[str]:
    """The instructions of a program that are no copies."""
    names = {machine.names[code] for code in set(program.words[:, 0].tolist())}
    return names - {"load", "store", "finish"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape, changes", [
    ((3, 8), {}), ((5, 2, 9), {}), ((1, 1), {}), ((2, 3, 50), {"res_bytes": 256, "out_bytes": 64}),
    ((5, 2, 9), {"batch": 2, "acc_bytes": 2048}), ((3, 9), {"block_in": 8, "inp_bytes": 4096})],
    ids=str)
def test_two_operators_are_one_layer(rng, shape, changes):
    machine, graph = machine_of(**changes), softmax_graph(shape)
    program = assert_right(machine, graph, {"x": rows(rng, shape)})
    assert [name for name, _ in program.layers] == ["y"]
    assert executed(machine, program) == {"softmax"}


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"batch": 2, "block_out": 8, "acc_bytes": 8192}], ids=str)
def test_rtl_and_its_slice(rng, changes):
    machine, shape = machine_of(**changes), (5, 2, 19)
    program, samples = AccelTarget(machine).compile(softmax_graph(shape)).program, {
        "x": rows(rng, shape)}
    assert_simulators_agree(machine, program, samples)


def test_the_bytes_of_a_bound_by_hand() -> None:
    """Six rows of nine elements, in blocks of four lanes; results as many, and four words."""
    machine = machine_of()
    layer, = build(machine, softmax_graph((3, 2, 9)))
    bound = bound_of(machine, layer, memory=Dram(latency=0))
    bytes_ = prod(layer.operator["x"].shape)
    assert bytes_ in (6 * 9, 6 * 12) and bound.loaded == bytes_
    assert (bound.moved, bound.gemm, bound.vector) == (bound.dram_bytes + 4 * 64, 0, 0)
    assert bound.busy == max(6 * 3, -(-bound.moved // 4))


@pytest.mark.parametrize("shape", [(1, 1), (3, 8), (5, 2, 19), (40, 33)], ids=str)
@pytest.mark.slow       # builds a slice
def test_a_program_takes_no_less_than_its_bound(shape) -> None:
    machine = machine_of()
    layer, = build(machine, softmax_graph(shape))
    program = AccelTarget(machine).compile(softmax_graph(shape)).program
    for memory in (Dram(latency=0), Dram(latency=64), Dram(latency=9, bytes_per_cycle=2)):
        bound = bound_of(machine, layer, memory=memory)
        run = cycle.simulate(machine, program, values=False, dram=memory)
        assert run.simulator == "slice" and run.ok
        assert bound.cycles <= run.cycles < 8 * bound.cycles
        assert bound.dram_bytes <= dram_bytes(machine, program).sum()


@pytest.mark.slow
def test_what_is_between_may_be_a_result(rng):
    machine, shape = machine_of(), (8, 8)
    program = assert_right(machine, softmax_graph(shape, between=True), {"x": rows(rng, shape)})
    assert "softmax" not in executed(machine, program)


def test_a_row_may_be_too_long(rng):
    machine, shape = machine_of(), (8, 4 * example().LONGEST + 1)
    layers = build(machine, softmax_graph(shape))
    assert all(layer.operator.stream is None for layer in layers)
    assert build(machine, softmax_graph((8, 4 * example().LONGEST)))[0].operator.stream


def test_the_note_says_by_what():
    layer, = build(machine_of(), softmax_graph((3, 8)))
    assert layer.note == "qbelow_max and qsoftmax by softmax, in rows of 2 entries"


def test_fewer_cycles_decide():
    slow = replace(example().instruction, computes=replace(
        example().instruction.computes, cycles=lambda n: 100_000))
    machine = lockstep.Machine(machine_of().config, (*SHIPPED, slow))
    assert all(layer.operator.stream is None for layer in build(machine, softmax_graph((8, 8))))
    # On the host where no other instructions compute so few rows.
    assert build(machine, softmax_graph((1, 8)))[0].operator.stream


def build(machine: lockstep.Machine, graph: Graph) -> list[MappedLayer]:
    forms = forms_of(graph, blocks_of(machine.config))
    return [layer for node in graph.nodes for layer in build_layers(node, graph, forms, machine)]


def test_a_table_of_another_size_is_refused():
    def bind(elements, lanes, below, applied):
        fields, powers = example().bound(elements, lanes, below, applied)
        return fields, powers[:96]

    other = replace(example().instruction, computes=replace(
        example().instruction.computes, bind=bind))
    machine = lockstep.Machine(machine_of().config, (*SHIPPED, other))
    with pytest.raises(LoweringError, match=re.escape(
            "softmax reads a power of two of entries of 32 elements from a table, at most 8; a "
            "layer has 96 elements")):
        build(machine, softmax_graph((3, 8)))


def test_what_a_declaration_says_is_tried():
    def bind(elements, lanes, below, applied):
        fields, powers = example().bound(elements, lanes, below, applied)
        return {**fields, "zp": fields["zp"] + 1}, powers

    other = replace(example().instruction, computes=replace(
        example().instruction.computes, bind=bind))
    machine = lockstep.Machine(machine_of().config, (*SHIPPED, other))
    with pytest.raises(LoweringError, match=(
            "^softmax does not compute qbelow_max and qsoftmax, as its declaration says: element "
            "0 of a row is -?[0-9]+, not -?[0-9]+$")):
        build(machine, softmax_graph((3, 8)))


@pytest.mark.parametrize("arguments, message", [
    ((("qsoftmax", 1), max, max), "Operators of Computes must be a tuple of names, not "
                                  "('qsoftmax', 1)"),
    ((("qsoftmax",), 3, max), "Bind of Computes must be a function, not 3"),
    ((("qsoftmax",), max, 3), "Cycles of Computes must be a function, not 3")])
def test_what_computes_refuses(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Computes(*arguments)
