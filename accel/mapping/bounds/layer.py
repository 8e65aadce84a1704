"""Lower bounds of one layer: no tiling of its template takes fewer cycles, or moves fewer bytes.

Each tiling that fits the buffers has a bound of its own, the greatest of several times that are all
certain (docs/bounds.md). The bound of the layer is the least of these, over all tilings at once:
arrays of numbers, so nothing is left out and nothing needs to be searched.
"""

from collections.abc import Hashable
from math import ceil, prod

import numpy as np

from accel.machine.config import WEIGHT_STATIONARY, element_bytes
from accel.machine.dram import Dram
from accel.machine.isa import WORD_BYTES
from accel.machine.machine import Machine
from accel.figures.work import Bound
from accel.mapping.bounds.tilings import fitting, listed
from accel.mapping.bounds.traffic import LayerFacts, Traffic, stored_bytes
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.lowering import LoweringError
from accel.mapping.schedules import Tiles, most_threads, text_of
from accel.mapping.schedules.cost import Number

START = 12
"""Cycles from a program's start to that of its first instruction, but for those of its fetch: the
memory's latency and the beats of a word."""

FIRST = 6
"""Cycles from a program's start to its first beat, but for the memory's latency."""

LOAD, STORE = 17, 18
"""Cycles from the start of a load or store to its end, but for the memory's latency and its steps.
"""

ARRIVED = 4
"""Cycles from the last beat of a load to its end."""

GEMM, VECTOR = 4, 7
"""Cycles from the start of an instruction to its end, but for its iterations and the latency of its
datapath."""

NEXT = 3
"""Cycles from the end of an instruction to the start of another that waits for it."""

END = 14
"""Cycles from the end of the last instruction to that of the program."""


def bound_of(machine: Machine, layer: MappedLayer, threads: int = 2,
             memory: Dram | None = None) -> Bound:
    """The bound of a layer on a machine, with up to so many virtual threads for a unit, behind its
    memory or another. Raises LoweringError where no tile fits. Layers of one operator, but for its
    name and the numbers that vector computes with, have one bound.
    """
    key = (machine.hash, repr(machine.config), text_of(layer.operator), layer.bounds, threads,
           memory)
    if key not in _known:
        _known[key] = _bound(machine, layer, threads, memory)
        while len(_known) > KEPT:
            _known.pop(next(iter(_known)))
    return _known[key]


KEPT = 256
"""Bounds that a process keeps."""

_known: dict[Hashable, Bound] = {}


def _bound(machine: Machine, layer: MappedLayer, threads: int, memory: Dram | None) -> Bound:
    if layer.operator.stream:
        return _bound_of_stream(machine, layer, memory or machine.config.memory)
    facts = LayerFacts(machine, layer, memory)
    cycles, traffic = list[int](), list[Traffic]()
    for count in range(1, most_threads(facts.shape, threads) + 1):
        tiles = fitting(machine.config, facts.shape, count)
        if tiles.rows.size:
            traffic.append(Traffic(facts, tiles))
            cycles.append(int(_cycles_of(traffic[-1], count).min()))
    if not cycles:
        raise LoweringError(f"{layer.name}: a tile must fit the buffers of {machine.config.name}")
    loaded, moved = (min(int(getattr(each, name).min()) for each in traffic)
                     for name in ("loads", "moved"))
    busy = min(int(each.busy.min()) for each in traffic)
    return Bound(min(cycles), max(busy, facts.products, facts.lanes), loaded + facts.stored,
                 facts.products, facts.lanes, loaded, moved)


