"""The manual of a machine's instructions as one HTML file, which needs nothing else."""

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from amaranth.lib import data

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import disassemble

from .examples import example, hexadecimal
from .instructions import Facts, facts
from .text import (DIAGRAM_BITS, cells, flags_text, immediates_text, layouts, loops_text,
                   timing_text, update_text)
from .markdown import WORDS
from .words import WordField, fields_of, meaning_of

__all__ = ["page"]

_NARROW = 3                 # bits in which a name is written upwards


def page(machine: Machine) -> str:
    """The whole page."""
    every = facts(machine)
    title = f"Instructions of {machine.config.name}"
    body = "".join([*(_layout(machine, *item) for item in layouts(machine).items()),
                    "<h2>Instructions</h2>", *(_instruction(machine, one) for one in every)])
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{_style()}</style></head><body>"
            f"<header><h1>{escape(title)}</h1><p>Machine {machine.hash[:12]}, "
            f"{len(every)} instructions, words of {isa.WORD_BITS} bits.</p>"
            f"<nav>{_links(every)}</nav></header><main><h2>Words</h2>"
            f"{''.join(f'<p>{_code(text)}</p>' for text in WORDS)}{body}</main></body></html>\n")


def _style() -> str:
    return Path(__file__).with_name("page.css").read_text("utf-8")


def _code(text: str) -> str:
    """Text in which words between backquotes are code."""
    return "".join(f"<code>{escape(part)}</code>" if place % 2 else escape(part)
                   for place, part in enumerate(text.split("`")))


def _links(every: Iterable[Facts]) -> str:
    return " ".join(f'<a href="#{escape(one.name)}">{escape(one.name)}</a>' for one in every)


# ---- words -------------------------------------------------------------------------------------

def _layout(machine: Machine, unit: str, name: str) -> str:
    layout = machine.formats[unit]
    numbers = "".join(f"<th>{bit}</th>" for bit in range(DIAGRAM_BITS))
    rows = "".join(f"<tr><th>{low}</th>{''.join(map(_cell, row))}</tr>"
                   for low, row in _rows(layout))
    fields = "".join(_field(field) for field in fields_of(layout))
    return (f'<section id="word-{unit}"><h3>Words of {escape(name)}</h3><div class="scroll">'
            f'<table class="bits"><thead><tr><th></th>{numbers}</tr></thead><tbody>{rows}</tbody>'
            f'</table></div><div class="scroll"><table class="fields"><thead><tr><th>bits</th>'
            f"<th>field</th><th>meaning</th></tr></thead><tbody>{fields}</tbody></table></div>"
            f"</section>")


def _rows(layout: data.Layout) -> Iterator[tuple[int, list[tuple[WordField | None, str, int]]]]:
    low = 0
    for row in cells(layout):
        yield low, row
        low += sum(width for *_, width in row)


def _cell(cell: tuple[WordField | None, str, int]) -> str:
    field, label, width = cell
    classes = " ".join(filter(None, (
        "narrow" if width <= _NARROW else "", "minus" if field and field.minus_one else "",
        "idle" if field and meaning_of(field).startswith("unused") else "")))
    mark = " − 1" if field and field.minus_one else ""
    long = f" × {width} bits" if width > DIAGRAM_BITS else ""
    return (f'<td colspan="{min(width, DIAGRAM_BITS)}" class="{classes}" title="{escape(label)}: '
            f'{width} bits"><span>{escape(label)}{mark}{long}</span></td>')


def _field(field: WordField) -> str:
    more = f" + {field.stride} i" if field.count > 1 else ""
    path = field.path.replace("loops.", "loops[i].")
    return (f"<tr><td>{field.bits}{more}</td><td><code>{escape(path)}</code></td>"
            f"<td>{escape(meaning_of(field))}</td></tr>")


# ---- instructions ------------------------------------------------------------------------------

def _instruction(machine: Machine, facts: Facts) -> str:
    head = (f"Opcode {facts.opcode}, unit {facts.unit}; {loops_text(facts)}; "
            f"{update_text(facts)}; {flags_text(facts)}." if facts.loops else
            f"Opcode {facts.opcode}, performed by {facts.unit}.")
    forms = "".join(_form(machine, facts, number) for number in range(len(facts.forms)))
    fields = "".join(_field(field) for field in facts.fields)
    times = "".join(f"<p>{escape(text)}</p>"
                    for text in timing_text(facts, machine.config.bus_bytes))
    return (f'<section id="{escape(facts.name)}"><h3>{escape(facts.name)}</h3><p>{head}</p>{forms}'
            f"{times}<details><summary>{len(facts.fields)} fields of its word</summary>"
            f'<table class="fields"><tbody>{fields}</tbody></table></details></section>')


def _form(machine: Machine, facts: Facts, number: int) -> str:
    form, instruction = facts.forms[number], example(machine, facts.name, number)
    heading = f"<h4>Form {number + 1}</h4>" if len(facts.forms) > 1 else ""
    places = "".join(f"<li>{escape(str(place))}</li>" for place in form.places)
    if form.immediates:
        places += f"<li>immediates: {escape(immediates_text(form))}</li>"
    words = " ".join(hexadecimal(machine, instruction))
    return (f'{heading}<pre class="formula">{escape(form.formula)}</pre>'
            f"{f'<ul>{places}</ul>' if places else ''}"
            f'<pre class="example">{escape(disassemble(instruction))}\n{words}</pre>')
