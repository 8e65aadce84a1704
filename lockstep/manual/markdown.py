"""The manual of a machine's instructions as Markdown: docs/isa.md is that of the default machine.
"""

from collections.abc import Iterator
from textwrap import wrap

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import disassemble

from .examples import example, hexadecimal
from .instructions import Facts, facts
from .text import (diagram, flags_text, immediates_text, layouts, loops_text, reads_text,
                   timing_text, update_text)
from .words import fields_of, meaning_of

WIDTH = 120

HEAD = (
    "The instructions of the machine {name}, written from their declarations, word layouts and "
    "datapaths (`pytest tests/lockstep/test_manual.py --update-golden`). `lockstep isa --machine M "
    "--html FILE` writes the same for a machine of one's own, `lockstep intrinsic show NAME` shows "
    "one instruction. What programs, tokens and errors are, [the machine's page](machine.md) says.")
WORDS = (
    f"A word has {isa.WORD_BITS} bits, little-endian in memory. Field widths do not depend on the "
    "geometry. What is stored minus one is marked: 0 stands for 1.",
    "An instruction is a nest of loops around one iteration, the first loop outermost. An address "
    "is that of `base` (`address`, `dram`) plus the sum of index times stride over the loops. "
    "Buffer addresses count entries, those of load and store bytes.",
    "With `reset`, iterations in which every loop with destination stride 0 is at 0 assign. An "
    "iteration is padding when some loop index is below `before`, or at `extent - after` or "
    "above.")


def manual(machine: Machine) -> str:
    """The whole page."""
    lines, inside = [], False
    for line in _lines(machine):
        inside ^= line.startswith("```")
        lines.append(line if line.startswith(("|", "#")) else _wrapped(
            line, "    " if inside else "  " if line.startswith("- ") else ""))
    return "\n".join(lines).rstrip("\n") + "\n"


def _wrapped(line: str, indent: str) -> str:
    """The line, in several ones if it is longer; those after the first are indented."""
    if len(line) <= WIDTH:
        return line
    return "\n".join(wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False,
                          break_on_hyphens=False))


def _lines(machine: Machine) -> Iterator[str]:
    yield from ("# Instructions", "", HEAD.format(name=machine.config.name), "")
    yield from ("## Words", "")
    for paragraph in WORDS:
        yield from (paragraph, "")
    for unit, name in layouts(machine).items():
        yield from _layout(machine, unit, name)
    for facts_ in facts(machine):
        yield from _instruction(machine, facts_)


def _layout(machine: Machine, unit: str, name: str) -> Iterator[str]:
    yield from (f"### Words of {name}", "", "A row is 32 bits, the lowest first; a field is "
                "followed by its width, and by -1 where it is stored minus one.", "", "```text")
    layout = machine.formats[unit]
    yield from diagram(layout)
    yield from ("```", "", "| bits | field | meaning |", "|---|---|---|")
    for field in fields_of(layout, machine, unit):
        path = field.path.replace("loops.", "loops[i].")
        more = f", + {field.stride} i" if field.count > 1 else ""
        yield f"| {field.bits}{more} | `{path}` | {meaning_of(field)} |"
    yield ""


def _instruction(machine: Machine, facts: Facts) -> Iterator[str]:
    yield from (f"## {facts.name}", "", f"Opcode {facts.opcode}, unit {facts.unit}; "
                f"{loops_text(facts)}; {update_text(facts)}; {flags_text(facts)}."
                if facts.loops else f"Opcode {facts.opcode}, performed by {facts.unit}.", "")
    for number, form in enumerate(facts.forms):
        if len(facts.forms) > 1:
            yield from (f"Form {number + 1}:", "")
        yield from ("```text", form.formula, "```", "")
        yield from (f"- {place}" for place in form.places)
        if form.immediates:
            yield f"- immediates: {immediates_text(form)}"
        yield from [""] if form.places else []
        yield from _example(machine, facts, number)
    yield from (f"Fields: {reads_text(facts.fields)}.", "")
    if sentences := timing_text(facts, machine.config.bus_bytes):
        yield from (" ".join(sentences), "")


def _example(machine: Machine, facts: Facts, number: int) -> Iterator[str]:
    instruction = example(machine, facts.name, number)
    yield from ("Example, with its word in parts of 64 bits, the lowest first:", "", "```text",
                disassemble(instruction))
    parts = hexadecimal(machine, instruction)
    yield from (" ".join(parts[start:start + 4]) for start in range(0, len(parts), 4))
    yield from ("```", "")
