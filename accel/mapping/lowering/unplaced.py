"""Streams of layers whose tensors have no places yet: a schedule is lowered once for all layers
that have it.

Where a tensor lies is in the words of its copies alone, as a number in their address in DRAM.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.origins import Loop, Origins, Site
from accel.machine.program import Stream
from accel.mapping.lowering.memory import Room, TensorPlacement
from compiler.ir import Program

NONE = -1
"""The tensor in DRAM of an instruction that reads and writes buffers alone."""

MOST = 64
"""Streams that a process keeps, those that were used last."""

Renamed = Callable[[str], str]


@dataclass(frozen=True)
class UnplacedKey:
    """The facts that a stream follows from, without the places of its tensors. Programs are told
    apart as objects.
    """

    machine_hash: str
    program: int
    placement: tuple[tuple[str, TensorPlacement], ...]
    room: tuple[tuple[str, tuple[int, int]], ...]
    from_above: bool

    @classmethod
    def of(cls, machine: Machine, program: Program, placement: Mapping[str, TensorPlacement],
           room: Room | None, from_above: bool) -> "UnplacedKey":
        return cls(machine.hash, id(program), tuple(
            (name, replace(place, offset=0, tensor="")) for name, place in placement.items()),
            tuple(sorted((room or {}).items())), from_above)


@dataclass(frozen=True)
class UnplacedStream:
    """Words and origins of a layer as its schedule names them, with all tensors at the start of
    their segments. `copied` has, for each instruction, the number of its tensor among `tensors`.
    """

    words: np.ndarray
    origins: np.ndarray
    sites: tuple[Site, ...]
    tensors: tuple[str, ...]
    copied: np.ndarray

    def placed(self, placement: Mapping[str, TensorPlacement], layer: str, renamed: Renamed
               ) -> Stream:
        """The stream of a layer whose tensors have places."""
        words = self.words.copy()
        offsets = np.array([*(placement[name].offset for name in self.tensors), 0], np.uint64)
        field = isa.DMA["dram"]
        at = slice(field.offset // 8, field.offset // 8 + 4)
        before = np.ascontiguousarray(words[:, at]).view("<u4")[:, 0]
        moved = (before + offsets[self.copied]).astype("<u4")       # wraps
        is_copy = self.copied != NONE
        words[is_copy, at] = moved[is_copy, None].view(np.uint8)
        sites = [_named(site, placement, layer, renamed) for site in self.sites]
        return Stream(words, Origins.numbered(sites, self.origins.copy()).trimmed())


def _named(site: Site, placement: Mapping[str, TensorPlacement], layer: str, renamed: Renamed
           ) -> Site:
    """A site with the layer's names."""
    def tensor(memory: str, name: str) -> str:
        return memory in isa.BASES and placement[name].tensor or renamed(name)

    return Site(layer, tuple(Loop(renamed(loop.name), loop.extent, loop.kind)
                             for loop in site.loops), tuple(map(renamed, site.folded)),
                tuple((operand, memory, tensor(memory, name))
                      for operand, memory, name in site.tensors))


_kept: OrderedDict[UnplacedKey, tuple[Program, UnplacedStream]] = OrderedDict()


def lowered_once(key: UnplacedKey, program: Program, make: Callable[[], UnplacedStream]
                 ) -> UnplacedStream:
    """The stream of a program, made if it is not kept; its identity is that of no other meanwhile.
    """
    if key not in _kept:
        _kept[key] = program, make()
        while len(_kept) > MOST:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key][1]
