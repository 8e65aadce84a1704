"""The findings about an illegal program: instructions, where they come from, what they touch, and
the order that is missing.

A finding is a block of lines::

    1. load 0 writes and gemm 2 reads inp in no fixed order
       load 0     load signal=gemm buffer=inp base=io dram=0 address=0 run=16
         from     conv: y_o 1 of 4, x_o 0 of 2 (virtual_thread); runs y_i, x_i itself
         tensors  x in io, conv_input in inp
       gemm 2     gemm banks=1 reset=1 dst=0 a=0 b=0 [4x dst+1 a+1]
         ...
       both       inp entries 0..3 (bytes 0..15): conv_input
       needed     a token load to gemm, signalled by 0 or later, taken by 2 or before
       nearest    load 1 signals token 0, which gemm 3 takes: too late
"""

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from accel.machine import isa
from accel.machine.program import AccelProgram, disassemble
from accel.machine.origins import Origin
from accel.proof.batches import Batches
from compiler.latency_hiding import TokenPair, Violation, pair_masks

LIMIT = 200                     # findings after which a proof stops
SHOWN, RANGES = 3, 3            # findings in a text, ranges of addresses in a finding
WIDTH, HEAD = 100, 11           # columns of a text, and of what stands in front of its lines

Row = tuple[str, str]
"""Head and text of a line."""


