"""The manual of a machine's instructions as one HTML file, which needs nothing else."""

from collections.abc import Iterator
from typing import Any

from amaranth.lib import data

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import disassemble
from lockstep.report.templates import rendered, text_of

from .examples import example, hexadecimal
from .instructions import Facts, facts
from .text import (DIAGRAM_BITS, cells, flags_text, immediates_text, layouts, loops_text,
                   timing_text, update_text)
from .markdown import WORDS
from .words import WordField, fields_of, meaning_of

_NARROW = 3                 # bits in which a name is written upwards


def page(machine: Machine) -> str:
    """The whole page."""
    every = facts(machine)
    return rendered(
        "manual/page.html", title=f"Instructions of {machine.config.name}",
        style=text_of("manual/page.css"), words=WORDS, diagram_bits=DIAGRAM_BITS,
        about=f"Machine {machine.hash[:12]}, {len(every)} instructions, words of "
              f"{isa.WORD_BITS} bits.",
        layouts=[_layout(machine, *item) for item in layouts(machine).items()],
        instructions=[_instruction(machine, one) for one in every])


# ---- words -------------------------------------------------------------------------------------

def _layout(machine: Machine, unit: str, name: str) -> dict[str, Any]:
    layout = machine.formats[unit]
    return {"unit": unit, "name": name, "rows": _rows(layout),
            "fields": [*map(_field, fields_of(layout, machine, unit))]}


def _rows(layout: data.Layout) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    low = 0
    for row in cells(layout):
        yield low, [_cell(*cell) for cell in row]
        low += sum(width for *_, width in row)


def _cell(field: WordField | None, label: str, width: int) -> dict[str, Any]:
    classes = " ".join(filter(None, (
        "narrow" if width <= _NARROW else "", "minus" if field and field.minus_one else "",
        "idle" if field and meaning_of(field).startswith("unused") else "")))
    mark = " − 1" if field and field.minus_one else ""
    long = f" × {width} bits" if width > DIAGRAM_BITS else ""
    return {"columns": min(width, DIAGRAM_BITS), "classes": classes,
            "title": f"{label}: {width} bits", "text": f"{label}{mark}{long}"}


def _field(field: WordField) -> dict[str, str]:
    more = f" + {field.stride} i" if field.count > 1 else ""
    return {"bits": f"{field.bits}{more}", "path": field.path.replace("loops.", "loops[i]."),
            "meaning": meaning_of(field)}


# ---- instructions ------------------------------------------------------------------------------

def _instruction(machine: Machine, facts: Facts) -> dict[str, Any]:
    head = (f"Opcode {facts.opcode}, unit {facts.unit}; {loops_text(facts)}; "
            f"{update_text(facts)}; {flags_text(facts)}." if facts.loops else
            f"Opcode {facts.opcode}, performed by {facts.unit}.")
    return {"name": facts.name, "head": head, "fields": [*map(_field, facts.fields)],
            "forms": [_form(machine, facts, number) for number in range(len(facts.forms))],
            "times": timing_text(facts, machine.config.bus_bytes)}


def _form(machine: Machine, facts: Facts, number: int) -> dict[str, Any]:
    form, instruction = facts.forms[number], example(machine, facts.name, number)
    places = [str(place) for place in form.places]
    if form.immediates:
        places.append(f"immediates: {immediates_text(form)}")
    words = " ".join(hexadecimal(machine, instruction))
    return {"formula": form.formula, "places": places,
            "example": f"{disassemble(instruction)}\n{words}"}
