"""The way of a segment from its graph to a program, and the text of each stage on it.

::

    forms     how each value lies in memory                       by node
    layers    the expressions that compute each node              by layer
    tiles     how each layer is cut, and why so                   by layer
    loops     the scheduled loop program of each layer            by layer
    stream    the instructions, and which waits for which         by layer
    program   the words, where they and their tensors lie         by layer

A layer has the name of its node, with a colon and a part behind it where a node becomes several
layers. By that name it is found in every stage; instructions have their numbers in the program.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.lowering import TensorPlacement
from accel.mapping.memory.forms import Forms
from accel.mapping.plans.choices import Group
from accel.mapping.texts.forms_text import forms_text
from accel.mapping.texts.layers_text import layers_text
from accel.mapping.texts.loops_text import loops_text
from accel.mapping.texts.program_text import program_text
from accel.mapping.texts.stream_text import stream_text
from accel.mapping.texts.tiles_text import tiles_text
from compiler.texts import PartedText


@dataclass(frozen=True, eq=False)
class Way:
    """The decisions on the way from a graph to a program, in order.

    Parameters
    ----------
    threads : the most virtual threads that a layer might have.
    groups : the layers with their tiles; those that are computed at the same time together.
    places : where the tensors of each layer lie, by its name and theirs.
    memory : where each value lies that has memory of its own.
    """

    machine: Machine
    threads: int
    forms: Forms
    groups: tuple[Group, ...]
    places: Mapping[str, Mapping[str, TensorPlacement]]
    memory: Mapping[str, TensorPlacement]

    @property
    def layers(self) -> tuple[tuple[MappedLayer, ...], ...]:
        return tuple(tuple(part.layer for part in group) for group in self.groups)


STAGES: Mapping[str, Callable[[Way, AccelProgram], PartedText]] = {
    "forms": lambda way, program: forms_text(way.forms, way.memory),
    "layers": lambda way, program: layers_text(way.layers),
    "tiles": lambda way, program: tiles_text(way.machine, way.threads, way.groups),
    "loops": lambda way, program: loops_text(way.machine, way.groups, program),
    "stream": lambda way, program: stream_text(way.machine, way.groups, program),
    "program": lambda way, program: program_text(way.machine, way.groups, way.places, program),
}
"""The text of each stage, in order."""


def stages_of(way: Way, program: AccelProgram) -> dict[str, PartedText]:
    return {name: text(way, program) for name, text in STAGES.items()}
