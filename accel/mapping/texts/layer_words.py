"""Which instructions of a program are whose: the words of layers, and those of statements."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from accel.machine.isa import BASES
from accel.machine.program import AccelProgram
from accel.machine.origins import Origin, Site
from accel.mapping.plans.choices import Group
from accel.mapping.schedules import prefix_of


def names_of(group: Group) -> tuple[str, ...]:
    """The names that a group's part answers to: those of its layers and of their nodes."""
    return tuple(dict.fromkeys(name for part in group
                               for name in (part.layer.name, part.layer.node.name)))


def prefixes_of(group: Group) -> dict[str, str]:
    """The prefix of all names in a layer's schedule, by the layer's name."""
    return {part.layer.name: prefix_of(part.layer.operator) for part in group}


def spans_of(program: AccelProgram) -> list[tuple[str, range]]:
    """The title of each group of layers, and the numbers of its instructions."""
    ends = pairwise((0, *(end for _, end in program.layers)))
    return [(title, range(*span)) for (title, _), span in zip(program.layers, ends, strict=True)]


def by_origin(program: AccelProgram, span: Sequence[int]) -> Iterator[tuple[Origin, list[int]]]:
    """Instructions that follow each other and come from the same iteration of unrolled loops."""
    run: list[int] = []
    last, key = Origin(), None
    for index in span:
        origin = program.origin(index)
        if run and str(origin) != key:
            yield last, run
            run = []
        last, key = origin, str(origin)
        run.append(index)
    if run:
        yield last, run


def origin_text(origin: Origin, prefixes: Mapping[str, str]) -> str:
    """A layer and its unrolled loops, by their names within the layer."""
    layer = origin.site.layer
    loops = (f"{loop.name.removeprefix(prefixes[layer])}={value}"
             for loop, value in zip(origin.site.loops, origin.position))
    return " ".join((layer, *loops))


def tensor_text(site: Site, place: tuple[str, str, str], prefixes: Mapping[str, str]) -> str:
    """A tensor with its memory, ``inp.input``; what the network has by the name there."""
    _, memory, tensor = place
    of_network = memory in BASES and memory != "weights"
    return f"{memory}.{tensor if of_network else tensor.removeprefix(prefixes[site.layer])}"


def numbers_text(numbers: Sequence[int]) -> str:
    """Numbers in ascending order, runs of them as ``3..7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}..{run[1]}" for run in runs)
