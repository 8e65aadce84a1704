"""Prints what `lockstep inspect` finds: the file's spellings, the fate of each layer, and why."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.printing.layers import reason_lines, segment_lines
from lockstep.printing.lines import Entry, counted, say
from lockstep.printing.table import show_columns, show_table

_OPERATORS = 3      # the most frequent of a spelling
_REFUSAL = re.compile(r"(.+?) \(([^()\s]+)(?:, [^()]*)?\): (.+)", re.DOTALL)


def show_file(figures: Mapping[str, Any]) -> None:
    """Prints what the file says of itself."""
    by = ", ".join(figures["tools"])
    say(f"{figures['model']}: {figures['kind']}" + (f"; written by {by}" if by else ""))
    if not figures["spellings"]:
        say("no quantization in it")
        return
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in figures["spellings"]:
        own = counts.setdefault((row["spelling"], row["types"]), Counter())
        own[row["operator"]] += row["count"]
    show_columns("", ("spelling", "types", "operators", "count"), [
        (spelling, types, _most_frequent(own), f"{own.total():,}")
        for (spelling, types), own in counts.items()], left=3)


def _most_frequent(counts: Counter[str]) -> str:
    names = [f"{name} {count}" if len(counts) > 1 else name
             for name, count in counts.most_common(_OPERATORS)]
    return ", ".join(names) + ", ..." * (len(counts) > _OPERATORS)


def show_fates(figures: Mapping[str, Any], verbose: bool) -> None:
    """Prints each layer with its target, what is computed where, and why not elsewhere."""
    from runtime.driver.pipeline import is_about_float

    for note in filter(is_about_float, figures["notes"]):
        say(note)
    show_table("", ("layer", "operator", "types", "products", "target"), [
        (fate["name"], fate["op"], f"{', '.join(fate['inputs'])} -> {fate['output']}",
         f"{fate['multiplications']:,}" if fate["multiplications"] else "-", fate["target"])
        for fate in figures["fates"]], left=2, last_left=True)
    for line in (*_shares(figures["fates"]), *segment_lines(figures, verbose),
                 *reason_lines(figures, verbose)):
        say(line)


def _shares(fates: Sequence[Mapping[str, Any]]) -> list[str]:
    """``products: 96.2% in integers on accel, 3.8% in float on host``."""
    shares: Counter[str] = Counter()
    for fate in fates:
        in_integers = fate["inputs"][:1] != [] and "int" in fate["inputs"][0]
        shares[f"in {'integers' if in_integers else 'float'} on {fate['target']}"] += (
            fate["multiplications"])
    if not shares.total():
        return []
    return ["products: " + ", ".join(f"{count / shares.total():.1%} {where}"
                                     for where, count in shares.most_common() if count)]


def show_refusals(refusals: Sequence[str], verbose: bool) -> None:
    """Prints what is not supported, the same of several nodes once."""
    for line in counted("not supported", map(_entry, refusals), verbose):
        say(line)


def _entry(refusal: str) -> Entry:
    found = _REFUSAL.fullmatch(refusal)
    return (found[1], found[2], found[3]) if found else (refusal, "", refusal)
