"""The instructions of a program as text: what each moves or computes, and whose tokens it takes."""

from collections.abc import Iterator, Sequence

import numpy as np

from accel.machine.machine import FINISH, Machine
from accel.machine.program import AccelProgram
from accel.mapping.plans.choices import Group
from accel.mapping.texts.layer_words import (by_origin, names_of, origin_text, prefixes_of,
                                             spans_of, tensor_text)
from compiler.latency_hiding import TokenPair, pair_masks
from compiler.lazy import cached_property
from compiler.texts import Part, PartedText, wrapped

WAITS, SIGNALS = 1, 2
"""Bytes of a word."""


def stream_text(machine: Machine, groups: Sequence[Group], program: AccelProgram) -> PartedText:
    """A part for each group of layers. An instruction is one line below its unrolled loops."""
    tokens = _Tokens(machine, program)

    def lines(title: str, span: range, group: Group) -> Iterator[str]:
        yield f"{title}: instructions {span.start}..{span.stop - 1}"
        prefixes = prefixes_of(group)
        for origin, run in by_origin(program, span):
            yield f"  {origin_text(origin, prefixes)}"
            for index in run:
                yield from wrapped(_line(machine, program, index, prefixes) + tokens.text(index), 4)

    def head() -> Iterator[str]:
        yield f"{program.count} instructions, {tokens.count} tokens"

    return PartedText([
        Part(names_of(group), lambda title=title, span=span, group=group: lines(title, span, group))
        for group, (title, span) in zip(groups, spans_of(program), strict=True)], head)


def _line(machine: Machine, program: AccelProgram, index: int, prefixes: dict[str, str]) -> str:
    name, site = machine.names[int(program.words[index, 0])], program.origin(index).site
    places = {operand: tensor_text(site, (operand, memory, tensor), prefixes)
              for operand, memory, tensor in site.tensors}
    target = places.pop("dst", "")
    sources = ", ".join(dict.fromkeys(places.values()))
    return f"{index:>4} {name}: {target} <- {sources}"


class _Tokens:
    """Pairs the tokens of a program when they are asked for: who waits for whom."""

    def __init__(self, machine: Machine, program: AccelProgram):
        self.machine, self.words = machine, program.words

    @cached_property
    def pairs(self) -> dict[tuple[str, str], TokenPair]:
        words = self.words[self.words[:, 0] != FINISH]
        unit_of, names = np.zeros(256, np.int64), self.machine.structure.names
        for opcode, unit in self.machine.units.items():
            unit_of[opcode] = names.index(unit) if unit in names else 0
        return pair_masks(names, unit_of[words[:, 0]], *(words[:, byte].astype(np.int64)
                                                         for byte in (WAITS, SIGNALS)))

    @cached_property
    def events(self) -> dict[int, tuple[list[str], list[str]]]:
        """For each instruction whose tokens it takes, and who takes those that it gives."""
        events: dict[int, tuple[list[str], list[str]]] = {}
        for (giver, taker), pair in self.pairs.items():
            for given, taken in zip(pair.signals, pair.waits):
                events.setdefault(taken, ([], []))[0].append(f"{giver} {given}")
                events.setdefault(given, ([], []))[1].append(f"{taker} {taken}")
        return events

    @property
    def count(self) -> int:
        return sum(len(pair.signals) for pair in self.pairs.values())

    def text(self, index: int) -> str:
        waits, signals = self.events.get(index, ([], []))
        parts = [f"{word} {', '.join(others)}"
                 for word, others in (("waits for", waits), ("signals", signals)) if others]
        return f"  ({'; '.join(parts)})" if parts else ""
