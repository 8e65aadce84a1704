"""Sentences and diagrams about instructions, for terminals and pages."""

from collections.abc import Iterator, Mapping, Sequence

from amaranth.lib import data

from accel.machine.machine import Machine
from accel.machine.structure import FETCH

from .instructions import Facts, FormFacts
from .timing import UnitTiming
from .words import WordField, fields_of, loop_count

DIAGRAM_BITS = 32
"""Bits of a row of a diagram."""


def layouts(machine: Machine) -> Mapping[str, str]:
    """The units whose word layouts differ, and what their words are called."""
    structure, load, store = machine.structure, *machine.structure.moved
    if machine.formats[load] == machine.formats[store]:
        moves = {load: f"{load} and {store}"}
    else:
        moves = {load: load, store: store}
    return {FETCH: "finish", **moves, **{unit.name: unit.name for unit in structure.units
                                         if not unit.kind.moves}}


def cells(layout: data.Layout) -> Iterator[list[tuple[WordField | None, str, int]]]:
    """A row for every 32 bits of a word, up to the end of the first loop and from that of the last:
    pairs of a field and its label with its bits there; a field of two rows stands in both. None
    instead of a field stands for the loops after the first.
    """
    loops = loop_count(layout)
    pieces: list[tuple[WordField | None, str, int, int]] = []
    for field in fields_of(layout):
        label = field.path.replace("loops.", "loops[0].")
        pieces.append((field, label, field.offset, field.width))
        if field.path.startswith("loops.") and field.stride and \
                field.offset + field.width == _end_of_first_loop(layout):
            end = field.offset + field.width
            label = f"loops[1]{f' ... loops[{loops - 1}]' if loops > 2 else ''}, the same"
            pieces.append((None, label, end, (loops - 1) * field.stride))
    row: list[tuple[WordField | None, str, int]] = []
    filled = 0
    for field, label, _, width in pieces:
        while width:
            whole = filled == 0 and width > DIAGRAM_BITS and (field is None or field.path in (
                "reserved", "rest"))
            part = width // DIAGRAM_BITS * DIAGRAM_BITS if whole else min(
                width, DIAGRAM_BITS - filled)
            row.append((field, label, part))
            filled, width = filled + part, width - part
            if filled >= DIAGRAM_BITS:
                yield row
                row, filled = [], 0


def _end_of_first_loop(layout: data.Layout) -> int:
    return max(field.offset + field.width for field in fields_of(layout)
               if field.path.startswith("loops."))


def diagram(layout: data.Layout) -> Iterator[str]:
    """The rows of `cells` as text, the lowest bit first."""
    low = 0
    for row in cells(layout):
        parts = (f"{label} {width}{' -1' if field and field.minus_one else ''}"
                 for field, label, width in row)
        yield f"{low:3}  {' | '.join(parts)}"
        low += sum(width for *_, width in row)


def loops_text(facts: Facts) -> str:
    """``5 loops around the iteration, the last innermost``."""
    if not facts.loops:
        return "no loops"
    return f"{facts.loops} loops around the iteration, the last innermost"


def update_text(facts: Facts) -> str:
    """The update of the destination by the value, in words."""
    if facts.update == "assign":
        return "assigns"
    how = {"sum": "adds", "max": "keeps the greater", "min": "keeps the smaller"}[facts.update]
    return f"{how} what is there; with reset, iterations that begin a reduction assign"


def flags_text(facts: Facts) -> str:
    return f"flag {', '.join(facts.flags)}" if facts.flags else "no flags"


def immediates_text(form: FormFacts) -> str:
    """``lo: int8, -128 ... 127``; a predicate is what the word says by its fields."""
    return ", ".join(f"{name}: whether the iteration is none of the padding" if dtype == "bool"
                     else f"{name}: {dtype}, {low} ... {high}"
                     for name, dtype, low, high in form.immediates)


def reads_text(fields: Sequence[WordField]) -> str:
    """The fields with their bits; those of loops as in the first loop."""
    return ", ".join(f"{field.path.replace('loops.', 'loops[i].')} {field.bits}"
                     + (" (minus one)" if field.minus_one else "") for field in fields)


def timing_text(facts: Facts, bus_bytes: int) -> list[str]:
    """Sentences about time; empty for FINISH."""
    timing = facts.timing
    if timing is None:
        return []
    waits = f"Besides tokens it waits for {'; '.join(timing.waits)}." if timing.waits else \
        "It waits for tokens alone."
    if not timing.write:
        step = (f"{timing.interval} step of at most {bus_bytes} bytes a cycle" if any(
            field.path == "run" for field in facts.fields) else
            f"at most {timing.interval} entry a cycle, as the component takes them")
        return [f"{timing.first} cycles from taking it to {timing.begins}, then {step}.", waits]
    return [*_computed(timing), waits]


def _computed(timing: UnitTiming) -> Iterator[str]:
    def count(interval: int) -> str:
        return f"{interval} n + {timing.first + timing.write}" if interval > 1 else \
            f"n + {timing.first + timing.write}"

    twice = (f" ({count(timing.shared_interval)}, if both sources are in one buffer)"
             if timing.shared_interval else "")
    yield (f"Latency {timing.write} cycles from the issue of an iteration to its write, of which "
           f"{timing.latency} are the datapath; an iteration every "
           f"{'cycle' if timing.interval == 1 else f'{timing.interval} cycles'}.")
    yield f"n iterations retire {count(timing.interval)} cycles after the start{twice}, or later."