def _bound_of_stream(machine: Machine, layer: MappedLayer, memory: Dram) -> Bound:
    """The bound of a layer of a stream unit: whatever its component is, it gives an entry a cycle
    at most, after the first load and before the last store. What rows take by its declaration is
    not in it, nor is the table, which may be there."""
    config, operator = machine.config, layer.operator
    item = element_bytes(config.output)
    entries = prod(operator["quantized"].shape[:-2])
    loaded = item * prod(operator["x"].shape)
    if operator.stream and operator.stream.repeats:         # one entry a row
        loaded = min(loaded, item * config.lanes * entries // operator["quantized"].shape[3])
    stored = stored_bytes(layer, config.lanes * item, config.lanes)
    moved = loaded + stored + 4 * WORD_BYTES        # a load, an instruction, a store, the end
    clients = len(machine.structure.clients)
    rate, widest = config.rate_of(memory), config.rate_of(clients=clients)
    answer = 0 if memory.in_order else memory.latency
    begin = START + memory.latency + WORD_BYTES / rate - 1
    works = begin + memory.latency + LOAD + NEXT + entries + answer + STORE + END
    bus = FIRST + memory.latency + moved / config.rate_of(memory, clients) + answer + END
    return Bound(ceil(max(works, bus)), ceil(max(entries, moved / widest)),
                 loaded + stored, 0, 0, loaded, moved)


def bounds_of_tilings(machine: Machine, layer: MappedLayer, threads: int
                      ) -> list[tuple[int, int, Tiles]]:
    """Every tiling of a layer that fits with so many virtual threads; before it its least cycles
    and bytes.
    """
    facts = LayerFacts(machine, layer)
    tiles = fitting(machine.config, facts.shape, threads)
    if not tiles.rows.size:
        return []
    traffic = Traffic(facts, tiles)
    cycles, moved = _cycles_of(traffic, threads), traffic.loads + facts.stored
    return list(zip(cycles.tolist(), moved.tolist(), listed(tiles), strict=True))


def _cycles_of(traffic: Traffic, threads: int) -> np.ndarray:
    """The least cycles of many tilings with so many virtual threads."""
    times = _Times(traffic, threads)
    return np.ceil(np.max(np.broadcast_arrays(*times.all()), 0)).astype(np.int64)


class _Times:
    """Times that a program of one layer takes at least, for many tilings. With `threads` copies of
    every buffer, what writes one waits for what reads the one before the last.
    """

    def __init__(self, traffic: Traffic, threads: int):
        self.traffic, self.threads = traffic, threads
        facts, tiles = traffic.facts, traffic.tiles
        self.facts, self.shape, self.tiles = facts, facts.shape, tiles
        self.beats = facts.config.vector_beats
        self.begin = START + facts.latency + facts.word
        self.load = facts.latency + LOAD + NEXT
        self.gemm, self.vector = facts.gemm + GEMM + NEXT, facts.vector + VECTOR + NEXT
        self.store = facts.answer + STORE + NEXT
        self.stages = 1 if self.shape.numbers else 1 + len(facts.folded)
        # The last tile: vector works on it when gemm has, and store when vector has.
        result = 0 if facts.partial else traffic.last * facts.entry["out"] / facts.rate
        self.after_vector = self.vector + result + self.store - NEXT + END
        self.after_gemm = self.gemm + traffic.last * self.stages * self.beats + self.after_vector

    def all(self) -> list[Number]:
        if self.shape.weighted:
            computed, after_loads = self._gemm()
        elif self.shape.numbers or self.shape.gathered:
            computed = [self.begin + self.load + self.facts.lanes + self.after_vector]
            after_loads = NEXT + self.after_vector
        else:
            computed, after_loads = self._vector()
        return [*computed, self._results(), *self._moves(after_loads), self._fetch()]

    def _gemm(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Bounds by gemm, vector behind it, and both in turns; the time after the last load."""
        facts, shape, tiles, traffic = self.facts, self.shape, self.tiles, self.traffic
        rate, single = facts.rate, traffic.single
        products = np.maximum(facts.products, self._weights_coming_in())
        head = self.begin + self.load + np.where(single, traffic.first, 0)
        tile = (tiles.rows * tiles.columns * tiles.channels * shape.phases * prod(shape.kernel)
                * shape.depth * shape.passes)
        height, width = traffic.last_piece
        last = np.where(single, traffic.last * height * width * tiles.depth * shape.passes, 0)
        keeps_weights, keeps_input = traffic.keeps_weights, traffic.keeps_input
        kept = traffic.first_kept
        moving = (np.where(keeps_input, 0, traffic.waited)
                  + np.where(keeps_weights, 0, np.maximum(
                      traffic.weights / rate, traffic.weight_cycles)))
        turns = np.where(keeps_input, traffic.count, traffic.turns) * (self.load + self.gemm)
        loads = self.begin + kept + self._in_turns(products + moving + turns,
                                                   traffic.first - kept + last)
        banks = self._in_turns(products + facts.positions * self.beats
                               + traffic.count * (self.gemm + self.vector), 0)
        return [head + products + self.after_gemm,
                head + tile + self.gemm + facts.lanes + self.after_vector,
                np.where(single, loads - self.gemm + self.after_gemm, 0),
                self.begin + self.load + banks - self.vector + self.after_vector
                ], NEXT + last + self.after_gemm

    def _weights_coming_in(self) -> Number:
        """The cycles in which an array that keeps its weights takes in those of all tiles."""
        config, shape, tiles = self.facts.config, self.shape, self.tiles
        if config.dataflow != WEIGHT_STATIONARY:
            return 0
        images = -(-shape.rows // tiles.rows) * -(-shape.columns // tiles.columns)
        blocks = shape.channels * shape.phases * prod(shape.kernel) * shape.depth * shape.passes
        return shape.times * images * blocks * config.block_out

    def _vector(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Bounds as `_gemm` has them, where vector alone computes."""
        facts, traffic = self.facts, self.traffic
        folded = sum(facts.folded.values()) * self.beats or facts.work
        height, width = traffic.last_piece
        last = traffic.last * self.beats * (height * width if facts.folded else 1)
        turns = self._in_turns(traffic.waited + folded + traffic.turns * (self.load + self.vector),
                               traffic.first + last)
        return [self.begin + self.load + traffic.first + facts.lanes + self.after_vector,
                self.begin + turns - self.vector + self.after_vector
                ], NEXT + traffic.last * self.stages * self.beats + self.after_vector

    def _in_turns(self, whole: np.ndarray, ends: np.ndarray | int) -> np.ndarray:
        """The time of what is done in as many chains as there are threads, of which each begins
        behind the one before; `ends` are the first link's load and the last one's computation.
        """
        return (whole + (self.threads - 1) * ends) / self.threads

    def _results(self) -> np.ndarray:
        """Results leave out before vector writes there again; each unit has a buffer for them."""
        facts = self.facts
        chain = (facts.positions * self.beats + facts.stored / facts.rate
                 + self.traffic.count * (self.vector + self.store))
        return self.begin + self.load + self._in_turns(chain, 0) / facts.units - NEXT + END

    def _moves(self, after_loads: Number) -> list[np.ndarray]:
        """Bounds by the bus, and by load: before its last step come all but the last instructions
        and results.
        """
        facts, tiles, traffic, threads = self.facts, self.tiles, self.traffic, self.threads
        together, first_beat = facts.together, FIRST + facts.latency
        # Gemm does not wait for the last records, which come from all channels, or one by one.
        late, later = (traffic.last_records / rate for rate in (together, facts.rate))
        fetched = np.maximum(traffic.instructions - threads * (3 + self.stages) - 1, 0)
        tile = (tiles.rows * tiles.columns * tiles.channels * self.shape.phases
                * max(self.shape.planes, 1) * facts.entry["out"])
        stored = np.maximum(facts.stored - 3 * threads * tile, 0)
        before = (traffic.loads + fetched * WORD_BYTES + stored) / together - late
        return [first_beat + traffic.moved / together + facts.answer + END,
                first_beat + before + ARRIVED + after_loads,
                self.begin + facts.latency + LOAD + traffic.written - later + after_loads]

    def _fetch(self) -> np.ndarray:
        """Fetch hands on an instruction when its word has come and one cycle later."""
        word = WORD_BYTES / self.facts.config.bus_bytes + 1
        return self.begin + (self.traffic.instructions - 1) * word + END
