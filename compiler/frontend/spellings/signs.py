"""Signs that a file gives: who wrote it, and which operators quantize, how and how often."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from compiler.frontend import kinds
from compiler.frontend.spellings.table import spelling_of, tool_of


class Sign(NamedTuple):
    """An operator, and what the file says of the types that it quantizes."""

    operator: str
    types: str = ""


@dataclass(frozen=True, slots=True)
class Spelled:
    """A spelling of quantization in a file: operators of one name, with the same types."""

    spelling: str
    operator: str
    types: str
    count: int


@dataclass(frozen=True)
class FileSigns:
    """`kind` is that of the file, `producers` are as they call themselves; `signs` are those of all
    operators.
    """

    kind: str
    producers: tuple[str, ...]
    signs: tuple[Sign, ...]

    @classmethod
    def of(cls, kind: kinds.FileKind, producers: Iterable[str], signs: Iterable[Sign]
           ) -> "FileSigns":
        return cls(kind.name, tuple(dict.fromkeys(filter(None, map(str.strip, producers)))),
                   tuple(signs))

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that wrote it, as far as it says, each with what it calls itself."""
        calls: dict[str, list[str]] = {}
        for producer in self.producers:
            calls.setdefault(tool_of(producer), []).append(producer)
        return tuple(f"{tool} ({', '.join(called)})" if tool else ", ".join(called)
                     for tool, called in calls.items())

    @property
    def spelled(self) -> list[Spelled]:
        """The spellings, in the order in which they come first; none for a file in float."""
        counted = Counter(self.signs)
        return [Spelled(spelling, *sign, count) for sign, count in counted.items()
                if (spelling := spelling_of(" ".join(sign))) is not None]
