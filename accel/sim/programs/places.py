"""Places of a random instruction's operands.

Every address is enumerated one by one into bit sets, and so is what a program has written so far.
The address sets of compiled programs share nothing with these.
"""

import re
from random import Random

from accel.machine.config import PARAM_BYTES, AccelConfig

from . import shapes
from .order import Touching

OUTPUT_BYTES = 400
"""Room for results in io."""

SEGMENTS = {"weights": 160, "activations": 320}
"""Bytes of the other segments that programs use: of activations those in the middle of which the
shared scratchpad ends, where there is one."""


def before_activations(config: AccelConfig) -> int:
    """The bytes of the activations segment before those that programs use."""
    return max(0, config.shared_bytes - SEGMENTS["activations"] // 2)


ITERATIONS, RUN, SHOWN = 48, 40, 40     # at most, of one instruction; entries or bytes shown


class NoPlace(Exception):
    """Nothing of the chosen shape could be placed."""


class Places:
    """Random loops and addresses in the memories of one program.

    io holds its data, then records of parameters, then results. `written` says for each memory
    which bytes, or entries of acc, hold something; `short` that loops have one iteration.
    """

    def __init__(self, config: AccelConfig, random: Random):
        self.config = config
        self.random = random
        self.short = False
        largest = max(buffer.entry_bytes for buffer in config.buffers.values())
        self.wide = min(16 * largest, max(8192, 2 * largest))       # bytes of a long run, at most
        self.record_count = 6 * config.block_out
        self.records = max(600, 2 * self.wide) + random.randrange(8)   # any alignment
        self.inputs = self.records + PARAM_BYTES * self.record_count
        self.io_bytes = self.inputs + OUTPUT_BYTES
        self.written = dict.fromkeys((*config.buffers, "io", *SEGMENTS), 0)
        self.written["io"] = (1 << self.inputs) - 1
        self.written["weights"] = (1 << SEGMENTS["weights"]) - 1

    def write(self, placed: Touching) -> None:
        """Counts what an instruction writes as written."""
        for memory, addresses in placed.writes.items():
            self.written[memory] |= addresses

    def loops(self, levels: int, keys: tuple[str, ...], reach: int, limit: int,
               first: int | None = None) -> list[dict[str, int]]:
        """Random extents, at most `limit` iterations in all, and strides up to `reach` or so.

        `first` is a level that must have more than one iteration.
        """
        random = self.random
        loops = [{"extent": 1} for _ in range(levels)]
        if self.short:
            return loops
        chosen = random.sample(range(levels), random.randrange(0, min(4, levels) + 1))
        for level in chosen if first is None else [first, *(k for k in chosen if k != first)]:
            extent = random.randrange(2, 5)
            if limit // extent:
                limit //= extent
                loops[level] = {"extent": extent} | {
                    key: random.choice([0, 0, 1, 1, 2, random.randrange(-reach, 2 * reach)])
                    for key in keys}
        return loops

    def meet(self, loops: list[dict[str, int]]) -> None:
        """Now and then, let updates of one entry follow each other by one to three iterations."""
        if self.random.random() < 0.3 and not self.short:
            outer, inner = sorted(self.random.sample(range(len(loops)), 2))
            for loop in loops:
                loop["extent"] = 1
            loops[outer] |= {"extent": self.random.randrange(2, 5), "dst": 0}
            loops[inner] |= {"extent": self.random.randrange(1, 4), "dst": 1}

    def readable(self, memory: str, offsets: list[int]) -> int:
        """A base at which every address has been written."""
        return self._pick(shapes.fitting(self.written[memory], set(offsets)))

    def entry(self, buffer: str, offsets: list[int]) -> int:
        """A base at which every entry has been written, in a buffer that counts bytes."""
        whole = self.whole_entries(buffer, self.written[buffer])
        return self._pick(shapes.fitting(whole, set(offsets)))

    def whole_entries(self, buffer: str, whole: int) -> int:
        """The entries of which every byte is in the set `whole`."""
        size, seen = self.config.buffers[buffer].entry_bytes, 1
        while seen < size:                          # bit k: bytes k to k + seen - 1 are written
            whole, seen = whole & whole >> min(seen, size - seen), min(2 * seen, size)
        bits = format(whole, "b")[::-1][::size]
        return int(bits[::-1] or "0", 2)

    def _pick(self, candidates: int) -> int:
        places = [index for index, bit in enumerate(format(candidates, "b")[::-1]) if bit == "1"]
        if not places:
            raise NoPlace
        return self.random.choice(places)

    def anywhere(self, offsets: list[int], size: int, step: int = 1) -> int:
        """A base at which every address is below `size`; the ends are likelier than the rest."""
        low, high = -min(offsets), size - 1 - max(offsets)
        if high < low:
            raise NoPlace
        low, high = -(-low // step), high // step
        near = self.random.randrange(low, min(high, low + 24) + 1)
        middle = size // step // 2 - self.random.randrange(0, 6)
        choices = [near, near, high, self.random.randint(low, high), min(max(middle, low), high)]
        return self.random.choice(choices) * step

    def touched(self, memory: str, base: int, offsets: list[int]) -> int:
        """The bytes of the entries at these offsets; in acc, the entries."""
        size = 1 if memory == self.config.structure.roles.acc else (
            self.config.buffers[memory].entry_bytes)
        entry = (1 << size) - 1
        total = 0
        for offset in set(offsets):
            total |= entry << (base + offset) * size
        return total

    def segment(self) -> str:
        """The segment to load from."""
        return self.random.choice([name for name in ("io", "io", *SEGMENTS)
                                   if self.written[name]])

    def room(self, segment: str, offsets: list[int]) -> int:
        """The place to store to: over the inputs only now and then."""
        if segment != "io":
            return self.anywhere(offsets, SEGMENTS[segment])
        low = self.inputs if self.random.random() < 0.8 else 0
        return low + self.anywhere(offsets, self.io_bytes - low)

    def fresh(self, size: int) -> int:
        """A new place at the end of io, at any alignment."""
        place = self.io_bytes + self.random.randrange(4)
        self.io_bytes = place + size
        return place

    def stretches(self, buffer: str, most: int) -> list[tuple[int, int]]:
        """Start and length of parts that have been written: entries; of out, bytes."""
        written = self.written[buffer]
        structure, roles = self.config.structure, self.config.structure.roles
        if buffer in structure.moved[roles.load]:
            written = self.whole_entries(buffer, written)
        found = [(match.start(), len(match.group())) for match
                 in re.finditer("1+", format(written, "b")[::-1])]
        limit = min(SHOWN, *(self.config.buffers[name].depth for name in (roles.out, roles.acc)))
        result = []
        for start, count in self.random.sample(found, min(most, len(found))):
            skip = self.random.randrange(max(0, count - limit) + 1)
            result.append((start + skip, min(count - skip, limit)))
        return result