class Findings:
    """The violations of a program as text.

    Parameters
    ----------
    stream : the instructions of `program` but FINISH.
    waits, signals : the masks of units of each.
    """

    def __init__(self, program: AccelProgram, stream: Batches, waits: np.ndarray,
                 signals: np.ndarray, violations: Sequence[Violation]):
        self.machine, self.program, self.stream = stream.machine, program, stream
        self.violations = violations
        self.units = stream.units
        self.names = self.machine.structure.names
        self.pairs = pair_masks(self.names, self.units, waits, signals)

    def __str__(self) -> str:
        kinds = Counter(violation.kind for violation in self.violations)
        total = len(self.violations)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        summary = ("1 finding" if total == 1 else
                 f"{total} findings{' or more' if total >= LIMIT else ''}")
        head = f"Program must be legal under every timing, but has {summary} ({counts})"
        blocks = [self.block(number, violation)
                  for number, violation in enumerate(self.violations[:SHOWN], 1)]
        rest = [f"and {total - SHOWN} more"] if total > SHOWN else []
        return "\n".join([head, *blocks, *rest])

    def block(self, number: int, violation: Violation) -> str:
        """One finding as text, its number in front."""
        title = f"{number}. {self._title(violation)}"
        return "\n".join([title, *(line for row in self._rows(violation) for line in _lines(row))])

    def _title(self, violation: Violation) -> str:
        later = self._short(violation.later.index)
        pair = " to ".join(violation.counter or ())
        match violation.kind:
            case "empty counter":
                return f"{later} waits for a token {pair}, of which there is none"
            case "full counter":
                return f"{later} signals {pair}, whose counter is full"
            case "tokens left":
                return f"{later} signals {pair}, for which nothing waits"
            case "unwritten":
                return f"{later} reads {violation.memory}, which nothing wrote"
        assert violation.earlier is not None
        before, now = violation.hazard
        return (f"{self._short(violation.earlier.index)} {before}s and {later} {now}s "
                f"{violation.memory} in no fixed order")

    def _rows(self, violation: Violation) -> Iterator[Row]:
        places = [place.index for place in (violation.earlier, violation.later) if place]
        for index in places:
            yield from self._instruction(index)
        match violation.kind:
            case "unordered":
                yield "both", self._region(violation, places)
                yield from self._order(*places)
            case "unwritten":
                yield "unwritten", self._region(violation, places)
                yield "written", self._written(violation)
            case _:
                yield from self._counter(violation)

    # ---- instructions ------------------------------------------------------------------------

    def unit(self, index: int) -> str:
        return self.names[self.units[index]]

    def _short(self, index: int) -> str:
        return f"{self.unit(index)} {index}"

    def _instruction(self, index: int) -> Iterator[Row]:
        instruction = self.stream.instruction(index)
        text = re.sub(r"\[.*?\]", lambda loop: _whole(loop[0]), disassemble(instruction))
        yield self._short(index), text
        if instruction.origin.site.layer:
            yield "  from", _from(instruction.origin)
        if instruction.origin.site.tensors:
            named = dict.fromkeys(f"{tensor} in {memory}"
                                  for _, memory, tensor in instruction.origin.site.tensors)
            yield "  tensors", ", ".join(named)

    # ---- addresses ---------------------------------------------------------------------------

    def _region(self, violation: Violation, places: Sequence[int]) -> str:
        memory, ranges = violation.memory, violation.ranges
        names = {tensor for index in places for tensor in self._tensors(index, violation)}
        named = f": {', '.join(sorted(names))}" if names else ""
        if memory in isa.BASES:
            return f"{memory} {_ranges('byte', ranges)}{named}"
        if self.machine.structure.buffer(memory).banks == 2:
            return f"{memory} {_ranges('entry', ranges)}{named}"
        size = self.machine.config.buffers[memory].entry_bytes
        if any(start % size or stop % size for start, stop in ranges):
            return f"{memory} {_ranges('byte', ranges)}{named}"
        entries = [(start // size, stop // size) for start, stop in ranges]
        return f"{memory} {_ranges('entry', entries)} ({_ranges('byte', ranges)}){named}"

    def _tensors(self, index: int, violation: Violation) -> tuple[str, ...]:
        """The region's tensors as the instruction's origin names them, else as the host does."""
        known = self.stream.instruction(index).origin.tensors(violation.memory)
        low, high = violation.ranges[0][0], violation.ranges[-1][1]
        return known or tuple(
            slot.name for slot in (*self.program.inputs, *self.program.outputs)
            if slot.base == violation.memory and slot.offset < high
            and low < slot.offset + slot.size_bytes)

    def _written(self, violation: Violation) -> str:
        """The later write of the region, in words."""
        addresses = {address for low, high in violation.ranges for address in range(low, high)}
        for index in range(violation.later.index, len(self.stream)):
            for access in self.stream.event(index).writes():
                if access.memory != violation.memory:
                    continue
                touched = (range(*access.addresses) if isinstance(access.addresses, tuple)
                           else access.addresses.tolist())
                if not addresses.isdisjoint(touched):
                    return f"by {self._short(index)}, too late"
        return "by nothing in this program, and not an input or a constant of it"

    # ---- tokens ------------------------------------------------------------------------------

    def _order(self, earlier: int, later: int) -> Iterator[Row]:
        source, target = self.unit(earlier), self.unit(later)
        yield "needed", (f"a token {source} to {target}, signalled by {earlier} or later, taken "
                         f"by {later} or before")
        pair = self.pairs.get((source, target), TokenPair())
        if (token := pair.first_signal(earlier)) is not None:
            taken = pair.taken(token)
            takes = f"{target} {taken} takes: too late" if taken is not None else "nothing takes"
            yield "nearest", f"{source} {pair.signals[token]} signals token {token}, which {takes}"
        if (token := pair.last_wait(later)) is not None:
            given = pair.given(token)
            gives = (f"{source} {given} signals: too early" if given is not None
                     else "nothing signals")
            yield "nearest", f"{target} {pair.waits[token]} takes token {token}, which {gives}"
        if not pair.signals and not pair.waits:
            yield "nearest", "the program has no token of this pair"

    def _counter(self, violation: Violation) -> Iterator[Row]:
        assert violation.counter is not None
        source, target = violation.counter
        pair, index = self.pairs[violation.counter], violation.later.index
        match violation.kind:
            case "empty counter":
                token = pair.waits.index(index)
                given = pair.given(token)
                yield "token", (f"number {token} of {source} to {target} is the one it takes; "
                                f"before it {sum(s < index for s in pair.signals)} are signalled")
                yield "nearest", (f"{source} {given} signals token {token}: too late"
                                  if given is not None else f"nothing signals token {token}")
            case "full counter":
                token = pair.signals.index(index)
                taken = sum(wait <= index for wait in pair.waits)
                yield "token", (f"number {token} of {source} to {target} is the one it gives; "
                                f"before it {taken} are taken, and a counter holds "
                                f"{self.machine.config.timing.tokens}")
                after = pair.taken(taken)
                yield "nearest", (f"{target} {after} is the next to take one: too late"
                                  if after is not None else "nothing takes one after it")
            case _:
                token = len(pair.signals) - violation.count
                yield "token", (f"{len(pair.signals)} are signalled and {len(pair.waits)} taken: "
                                f"nothing takes token {token}")
                yield "nearest", (f"{target} {pair.waits[-1]} is the last to take one"
                                  if pair.waits else "nothing takes one")


def _from(origin: Origin) -> str:
    """The layer, the loops around the instruction with their values, and the loops inside."""
    site, own = origin.site, ""
    prefix = re.sub(r"\W", "_", site.layer) + "_"       # names of the layer's stages begin with it
    loops = ", ".join(
        _whole(f"{loop.name.removeprefix(prefix)} {value} of {loop.extent}")
        + (f" ({loop.kind})" if loop.kind != "serial" else "")
        for loop, value in zip(site.loops, origin.position))
    if site.folded:
        own = f"runs {', '.join(name.removeprefix(prefix) for name in site.folded)} itself"
    where = "; ".join(filter(None, (loops, own)))
    return f"{site.layer}: {where}" if where else site.layer


def _ranges(unit: str, ranges: Sequence[tuple[int, int]]) -> str:
    """``byte 3``, ``entries 0..3, 8, 16..19 and 5 more ranges, 40 in all``."""
    count = sum(stop - start for start, stop in ranges)
    if count == 1:
        return f"{unit} {ranges[0][0]}"
    spans = ", ".join(f"{start}..{stop - 1}" if stop - start > 1 else f"{start}"
                      for start, stop in ranges[:RANGES])
    more = (f" and {len(ranges) - RANGES} more ranges, {count} in all"
            if len(ranges) > RANGES else "")
    return f"{'entries' if unit == 'entry' else unit + 's'} {spans}{more}"


def _whole(text: str) -> str:
    """Keeps a text on one line."""
    return text.replace(" ", "\0")


def _lines(row: Row) -> list[str]:
    head, text = row
    lines = textwrap.wrap(text, WIDTH, initial_indent=f"   {head:{HEAD - 1}} ",
                          subsequent_indent=" " * (3 + HEAD), break_long_words=False,
                          break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]
