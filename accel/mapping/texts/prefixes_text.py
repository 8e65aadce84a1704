"""Streams for small positions as text: how many there are, and the words that they have alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.mapping.plans.choices import Group
from accel.mapping.positions.prefixes import PrefixStream
from accel.mapping.texts.layer_words import by_origin, origin_text, prefixes_of, spans_of
from accel.mapping.texts.program_text import word_lines
from compiler.texts import Part, PartedText


def prefixes_text(machine: Machine, groups: Sequence[Group], program: AccelProgram,
                  prefixes: Sequence[PrefixStream], dropped: Sequence[tuple[int, str]]
                  ) -> PartedText:
    """A part for each group of layers that a stream has words of its own for; in front of them a
    line for each count of places, and for each for which there is none, with the reason.
    """
    def head() -> Iterator[str]:
        lines = {prefix.places: f"{prefix.count(program)} instructions, {len(prefix.own)} of "
                                f"their own" for prefix in prefixes}
        lines |= {places: f"none: {reason}" for places, reason in dropped}
        yield from (f"{places} places: {lines[places]}" for places in sorted(lines))
        yield f"all places: {program.count} instructions"

    names = {layer: begin for group in groups for layer, begin in prefixes_of(group).items()}
    return PartedText([part for prefix in prefixes for part in _own(
        machine, program, prefix, names)], head)


def _own(machine: Machine, whole: AccelProgram, prefix: PrefixStream, names: Mapping[str, str]
         ) -> Iterator[Part]:
    own = replace(whole, words=prefix.own.words, origins=prefix.own.origins,
                  layers=prefix.layers)

    def lines(title: str, span: range) -> Iterator[str]:
        yield f"{title}, {prefix.places} places: {len(span)} words of its own"
        for origin, run in by_origin(own, span):
            yield f"  {origin_text(origin, names)}"
            for index in run:
                yield from word_lines(machine, own, index)

    for title, span in spans_of(own):
        layers = dict.fromkeys(own.origin(index).site.layer for index in span)
        yield Part((*layers,), lambda title=title, span=span: lines(title, span))
