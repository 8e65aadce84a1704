"""The placed program as text: where its tensors lie, and each word with its assembly and origin."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, TensorSlot, disassemble
from accel.mapping.lowering import TensorPlacement
from accel.mapping.plans.choices import Group, LayerPart
from accel.mapping.schedules import prefix_of
from accel.mapping.texts.layer_words import by_origin, names_of, origin_text, prefixes_of, spans_of
from compiler.texts import Part, PartedText, wrapped

Places = Mapping[str, Mapping[str, TensorPlacement]]


def program_text(machine: Machine, groups: Sequence[Group], places: Places, program: AccelProgram
                 ) -> PartedText:
    """A part for each group of layers, and one for what ends the program."""
    def lines(title: str, span: range, group: Group) -> Iterator[str]:
        yield f"{title}: words {span.start}..{span.stop - 1}"
        for part in group:
            yield from _placed(part, places[part.layer.name])
        prefixes = prefixes_of(group)
        for origin, run in by_origin(program, span):
            yield f"  {origin_text(origin, prefixes)}"
            for index in run:
                yield from word_lines(machine, program, index)

    def end() -> Iterator[str]:
        last = program.count - 1
        yield f"end: word {last}"
        yield from word_lines(machine, program, last)

    return PartedText([
        *(Part(names_of(group),
               lambda title=title, span=span, group=group: lines(title, span, group))
          for group, (title, span) in zip(groups, spans_of(program), strict=True)),
        Part((), end)], lambda: listing(program))


def listing(program: AccelProgram) -> Iterator[str]:
    """Lines about the memory of a program that has it alone: its segments, and the host's tensors.
    """
    yield f"{program.count} words of {program.words.shape[1]} bytes for machine {program.machine}"
    for name, base in program.bases.items():
        yield f"segment {name}: {program.segment_sizes[name]:,} bytes from {base:,} on"
    for word, slots in (("input", program.inputs), ("output", program.outputs)):
        yield from (f"{word} {_slot_text(slot)}" for slot in slots)


def _slot_text(slot: TensorSlot) -> str:
    logical = f", for {list(slot.logical)}" if slot.logical else ""
    return (f"{slot.name}: {slot.dtype}{list(slot.shape)} at {slot.base}+{slot.offset}, "
            f"{slot.layout}{logical}")


def _placed(part: LayerPart, places: Mapping[str, TensorPlacement]) -> Iterator[str]:
    prefix, by = prefix_of(part.layer.operator), f" of {part.layer.name}"
    for name, place in places.items():
        tensor = f" ({place.tensor})" if place.tensor else ""
        yield from wrapped(f"{name.removeprefix(prefix)}{by}: {place.base}+{place.offset}{tensor}",
                           2)


def word_lines(machine: Machine, program: AccelProgram, index: int) -> Iterator[str]:
    """The assembly of a word, and the word in parts of 64 bits, the lowest first; what follows the
    last that is not 0 is left out.
    """
    yield from wrapped(f"{index:>4} {disassemble(program.instruction(machine, index))}", 4, 5)
    parts = program.words[index].view("<u8")
    count = max(np.flatnonzero(parts), default=0) + 1
    yield from wrapped(" ".join(f"{part:016x}" for part in parts[:count]), 9, 0)
