"""Copies: affine nests of elements become byte runs with up to four loops around them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from accel.mapping.lowering.nest import AffineAddress, Interval, LoweringError
from compiler.te import Var

LOOPS, MAX_RUN, MAX_EXTENT, MAX_PAD = 4, 1 << 16, 1 << 16, (1 << 12) - 1

SHORT_RUN = 8
"""A run shorter than this is not worth leaving padding in the loop around it: split instead."""


@dataclass(frozen=True, slots=True)
class DmaLoop:
    """A loop around a run. Strides are in bytes; iterations outside `valid` are padding."""

    extent: int
    dram: int
    buffer: int
    valid: Interval

    @property
    def padded(self) -> bool:
        return self.valid != (0, self.extent)


@dataclass(frozen=True, slots=True)
class DmaCopy:
    """Runs of `run` bytes under at most four loops; `filled` copies nothing and only pads."""

    dram: int
    buffer: int
    run: int
    loops: tuple[DmaLoop, ...]
    filled: bool = False

    def packed(self, origin: int, group: int) -> "DmaCopy":
        """The copy from packed elements, of which a byte at `origin` or after it holds `group`; its
        addresses in the buffer count as many bytes. Refuses one that cuts a byte.
        """
        moved = self.dram - origin, self.buffer, self.run, *(
            stride for loop in self.loops for stride in (loop.dram, loop.buffer))
        if any(number % group for number in moved):
            raise LoweringError(f"Copy of packed elements must begin and end at whole bytes of "
                                f"{group}, not move {self}")
        return replace(self, dram=origin + (self.dram - origin) // group, run=self.run // group,
                       buffer=self.buffer // group, loops=tuple(
                           replace(loop, dram=loop.dram // group, buffer=loop.buffer // group)
                           for loop in self.loops))

    def fields(self) -> dict[str, object]:
        """The address fields of the instruction."""
        loops = list(self.loops)
        if self.filled:
            loops = self._all_padding(loops)
        words = [{"extent": loop.extent, "dram": loop.dram, "buffer": loop.buffer,
                  "before": loop.valid[0], "after": loop.extent - loop.valid[1]} for loop in loops]
        return {"dram": self.dram % (1 << 32), "address": self.buffer, "run": self.run,
                "loops": [{}] * (LOOPS - len(words)) + words}

    def _all_padding(self, loops: list[DmaLoop]) -> list[DmaLoop]:
        if len(loops) < LOOPS:
            return [DmaLoop(1, 0, 0, (1, 1)), *loops]
        short = min(range(LOOPS), key=lambda at: loops[at].extent)
        loops[short] = replace(loops[short], valid=(loops[short].extent,) * 2)
        return loops


def runs(dram: AffineAddress, buffer: AffineAddress, extents: Mapping[Var, int],
         valid: Mapping[Var, Interval] | None, item: int) -> Iterator[DmaCopy]:
    """The copies that move ``item`` bytes from `dram` to `buffer` for all loop values.

    Addresses are in bytes. `valid` says where the source exists (None: nowhere); the rest
    is padding.
    """
    filled = valid is None
    box = {var: (0, extent) for var, extent in extents.items()} if valid is None else valid
    loops = [DmaLoop(extent, dram.over(var), buffer.over(var), box[var])
             for var, extent in extents.items() if extent > 1 or box[var] != (0, extent)]
    yield from _grow(DmaCopy(dram.offset, buffer.offset, item, (), filled), loops)


def _grow(copy: DmaCopy, loops: list[DmaLoop]) -> Iterator[DmaCopy]:
    """Absorb contiguous loops into the run, then merge or unroll what is left."""
    for at, loop in enumerate(loops):
        contiguous = loop.buffer == copy.run and (copy.filled or loop.dram == copy.run)
        if not contiguous or copy.run * loop.extent > MAX_RUN:
            continue
        rest = loops[:at] + loops[at + 1:]
        if not loop.padded or copy.filled:
            yield from _grow(replace(copy, run=copy.run * loop.extent), rest)
            return
        if copy.run < SHORT_RUN:
            for part in _split(loop):
                yield from _piece(copy, loop, part, rest)
            return
    # Runs that overlap follow each other: load reads what they share once.
    order = sorted(loops, key=lambda loop: (0 <= loop.dram < copy.run, -loop.buffer))
    yield from _fit(copy, _merged(order))


def _split(loop: DmaLoop) -> list[tuple[Interval, bool]]:
    """Intervals of a padded loop, each wholly valid or wholly padding."""
    low, high = loop.valid
    parts = [((0, low), True), ((low, high), False), ((high, loop.extent), True)]
    return [(interval, filled) for interval, filled in parts if interval[0] < interval[1]]


def _piece(copy: DmaCopy, loop: DmaLoop, part: tuple[Interval, bool],
           rest: list[DmaLoop]) -> Iterator[DmaCopy]:
    (low, high), filled = part
    moved = replace(copy, dram=copy.dram + low * loop.dram, buffer=copy.buffer + low * loop.buffer,
                    filled=copy.filled or filled)
    extent = high - low
    yield from _grow(moved, [DmaLoop(extent, loop.dram, loop.buffer, (0, extent)), *rest])


def _merged(loops: list[DmaLoop]) -> list[DmaLoop]:
    """Join neighbours that step as one."""
    result: list[DmaLoop] = []
    for loop in loops:
        last = result[-1] if result else None
        if (last and not last.padded and not loop.padded
                and (last.dram, last.buffer) == (loop.dram * loop.extent,
                                                 loop.buffer * loop.extent)
                and last.extent * loop.extent <= MAX_EXTENT):
            extent = last.extent * loop.extent
            result[-1] = DmaLoop(extent, loop.dram, loop.buffer, (0, extent))
        else:
            result.append(loop)
    return result


def _fit(copy: DmaCopy, loops: list[DmaLoop]) -> Iterator[DmaCopy]:
    """Unroll the shortest loops until four are left."""
    oversized = [loop for loop in loops if loop.extent > MAX_EXTENT
                 or max(loop.valid[0], loop.extent - loop.valid[1]) > MAX_PAD]
    if oversized:
        raise LoweringError(f"Extent of a copy's loop must be at most {MAX_EXTENT} and its padding "
                            f"{MAX_PAD}, not {oversized[0].extent} with {oversized[0].valid}")
    if len(loops) <= LOOPS:
        yield replace(copy, loops=tuple(loops))
        return
    short = min(range(len(loops)), key=lambda at: loops[at].extent)
    loop, rest = loops[short], loops[:short] + loops[short + 1:]
    for value in range(loop.extent):
        moved = replace(copy, dram=copy.dram + value * loop.dram,
                        buffer=copy.buffer + value * loop.buffer,
                        filled=copy.filled or not loop.valid[0] <= value < loop.valid[1])
        yield from _fit(moved, rest)
