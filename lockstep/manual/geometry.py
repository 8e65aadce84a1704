"""The page of geometries, docs/geometry.md: every field with unit, legal values and costs."""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields, replace
from typing import Any

from accel.estimates.area import area
from accel.estimates.clock import clock
from accel.machine.config import MACHINE, AccelConfig, ConfigError, preset
from accel.machine.dram import Dram
from accel.machine.limits import FieldLimits, limits_of
from accel.machine.machine import Machine
from accel.machine.structure import Structure
from accel.machine.timing import CoreTiming

WIDTH = 120

SECTIONS = {
    "The array": ("batch", "block_in", "block_out", "dataflow", "dsp_multipliers"),
    "Buffers": ("inp_bytes", "wgt_bytes", "res_bytes", "par_bytes", "acc_bytes", "out_bytes",
                "tab_bytes", "weight_bits"),
    "Around the array": ("bus_bytes", "channels", "shared_bytes", "queue_depth", "vector_beats",
                         "stage_depth", "timing"),
    "For reports and simulations": ("name", "clock_mhz", "memory"),
    "What follows from the instructions": ("operand", "weight", "accumulator", "output", "records"),
    "Units and buffers": ("structure",),
}
"""Fields of `AccelConfig` as the page has them."""

SHARED = 1 << 18
"""Bytes of a shared scratchpad for a machine that has none."""

HEAD = (
    f"A machine is a file in TOML, which `lockstep configs {MACHINE} > mine.toml` begins. Every "
    "command takes it: `--machine mine.toml`, or `--target accel:mine.toml`. A field that breaks a "
    "rule is refused in one line, which names the field, the rule and the value. "
    "[The machine](machine.md) says what hardware makes of the fields, [Which machine?](explore.md)"
    " varies them for networks.",
    "Sizes need not be powers of two; what others cost is estimated and reported. Channels in "
    "memory are padded to whole blocks of block_in, which gemm reads, and these to whole blocks of "
    "block_out, which vector writes: all that is read has been written. Where one size divides the "
    "other this is the larger one; with blocks of 12 and 16, 64 channels are 80, of which gemm "
    "reads 72, so a layer of 64 to 64 channels takes 6 x 5 products a pixel where its own need "
    "5.3 x 4. `run` prints the share of the array that padding leaves. Where beats and entries are "
    "no multiples of each other, a buffer's address is divided by a constant on its way to the "
    "memory, and out and acc lose clock by that, which the estimate of clocks does not know.",
    "This page is written from the declarations in `accel/machine/config.py`, "
    "`accel/machine/dram.py` and `accel/machine/timing.py` (`pytest "
    "tests/lockstep/test_geometry_page.py --update-golden`).")
MEMORY = (
    "The table `[memory]`. What is left out has its default. Cycles are those of simulations; "
    "[Memory port](machine.md#memory-port) says what the model does.")
TIMING = (
    "The table `[timing]`. What is left out has its default. Hardware and cycle simulator are "
    "built from these numbers: `--vary timing.ahead=8,32` of `lockstep explore` tries some. A "
    "cycle more costs registers as wide as what passes, a deeper queue distributed memory. "
    "[The machine](machine.md#time) says what each means, and which others follow.")
DOUBLED = (
    f"Estimates for an ECP5 ([what they are](estimates.md)) of {MACHINE}, and of the same machine "
    f"with one field doubled; `shared_bytes`, which is 0, becomes {SHARED}. Multipliers and block "
    "RAMs are counted, the other figures come from the model.")


def geometry_page() -> str:
    """Writes the whole page."""
    return "\n".join(_lines()).rstrip("\n") + "\n"


def _lines() -> Iterator[str]:
    declared = {field.name: field for field in fields(AccelConfig)}
    yield from ("# The fields of a machine", "", *_paragraphs(HEAD))
    for title, names in SECTIONS.items():
        yield from (f"## {title}", "", *_items(declared[name] for name in names), "")
    yield from ("## The memory behind the core", "", *_paragraphs([MEMORY]),
                *_items(fields(Dram)), "")
    yield from ("## The times of the hardware", "", *_paragraphs([TIMING]),
                *_times(), "")
    yield from ("## What doubling a field costs", "", *_paragraphs([DOUBLED]), *_doubled())


def _paragraphs(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (*_wrapped(text), "")


def _items(some: Iterable[Field[Any]]) -> Iterator[str]:
    for field in some:
        yield from _wrapped(_item(field, limits_of(field)), "- ")


def _times() -> Iterator[str]:
    yield "| field | default | legal |"
    yield "|---|--:|---|"
    for field in fields(CoreTiming):
        legal = "; ".join(_rules(field, limits_of(field)))
        yield f"| `{field.name}` | {field.default} | {legal} |"


def _item(field: Field[Any], limits: FieldLimits) -> str:
    unit = f" ({limits.unit})" if limits.unit else ""
    default = "" if field.default is MISSING else f" Default: {_value(field.default)}."
    legal = "; ".join(_rules(field, limits)) + (f" ({limits.why})" if limits.why else "")
    return (f"**`{field.name}`**{unit}: {limits.meaning}. Legal: {legal}.{default} "
            f"Costs: {limits.costs}.")


def _rules(field: Field[Any], limits: FieldLimits) -> Iterator[str]:
    if field.type in (int, int | None):
        kind = "a power of two" if limits.is_power_of_two else "an integer"
        yield kind if limits.most is None and limits.rule else f"{kind}, {limits.range}"
    if field.type is bool:
        yield "true or false"
    if limits.rule:
        yield limits.rule


def _value(value: Any) -> str:
    if isinstance(value, Dram | CoreTiming):
        return "that of an empty table"
    if isinstance(value, Structure):
        return "four units and seven buffers ([the machine](machine.md))"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else f"`{list(value) if isinstance(value, tuple) else value}`"


def _doubled() -> Iterator[str]:
    base = preset(MACHINE)
    yield "| field | LUTs | registers | multipliers | block RAMs | MHz |"
    yield "|---|--:|--:|--:|--:|--:|"
    yield _row("as it is", base)
    for field in fields(AccelConfig):
        if field.type is int and field.name not in ("clock_mhz", "dsp_multipliers"):
            value = 2 * getattr(base, field.name) or SHARED
            try:
                yield _row(f"`{field.name} = {value}`", replace(base, **{field.name: value}))
            except ConfigError:         # no machine has twice of it
                continue


def _row(title: str, config: AccelConfig) -> str:
    machine = Machine(config)
    found = area(machine)
    figures = (found.luts, found.registers, found.multipliers, found.block_rams, clock(machine))
    return f"| {title} | {' | '.join(f'{figure.value:,.0f}' for figure in figures)} |"


def _wrapped(text: str, begin: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=begin, subsequent_indent=" " * len(begin),
                         break_long_words=False, break_on_hyphens=False)
