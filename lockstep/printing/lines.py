"""Text lines for terminals and pages. Repeated reasons are counted."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

Entry = tuple[str, str, str]
"""A layer, its operator, and the reason for its place."""

_NAME_WIDTH = 40
_NO_TERMINAL = 100_000
_OPERATORS = 4      # the most frequent


def width() -> int:
    """The columns of the terminal: `COLUMNS`, else the terminal's own answer; without a terminal so
    many that no line is wrapped.
    """
    return get_terminal_size((_NO_TERMINAL, 24)).columns


def say(line: str = "", indent: int = 2) -> None:
    """Prints a line in the terminal's width; further lines are indented by `indent`. A wider word,
    such as a path, stays whole.
    """
    lines = wrap(line, width(), subsequent_indent=" " * indent, break_long_words=False,
                 break_on_hyphens=False)
    print("\n".join(lines))


def shortened(name: str, most: int = _NAME_WIDTH) -> str:
    """The name, at most this long: an ellipsis replaces the middle."""
    if len(name) <= most:
        return name
    last = (most - 1) // 2
    return f"{name[:most - 1 - last]}…{name[len(name) - last:]}"


def counted(heading: str, entries: Iterable[Entry], verbose: bool) -> Iterator[str]:
    """A line for each reason, the most frequent first; with `verbose` a line for each layer.

    ``on the host: conv2d: 12 layers, clip: 3 layers (the target is the host)``. Reasons that differ
    only in numbers and quoted names count as one.
    """
    entries = list(entries)
    if verbose:
        yield from (f"{heading}: {name} ({reason})" for name, _, reason in entries)
        return
    kinds: dict[str, list[Entry]] = {}
    for entry in entries:
        kinds.setdefault(_kind(entry[2]), []).append(entry)
    for alike in sorted(kinds.values(), key=len, reverse=True):
        reasons = {reason for _, _, reason in alike}
        such_as = "such as: " if len(reasons) > 1 else ""
        yield f"{heading}: {_layers(alike)} ({such_as}{alike[0][2]})"


def _kind(reason: str) -> str:
    """The reason without its numbers, their units of time, and quoted names."""
    return re.sub(r"'[^']*'|\d[\d.,]*( (ns|us|ms|s)\b)?", "#", reason)


def _layers(entries: list[Entry]) -> str:
    """Names a single layer; gives several by operator and count."""
    if len(entries) == 1:
        return shortened(entries[0][0])
    counts = Counter(operator for _, operator, _ in entries).most_common()
    others = sum(count for _, count in counts[_OPERATORS:])
    shown = counts[:_OPERATORS] + ([("others", others)] if others else [])
    return ", ".join(f"{operator}: {count} {'layer' if count == 1 else 'layers'}"
                     for operator, count in shown)


def host_entries(figures: Mapping[str, Any]) -> list[Entry]:
    """The name, operator and reason of every node on the host."""
    operators = {name: op for segment in figures["segments"]
                 for name, op in zip(segment["nodes"], segment["operators"], strict=True)}
    return [(name, operators[name], reason) for name, reason in figures["host"].items()]
