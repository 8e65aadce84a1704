"""A schedule is lowered once, and its words are those of every layer that has it."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import Instruction, Stream
from accel.mapping.layers import build_layers, forms_of
from accel.mapping.lowering import TensorPlacement, emit, lower, unplaced
from accel.mapping.lowering.unplaced import MOST
from accel.mapping.memory.layout import blocks_of
from accel.mapping.schedules import scheduled, tiles_of
from compiler.ir import Program
from tests.support.integer_graphs import Net
from tests.support.machines import PACKED, TINY

FAR = (1 << 32) - 64
"""The start of a tensor of which all but the first bytes have addresses that wrap."""


def program(machine: Machine, bits: int) -> Program:
    net = Net(2, weight_bits=bits)
    graph = net.graph(net.conv(net.rescale(net.input(1, 8, 6, 6)), 8, (3, 3), pads=(1, 1, 1, 1)))
    forms = forms_of(graph, blocks_of(machine.config))
    *_, layer = build_layers(graph.nodes[-1], graph, forms, machine)
    tiles, threads = tiles_of(machine, layer.operator, 2)
    return scheduled(machine, layer.operator, tiles, threads).program


def placement(loops: Program, bits: int, *offsets: int) -> dict[str, TensorPlacement]:
    placed = {}
    for buffer, offset in zip((*loops.inputs, *loops.outputs), offsets, strict=True):
        base = "weights" if buffer.name.endswith(("_w", "params")) else "activations"
        placed[buffer.name] = TensorPlacement(base, offset, f"T{len(placed)}",
                                              bits=bits if buffer.name.endswith("_w") else 8)
    return placed


def copies(machine: Machine, stream: Stream) -> list[tuple[Instruction, str]]:
    """Loads and stores, each with its tensor."""
    found = []
    for number, word in enumerate(stream.words):
        one = Instruction.decode(machine, int.from_bytes(word.tobytes(), "little"))
        if one.unit in ("load", "store"):
            base, origin = isa.BASES[one.fields["base"]], stream.origins.origin(number)
            (tensor,) = origin.tensors(base)
            found.append((one, tensor))
    return found


@pytest.fixture
def made(monkeypatch) -> list[int]:
    """Grows by one with each schedule that is lowered; none is kept yet."""
    calls, real = [], emit.Scratchpads
    monkeypatch.setattr(unplaced, "_kept", type(unplaced._kept)())
    monkeypatch.setattr(emit, "Scratchpads", lambda *args: calls.append(1) or real(*args))
    return calls


@pytest.mark.parametrize(("machine", "bits"), [(TINY, 8), (PACKED, 4)], ids=["bytes", "packed"])
def test_only_addresses_in_memory_follow_the_places(machine: Machine, bits: int, made) -> None:
    loops = program(machine, bits)
    offsets = [64 * (3 + 5 * place) for place in range(len(loops.inputs) + len(loops.outputs))]
    offsets[0] = FAR
    zero, moved = (lower(machine, loops, placement(loops, bits, *places), "layer")
                   for places in ([0] * len(offsets), offsets))
    assert len(made) == 1
    for (first, tensor), (second, same) in zip(copies(machine, zero), copies(machine, moved),
                                               strict=True):
        assert tensor == same
        offset = offsets[int(tensor.removeprefix("T"))]
        dram = (first.fields["dram"] + offset) % (1 << 32)
        assert second == replace(first, fields={**first.fields, "dram": dram})
    units = [Instruction.decode(machine, int(word[0])).unit for word in zero.words]
    others = ~np.isin(units, ["load", "store"])
    assert others.any() and np.array_equal(zero.words[others], moved.words[others])


def test_names_are_those_of_the_layer(made) -> None:
    loops = program(TINY, 8)
    places = placement(loops, 8, *range(0, 64 * (len(loops.inputs) + 1), 64))
    plain = lower(TINY, loops, places, "one")
    other = lower(TINY, loops, places, "two", renamed=lambda name: f"{name}2")
    assert len(made) == 1
    assert {site.layer for site in other.origins.sites} == {"two"}
    assert [loop.name for site in other.origins.sites for loop in site.loops] == [
        f"{loop.name}2" for site in plain.origins.sites for loop in site.loops]
    assert {name for site in other.origins.sites for _, memory, name in site.tensors
            if memory in isa.BASES} == {place.tensor for place in places.values()}


def test_another_room_or_form_is_another_stream(made) -> None:
    loops = program(TINY, 8)
    places = placement(loops, 8, *range(0, 64 * (len(loops.inputs) + 1), 64))
    lower(TINY, loops, places, "layer")
    lower(TINY, loops, places, "layer", from_above=True)
    lower(TINY, loops, places, "layer", room={"inp": (0, TINY.config.buffers["inp"].depth)})
    assert len(made) == 3
    name = loops.outputs[0].name
    pitches = tuple(2 * pitch for pitch in loops.outputs[0].pitches)
    lower(TINY, loops, places | {name: replace(places[name], pitches=pitches)}, "layer")
    assert len(made) == 4


def test_few_are_kept(made) -> None:
    loops = program(TINY, 8)
    places = placement(loops, 8, *range(0, 64 * (len(loops.inputs) + 1), 64))
    for number in range(MOST + 1):
        lower(TINY, replace(loops, name=str(number)), places, "layer")
    before = len(made)
    lower(TINY, loops, places, "layer")
    assert len(made) == before + 1
