"""The origin of instructions: a statement of a layer's schedule, and the values of the loops that
were unrolled around it.

A schedule has few statements and a program many instructions: what the instructions of a statement
have in common is a `Site`, kept once; an instruction is a row of small numbers.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a schedule; `kind` is one of ``compiler.ir.LOOP_KINDS``."""

    name: str
    extent: int
    kind: str = "serial"


@dataclass(frozen=True, slots=True)
class Site:
    """A statement of a scheduled layer, performed by one kind of instruction.

    Parameters
    ----------
    layer : the layer's name in the network.
    loops : the loops of several iterations that are unrolled around it, outermost first.
    folded : names of the loops that its instructions run themselves, outermost first.
    tensors : triples (operand, memory that holds it, tensor that it is a part of). A tensor in
        DRAM has the name that the network gives it, if any; others have those of the schedule.
    """

    layer: str = ""
    loops: tuple[Loop, ...] = ()
    folded: tuple[str, ...] = ()
    tensors: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of one instruction: its site, and the value of each of the site's loops.

    As text it is the layer and the loops, ``conv1 y_o=3 x_o=1``.
    """

    site: Site = Site()
    position: tuple[int, ...] = ()

    @classmethod
    def named(cls, layer: str) -> "Origin":
        """The origin of an instruction of `layer` that no schedule made."""
        return cls(Site(layer))

    def tensors(self, memory: str) -> tuple[str, ...]:
        """The tensors in `memory` that the instruction touches, as far as they are known."""
        return tuple(sorted({tensor for _, where, tensor in self.site.tensors if where == memory}))

    def __str__(self) -> str:
        loops = (f"{loop.name}={value}" for loop, value in zip(self.site.loops, self.position))
        return " ".join((self.site.layer, *loops)).strip()


UNKNOWN = Origin()


@dataclass(frozen=True, eq=False)
class Origins:
    """The origin of every instruction of a program, by index.

    Parameters
    ----------
    sites : each site once, in the order of their first instructions.
    rows : int32 of shape (instructions, 1 + most loops of a site): the site's number, then the
        values of its loops, then zeros.
    """

    sites: tuple[Site, ...] = ()
    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), np.int32))

    @classmethod
    def of(cls, origins: Iterable[Origin]) -> "Origins":
        known: dict[Site, int] = {}
        entries = [(known.setdefault(origin.site, len(known)), *origin.position)
                for origin in origins]
        rows = np.zeros((len(entries), max(map(len, entries), default=1)), np.int32)
        for row, values in zip(rows, entries, strict=True):
            row[:len(values)] = values
        return cls(tuple(known), rows)

    @classmethod
    def numbered(cls, sites: Sequence[Site], rows: np.ndarray) -> "Origins":
        """The table for rows that name these sites by their places in the sequence, in any order
        and equal ones more than once. The rows, int32, become those of the table.
        """
        known: dict[Site, int] = {}
        same = np.array([known.setdefault(site, len(known)) for site in sites], np.int32)
        numbers = same[rows[:, 0]]
        first = np.full(len(known), len(rows))
        first[numbers[::-1]] = np.arange(len(rows))[::-1]       # of equal ones the last is kept
        met = np.argsort(first, kind="stable")[:np.count_nonzero(first < len(rows))]
        number_of = np.zeros(len(known), np.int32)
        number_of[met] = np.arange(len(met))
        rows[:, 0] = number_of[numbers]
        unique = tuple(known)
        return cls(tuple(unique[number] for number in met.tolist()), rows)

    @classmethod
    def joined(cls, parts: Sequence["Origins"]) -> "Origins":
        """The tables one after the other."""
        total, begin = sum(map(len, parts)), 0
        rows = np.zeros((total, max((part.rows.shape[1] for part in parts), default=1)), np.int32)
        sites: list[Site] = []
        for part in parts:
            mine = rows[begin:begin + len(part)]
            mine[:, :part.rows.shape[1]] = part.rows
            mine[:, 0] += len(sites)
            sites += part.sites
            begin += len(part)
        return cls.numbered(sites, rows)

    def take(self, order: np.ndarray) -> "Origins":
        """The origins of the instructions with these numbers; `UNKNOWN` ones stay so."""
        return self.numbered(self.sites, self.rows[order]) if len(self.rows) else self

    def trimmed(self) -> "Origins":
        """The table without columns that no site has loops for."""
        width = 1 + max((len(site.loops) for site in self.sites), default=0)
        return Origins(self.sites, np.ascontiguousarray(self.rows[:, :width]))

    def __len__(self) -> int:
        return len(self.rows)

    def origin(self, index: int) -> Origin:
        """The origin of one instruction; `UNKNOWN` for one beyond the table."""
        if index >= len(self.rows):
            return UNKNOWN
        number, *values = self.rows[index].tolist()
        site = self.sites[number]
        return Origin(site, tuple(values[:len(site.loops)]))

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Origins) and self.sites == other.sites
                and np.array_equal(self.rows, other.rows))

    def sites_text(self) -> str:
        """The sites as JSON, which with `rows` is the whole table. Equal programs give equal text.
        """
        return json.dumps([asdict(site) for site in self.sites], separators=(",", ":"))

    @classmethod
    def parse(cls, sites_text: str, rows: np.ndarray) -> "Origins":
        """Rebuild the table from `sites_text` and `rows`."""
        sites = tuple(Site(site["layer"], tuple(Loop(**loop) for loop in site["loops"]),
                           tuple(site["folded"]), tuple(tuple(row) for row in site["tensors"]))
                      for site in json.loads(sites_text))
        return cls(sites, np.asarray(rows, np.int32))
