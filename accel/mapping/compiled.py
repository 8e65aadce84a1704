"""A segment of an integer graph that is compiled: its program, and how the program came about."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from accel.machine.device import Device
from accel.machine.program import AccelProgram
from accel.figures.work import Work
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.positions.prefixes import PrefixStream
from accel.mapping.positions.puts import PlacePut
from accel.mapping.segment import AccelSegment
from accel.mapping.texts import Way, listing, stages_of
from accel.mapping.texts.prefixes_text import prefixes_text
from accel.mapping.texts.timeloop_text import timeloop_text

EMITTED = ("loops", "program", "timeloop")
"""Texts that are written instead of a module, if asked for."""


@dataclass(frozen=True)
class CompiledSegment:
    """A program and the useful work of its layers, for reports: an entry for each of
    `AccelProgram.layers`, so layers computed at the same time share one. `way` says how the graph
    became the program; a loaded segment has none. `puts` are stores whose place a run decides, and
    `prefixes` streams for positions below some count of places, the shortest first. `dropped` has
    the counts for which there is none though the graph has a shorter form, and why; it is empty in
    a loaded segment.
    """

    program: AccelProgram
    work: tuple[tuple[Work, ...], ...]
    way: Way | None = None
    puts: tuple[PlacePut, ...] = ()
    prefixes: tuple[PrefixStream, ...] = ()
    dropped: tuple[tuple[int, str], ...] = ()
    kind: ClassVar[str | None] = "program"

    @property
    def groups(self) -> tuple[tuple[MappedLayer, ...], ...]:
        """The layers, those that are computed at the same time together; none if loaded."""
        return self.way.layers if self.way else ()

    @property
    def layers(self) -> tuple[MappedLayer, ...]:
        return tuple(layer for group in self.groups for layer in group)

    @property
    def text(self) -> list[str]:
        return [self.program.words.tobytes().hex()]

    @property
    def stages(self) -> dict[str, object]:
        if self.way is None:
            return {}
        shown: dict[str, object] = {**stages_of(self.way, self.program)}
        if self.prefixes or self.dropped:
            shown["prefixes"] = prefixes_text(self.way.machine, self.way.groups, self.program,
                                              self.prefixes, self.dropped)
        return shown

    def emitted(self, kind: str, comment: str, arch: str) -> str | None:
        if self.way is None or kind not in EMITTED:
            return None
        if kind == "timeloop":
            return timeloop_text(self.way.machine, self.way.groups).body
        return stages_of(self.way, self.program)[kind].body

    def listing(self) -> Iterator[str]:
        return listing(self.program)

    def on(self, device: Device | None) -> AccelSegment:
        """Place the segment on a device. Raises ProgramError for a device with another machine."""
        assert device is not None, "a program needs a device"
        self.program.require(device.machine)
        return AccelSegment(self.program, self.work, device, self.puts, self.prefixes)
