"""Groups of layers as streams of words, and streams as a program with its tokens."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.machine.config import element_bytes
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Stream, finish
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.loads import constants_first, padding_once
from accel.mapping.lowering import LoweringError, lower
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.rings import Demand, moved_of, period_of, ringed
from accel.mapping.memory_map import MemoryMap
from accel.mapping.plans.choices import Group, LayerPart
from accel.mapping.plans.interleave import interleave
from accel.mapping.positions.puts import PlacePut, widened
from accel.mapping.schedules import prefix_of, scheduled
from accel.mapping.spreading import spread
from accel.proof.legal import IllegalProgram, ordered
from compiler.defects import blame, blaming


@dataclass(frozen=True)
class LoweredGroup:
    """The stream of a group, without tokens, and its stores whose place a run decides: they write
    all places.
    """

    group: Group
    stream: Stream
    puts: tuple[PlacePut, ...]


def assembled(machine: Machine, lowered: Iterable[LoweredGroup], memory: MemoryMap
              ) -> tuple[AccelProgram, list[PlacePut]]:
    """The program of some layers, with its tokens, and the stores whose place a run decides: these
    write all places.
    """
    streams: list[Stream] = []
    ends: list[tuple[str, int]] = []
    puts: list[PlacePut] = []
    for piece in lowered:
        begin = ends[-1][1] if ends else 0
        puts += [put.after(begin) for put in piece.puts]
        streams.append(piece.stream)
        ends.append((" + ".join(part.layer.name for part in piece.group),
                     begin + len(piece.stream)))
    with blaming_layers(memory):
        return ended(
            machine, streams, weights=memory.weights, activations_bytes=memory.activations,
            io_bytes=memory.io, inputs=memory.inputs, outputs=memory.outputs,
            layers=tuple(ends)), puts


def lowered_groups(machine: Machine, groups: Sequence[Group], memory: MemoryMap
                   ) -> Iterator[LoweredGroup]:
    return (lowered_group(machine, group, memory, number % 2 == 1)
            for number, group in enumerate(groups))


def lowered_group(machine: Machine, group: Group, memory: MemoryMap, from_above: bool
                  ) -> LoweredGroup:
    """The stream of a group; buffers are taken `from_above` or from below."""
    with blaming(part.layer.node.name for part in group):
        parts = [_stream(machine, part, memory, from_above) for part in group]
    stream = parts[0] if len(parts) == 1 else interleave(
        machine, parts[0], parts[1], group[0].cost.work)
    stream = spread(machine, stream)
    for value in memory.activations_of(group):
        if value in memory.rings:
            stream = ringed(machine, stream, memory.rings[value])
    puts = tuple(_put_of(machine, part.layer, memory.forms, stream) for part in group
                 if part.layer.node.op == "qput")
    return LoweredGroup(group, constants_first(machine, widened(machine, stream, puts)), puts)


def demands_of(machine: Machine, groups: Sequence[Group], memory: MemoryMap, with_rings: bool
               ) -> dict[str, Demand]:
    """The demands of the values between layers, as groups move them; `with_rings`: of a value
    between two layers computed at the same time no more is kept than must be.
    """
    moved, kept = Counter[str](), dict(memory.sizes)
    for number, group in enumerate(groups):
        stream = lowered_group(machine, group, memory, number % 2 == 1).stream
        for value in memory.activations_of(group):
            moved[value] += moved_of(machine, stream, memory.places[value].offset,
                                     memory.sizes[value])
        if with_rings and (passing := memory.passing(group)):
            value, row = passing
            kept[value] = period_of(machine, stream, memory.places[value].offset,
                                    memory.sizes[value], row) or kept[value]
    return {value: Demand(moved[value], size) for value, size in kept.items()}


def _stream(machine: Machine, part: LayerPart, memory: MemoryMap, from_above: bool) -> Stream:
    operator = part.layer.operator
    named = scheduled(machine, operator, part.tiles, part.threads)
    prefix = prefix_of(operator)
    theirs = {named.prefix + name.removeprefix(prefix): place
              for name, place in memory.placement(part.layer).items()}
    stream = lower(machine, named.program, theirs, part.layer.name, part.room,
                   from_above, lambda name: named.renamed(name, prefix))
    return padding_once(machine, stream) if operator.row else stream


def _put_of(machine: Machine, layer: MappedLayer, forms: Forms, stream: Stream) -> PlacePut:
    """The stores of a layer in a stream, as what the driver moves."""
    node, view = layer.node, forms.view(layer.node.outputs[0])
    assert view is not None
    axis = node.attrs["axis"]
    codes = [machine.opcodes[one.name] for one in machine.of_unit("store")]
    stores = tuple(index for index in np.flatnonzero(np.isin(stream.words[:, 0], codes)).tolist()
                   if stream.origins.origin(index).site.layer == layer.name)
    if not stores:
        raise LoweringError(f"{layer.name}: no store of what is put is known by its origin")
    return PlacePut(node.inputs[2], view.shape[axis],
                    view.strides[axis] * element_bytes(forms.blocks.element), stores)


@contextmanager
def blaming_layers(memory: MemoryMap) -> Iterator[None]:
    """Blames an illegal program on the layers of the instructions at fault."""
    try:
        yield
    except IllegalProgram as error:
        known = [memory.layers[name] for name in error.layers if name in memory.layers]
        if known:
            blame(error, dict.fromkeys(layer.node.name for layer in known))
        raise


def ended(machine: Machine, streams: list[Stream], **parts: Any) -> AccelProgram:
    """The program of streams, one after the other, with tokens and FINISH added."""
    stream = Stream.joined([*streams, Stream.of(machine, [finish()])])
    streams.clear()                             # they are as long as the whole
    return AccelProgram.assemble(machine, ordered(machine, stream), **parts)
