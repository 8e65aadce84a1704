"""Tiles go to the units of vector in turn, and networks stay right."""

import re
from dataclasses import replace

import numpy as np
import pytest

import lockstep
from accel.mapping import layers
from accel.mapping.spreading import sharers, spread, twins
from accel.mapping.target import AccelTarget
from accel.machine.intrinsics import stream_op, vector_op
from accel.machine.program import AccelProgram, Instruction, Stream
from accel.machine.structure import BufferRecord
from accel.machine.words import decode_words
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from accel.machine.machine import Machine
from compiler import te
from compiler.quantize import quantize
from examples import distance
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import TINY
from tests.support.streams import LONGEST, Reverse, reversed_rows, row_instruction
from tests.support.structures import reversed_units, two_vectors

TWO = two_vectors(replace(TINY.config, vector_beats=4))


def pooled() -> Net:
    net = Net()
    image, other = (net.input(1, 8, 24, 24, name=name) for name in ("image", "other"))
    net.results = net.max_pool(net.add(image, other)), net.conv(image, 8)
    return net


def test_units_share_the_tiles_of_a_layer() -> None:
    net = pooled()
    program = assert_right(TWO, net.graph(*net.results), net.samples())
    stream = program.instructions(TWO)
    ran = [one.unit for one in stream]
    assert min(ran.count(unit) for unit in ("vector", "vector2")) > 4
    stored = {one.fields["buffer"] for one in stream if one.unit == "store"}
    assert stored == {TWO.structure.buffer_names.index(name) for name in ("out", "out2")}


def test_the_second_unit_may_stand_first_in_the_list() -> None:
    """The compiler calls units by their roles, and so do instructions that name their unit."""
    machine, net = reversed_units(replace(TINY.config, vector_beats=4)), pooled()
    program = assert_right(machine, net.graph(*net.results), net.samples())
    ran = [one.unit for one in program.instructions(machine)]
    assert min(ran.count(unit) for unit in ("vector", "vector2")) > 4


def test_a_note_says_what_shipped_instructions_of_both_units_do() -> None:
    absdiff = vector_op("absdiff", lambda a, b: te.abs(a - b))
    machine = Machine(TWO.config, (*TWO.declarations, absdiff))
    assert {one.name for one in machine.with_shipped.declarations} == {
        one.name for one in TWO.declarations}
    x = {"x": distance.samples()}
    module = lockstep.compile(quantize(distance.network(), x).model, "accel,cpu",
                              machine=machine)
    (note,) = [layer.note for segment in module.accelerated for group in segment.work
               for layer in group if "absdiff" in layer.note]
    assert re.search(r"by absdiff on the accelerator; without: \w+, \w+", note)


def test_with_one_unit_nothing_changes() -> None:
    net = pooled()
    program = AccelTarget(TINY).compile(net.graph(*net.results)).program
    stream = Stream(program.words, program.origins)
    assert spread(TINY, stream) is stream


def test_what_another_unit_does_not_have_stays() -> None:
    """A machine whose second unit only adds."""
    some = tuple(one for one in TWO.declarations
                 if one.unit != "vector2" or one.name == "add_vector2")
    machine, net = Machine(TWO.config, some), pooled()
    program = assert_right(machine, net.graph(*net.results), net.samples())
    assert "vector2" not in {one.unit for one in program.instructions(machine)}


def test_results_of_other_units_are_stored_from_where_they_are() -> None:
    """Tiles in turn: what the stream unit wrote stays in its buffer, whose tile it would be."""
    structure = TWO.config.structure.with_stream(
        "turn", [("a", "res"), ("dst", "turned")],
        [BufferRecord("turned", ("batch", "block_out"), "output", 2048)])
    machine = Machine(replace(TWO.config, structure=structure), (
        *TWO.declarations, stream_op("reverse", "turn", Reverse, reversed_rows, longest=LONGEST)))
    names = machine.structure.buffer_names

    def store(buffer: str) -> Instruction:
        return Instruction("store", "store", {"buffer": names.index(buffer), "run": 4, "base": 3},
                           structure=machine.structure)

    added = Instruction("add", "vector", {
        "banks": 1, "a_source": 1, "b_source": 1, "destination": 1}, structure=machine.structure)
    turned = row_instruction(machine, "reverse", 1, 3, {})
    program = AccelProgram.assemble(machine, [
        added, store("out"), turned, store("turned"), added, store("out"), added, store("out")],
        io_bytes=4096)
    spreaded = decode_words(machine, spread(machine, Stream(
        program.words, program.origins)).words)
    assert [(one.unit, names[one.fields["buffer"]] if one.unit == "store" else "")
            for one in spreaded] == [
        ("vector", ""), ("store", "out"), ("turn", ""), ("store", "turned"), ("vector", ""),
        ("store", "out"), ("vector2", ""), ("store", "out2")]


def test_instructions_of_another_unit_are_twins_where_it_has_all() -> None:
    assert sharers(TWO) == 2 and sharers(TINY) == 1
    assert twins(TWO)["add_vector2"] == "add" and len(twins(TWO)) == 14
    some = Machine(TWO.config, tuple(one for one in TWO.declarations
                                     if one.name != "lookup_vector2"))
    assert sharers(some) == 1 and "lookup_vector2" not in twins(some)


def test_tilings_know_that_units_share_tiles(monkeypatch) -> None:
    """Tiles that are chosen for two units take fewer cycles on them than those for one."""
    net = Net()
    image, other = (net.input(1, 8, 24, 24, name=name) for name in ("image", "other"))
    graph = net.graph(net.add(image, other))
    cycles, threads = [], []
    for count in (1, 2):
        monkeypatch.setattr(layers, "sharers", lambda machine, count=count: count)
        groups, program = AccelTarget(TWO).parts(graph)
        threads.append(groups[0][0].threads)
        cycles.append(cycle.simulate_model(TWO, program(groups), values=False).cycles)
    assert threads == [2, 4] and cycles[1] < 0.8 * cycles[0], cycles


@pytest.mark.slow
def test_two_units_are_faster() -> None:
    net = pooled()
    graph, times = net.graph(*net.results), []
    for machine in (Machine(replace(TINY.config, vector_beats=4)), TWO):
        program = AccelTarget(machine).compile(graph).program
        run = verilated.simulate(machine, program)
        assert run.ok and np.all(run.retire >= 0)
        times.append(run.cycles)
    assert times[1] < 0.85 * times[0], times
