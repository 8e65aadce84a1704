"""Texts of stages in parts that can be asked for by name, one for each layer or segment."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

WIDTH = 110


@dataclass(frozen=True, eq=False)
class Part:
    """A part that answers to some `names`; `lines` are made when it is asked for."""

    names: tuple[str, ...]
    lines: Callable[[], Iterator[str]]

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines())


@dataclass(frozen=True, eq=False)
class PartedText:
    """A text of what is true of all, `head`, and of parts, with blank lines between them."""

    parts: Sequence[Part]
    head: Callable[[], Iterator[str]] = lambda: iter(())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.names))

    @property
    def body(self) -> str:
        """The parts alone."""
        return "\n".join(map(str, self.parts))

    def of(self, name: str) -> str:
        """The parts of this name; empty where there are none."""
        return "\n".join(str(part) for part in self.parts if name in part.names)

    def __str__(self) -> str:
        return "\n".join(filter(None, (str(Part((), self.head)), self.body)))


@dataclass(frozen=True, eq=False)
class SegmentTexts:
    """The results of one stage for several segments, by their titles."""

    results: Sequence[tuple[str, Any]]

    def __str__(self) -> str:
        return "\n".join(f"{title}\n\n{result}".rstrip("\n") + "\n"
                         for title, result in self.results)


def wrapped(line: str, indent: int, more: int = 4) -> Iterator[str]:
    """A line, indented, as several of at most `WIDTH` columns, the further ones `more` deeper. What
    stands in brackets stays together where it can.
    """
    whole = re.sub(r"\[[^\[\]]*\]", lambda match: match[0].replace(" ", _JOINED)
                   if len(match[0]) < WIDTH // 2 else match[0], line)
    for text in wrap(whole, WIDTH, initial_indent=" " * indent, break_long_words=False,
                     subsequent_indent=" " * (indent + more), break_on_hyphens=False):
        yield text.replace(_JOINED, " ")


_JOINED = "\0"
