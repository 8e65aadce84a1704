"""The rules of a bitstream's record, one for each member.

A build writes all of them; one of an older Lockstep has no more than those that programs read.
"""

import math
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from fpga.boards import BOARDS
from fpga.boards.board import BAUD_RATES
from fpga.gateware.pll import OUTPUT_MHZ

Rule = tuple[str, Callable[[Any], bool]]
"""What a value must be, in words, and whether one is it."""

CLOCKS_HZ = tuple(round(mhz * 1e6) for mhz in OUTPUT_MHZ)
HASH = re.compile("[0-9a-f]{64}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and HASH.fullmatch(value) is not None


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_size(value: Any) -> bool:
    """A member of a geometry: a number, a name, or some of one kind."""
    return _is_count(value) or _is_text(value) or _all(_is_count)(value) or _all(_is_text)(value)


def _is_instruction(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and (
        _is_count(value[0]) and _is_hash(value[1]))


def _is_step(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and (
        isinstance(value[0], str) and _is_amount(value[1]))


def _all(is_one: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_one, value))


def _by_name(is_one: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(_is_text, value)) and all(
        map(is_one, value.values()))


TEXT: Rule = "a text", _is_text
HASH_OF: Rule = "64 hexadecimal digits", _is_hash
COUNT: Rule = "a positive integer", _is_count
AMOUNT: Rule = "a number of at least 0", _is_amount
COUNTS: Rule = "numbers by name", _by_name(_is_amount)

READ: dict[str, Rule] = {
    "board": (f"one of {', '.join(BOARDS)}", lambda value: value in [*BOARDS]),
    "config": TEXT, "machine": HASH_OF,
    "geometry": ("positive integers and names", _by_name(_is_size)),
    "instructions": ("an opcode and a hash by name", _by_name(_is_instruction)),
    "layouts": ("hashes by name", _by_name(_is_hash)),
    "clock_hz": ("an integer from {:,} to {:,}".format(*CLOCKS_HZ),
                 lambda value: _is_count(value) and CLOCKS_HZ[0] <= value <= CLOCKS_HZ[1]),
    "baud": (f"one of {', '.join(map(str, BAUD_RATES))}",
             lambda value: _is_count(value) and value in BAUD_RATES),
    "sha256": HASH_OF}
"""The members that programs read."""

TOLD: dict[str, Rule] = {
    "memory": TEXT, "memory_bytes": COUNT, "peak_gops": AMOUNT, "seed": COUNT, "seeds": COUNTS,
    "mhz": AMOUNT, "used": COUNTS, "available": COUNTS,
    "critical_path": ("names with numbers", _all(_is_step)),
    "tools": ("texts", _all(_is_text)), "seconds": AMOUNT}
"""Those that people read."""


def wrong(record: Any) -> str | None:
    """The fault of a record, in words; None where there is none."""
    if not isinstance(record, Mapping):
        return "it is no object in JSON"
    for name, (words, is_right) in {**READ, **TOLD}.items():
        if name not in record:
            if name in READ:
                return f"{name} is missing"
        elif not is_right(record[name]):
            return f"{name} must be {words}, not {reprlib.repr(record[name])}"
    return None
