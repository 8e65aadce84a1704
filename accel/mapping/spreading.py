"""Tiles in turn for each unit of vector, on machines with several."""

from collections.abc import Mapping
from functools import cache

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import Stream
from accel.machine.structure import Unit, UnitKind
from accel.machine.words import column
from accel.proof.access import Touch, touches
from accel.proof.batches import Batches
from compiler.tensorize import Intrinsic, Operand


@cache
def sharers(machine: Machine) -> int:
    """Units of vector that have every instruction of the first one, itself included: tiles of any
    layer may be given to them in turn."""
    first, *others = machine.structure.of_kind(UnitKind.VECTOR)
    return 1 + sum(len(_twins(machine, first, other)) == len(machine.of_unit(first.name))
                   for other in others)


@cache
def twins(machine: Machine) -> Mapping[str, str]:
    """The instructions of further units of vector that compute what one of the first unit does,
    each with the name of that one."""
    first, *others = machine.structure.of_kind(UnitKind.VECTOR)
    return {machine.names[other]: machine.names[code] for unit in others
            for code, other in _twins(machine, first, unit).items()}


def spread(machine: Machine, stream: Stream) -> Stream:
    """The stream, without tokens, with its tiles executed by the units of vector in turn: results
    of a tile lie in the unit's own buffer, from which they are stored.

    A tile ends with its stores. Tiles of which one stores what another one computed stay together,
    and those with an instruction that another unit does not have stay with the first.
    """
    first, *others = machine.structure.of_kind(UnitKind.VECTOR)
    if not others or not len(stream):
        return stream
    batches = Batches(machine, stream.words, stream.origins, {})
    names, store = machine.structure.names, machine.structure.roles.store
    units, opcodes = batches.units, stream.words[:, 0]
    tiles = _tiles(units == names.index(store))
    of_first = units == names.index(first.name)
    parts = _parts(batches, np.flatnonzero(of_first | (units == names.index(store))), tiles)
    words, known = stream.words.copy(), [_twins(machine, first, other) for other in others]
    layout = machine.formats[store]
    field, of_out = dict(layout)["buffer"], machine.structure.buffer_names.index(first.writes[1])
    leaving = (units == names.index(store)) & (column(layout, words, "buffer") == of_out)
    for turn, part in enumerate(dict.fromkeys(parts)):
        number = turn % (len(others) + 1) - 1
        here = np.isin(tiles, np.flatnonzero(parts == part))
        computed, stored = (np.flatnonzero(here & some) for some in (of_first, leaving))
        if number < 0 or any(code not in known[number] for code in opcodes[computed].tolist()):
            continue
        words[computed, 0] = [known[number][code] for code in opcodes[computed].tolist()]
        code = machine.structure.buffer_names.index(others[number].writes[1])
        place, shift = field.offset // 8, field.offset % 8
        kept = words[stored, place] & (0xFF ^ (1 << field.width) - 1 << shift)
        words[stored, place] = kept | code << shift
    return Stream(words, stream.origins)


def _tiles(stores: np.ndarray) -> np.ndarray:
    """The number of each instruction's tile."""
    ends = np.flatnonzero(stores[:-1] & ~stores[1:]) + 1
    return np.searchsorted(ends, np.arange(len(stores)), side="right")


def _parts(batches: Batches, indexes: np.ndarray, tiles: np.ndarray) -> np.ndarray:
    """For each tile the first of those that store what the others compute."""
    machine = batches.machine
    out = machine.structure.roles.out
    writers = np.full(machine.config.buffers[out].size_bytes, -1)
    parts = np.arange(int(tiles[-1]) + 1)
    for index, tile in zip(indexes.tolist(), tiles[indexes].tolist(), strict=True):
        for touch in touches(machine, batches.instruction(index)):
            if touch.memory != out:
                continue
            places = _bytes(touch)
            if touch.write:
                writers[places] = tile
                continue
            for other in np.unique(writers[places]).tolist():
                if other >= 0 and parts[other] != parts[tile]:
                    parts[parts == max(parts[other], parts[tile])] = min(
                        parts[other], parts[tile])
    return parts


def _bytes(touch: Touch) -> np.ndarray:
    starts, length = touch.walk.runs(touch.scale, touch.width)
    return (starts[:, None] + np.arange(length)).reshape(-1)


def _twins(machine: Machine, first: Unit, other: Unit) -> dict[int, int]:
    """For opcodes of a unit those of another one that compute the same from and to its buffers,
    where their words are laid out alike."""
    buffers = {port.buffer: its.buffer for port, its in zip(first.ports, other.ports)}
    theirs = {_meaning(body, {}): body.name for body in machine.of_unit(other.name)}
    found = {}
    for body in machine.of_unit(first.name):
        twin = theirs.get(_meaning(body, buffers))
        if twin is not None and machine.layouts[twin] == machine.layouts[body.name]:
            found[machine.opcodes[body.name]] = machine.opcodes[twin]
    return found


def _meaning(body: Intrinsic, buffers: dict[str, str]) -> str:
    """A body as text, without its name, in other buffers."""
    def placed(operand: Operand) -> Operand:
        return Operand(operand.name, operand.shape, operand.dtype, tuple(
            (buffers.get(scope, scope), dtype) for scope, dtype in operand.storage))

    return repr((placed(body.dst), [*map(placed, body.operands)], body.axes, body.value,
                 body.update, body.immediates, body.loops))
