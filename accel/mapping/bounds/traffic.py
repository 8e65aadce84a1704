"""Bytes and work of the tilings of a layer, each exactly or less: arrays, an element a tiling.
"""

from collections.abc import Callable
from functools import cached_property
from math import prod

import numpy as np

from accel.datapath.plan import plan
from accel.machine.dram import Dram
from accel.machine.isa import WORD_BYTES
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from accel.mapping.bounds.tilings import Many
from accel.mapping.bounds.windows import (LoadedSource, Packed, WindowLine, computed_weights,
                                          packed_source, source_of)
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.plans.work import block_products
from accel.mapping.schedules import shape_of

GEMM_LOOPS = 6
"""Loops of an instruction of gemm."""

BURST_CYCLES = 4
"""Cycles from a burst of one beat to the burst that takes its place, the memory's latency apart."""


def stored_bytes(layer: MappedLayer, entry_bytes: int, lanes: int) -> int:
    """The bytes that all stores of a layer write."""
    shape = layer.operator.output.shape
    size = prod(shape) * entry_bytes // lanes
    for first, second, limit in layer.bounds:
        whole = shape[first] * shape[second]
        size = size * min(limit, whole) // whole
    return size


class LayerFacts:
    """The facts that all tilings of a layer on a machine have in common.

    Attributes
    ----------
    products : block products of gemm.
    positions : entries of the result.
    folded : entries that vector makes on the way to it, by stage, one for each term of a sum.
    work : cycles of vector; `lanes` of one of its `units`, if all work on it alike.
    stored : bytes of the result in memory; `partial` where blocks of it are cut.
    weights : bytes of the weights that one image reads; `weight_steps` of load for these.
    waits : cycles that load stands, in each `bursts` of these steps, until bursts are over.
    sources : what is loaded into inp or res, as far as it is known.
    latency, answer : cycles of the memory from a request to data, and from a write to its answer.
    rate : bytes of the bus in a cycle.
    word : cycles of the bus for an instruction, at least.
    gemm, vector : cycles of the datapaths from an iteration to its last write.
    """

    def __init__(self, machine: Machine, layer: MappedLayer, memory: Dram | None = None):
        self.layer, self.operator, self.config = layer, layer.operator, machine.config
        operator, config = layer.operator, machine.config
        memory = memory or config.memory
        self.shape = shape = shape_of(operator)
        self.entry = {name: buffer.entry_bytes for name, buffer in config.buffers.items()}
        self.products = block_products(layer)
        self.positions = prod(operator["quantized"].shape[:-2])
        self.folded = {role: prod(operator[role].shape[:-2]) * self._terms(role)
                       for role in operator.accumulators
                       if not (shape.weighted and role == "acc")}
        # Without others, the last stage reads all inputs from res, one in a cycle.
        reads = 1 if operator.accumulators else max(1, len(operator.inputs))
        self.work = (self.positions * reads + sum(self.folded.values())) * config.vector_beats
        vectors = machine.structure.of_kind(UnitKind.VECTOR)
        self.units = len(vectors)
        self.lanes = -(-self.work // self.units)
        self.stored = stored_bytes(layer, self.entry["out"], config.lanes)
        self.partial = bool(layer.bounds)
        self.latency = memory.latency
        self.weights, step, apart = self._weights() if shape.weighted else (0, 0, 0)
        self.weight_steps = self.weights / (step or config.bus_bytes)
        # Elements of which no two lie in one beat are bursts of their own.
        alone = step and apart >= config.bus_bytes
        self.waits = max(self.latency + BURST_CYCLES - config.timing.bursts, 0) if alone else 0
        self.sources = self._sources()
        self.answer = 0 if memory.in_order else memory.latency
        clients = len(machine.structure.clients)
        self.rate, self.together = config.rate_of(memory), config.rate_of(memory, clients)
        self.widest = config.rate_of(clients=clients)
        paced = memory.bytes_per_cycle is not None
        self.word = WORD_BYTES / self.rate - paced      # a beat may be there at once
        self.gemm = plan(machine, UnitKind.GEMM).write_cycles
        self.vector = min(plan(machine, unit.name).write_cycles for unit in vectors)

    def _terms(self, role: str) -> int:
        """The terms of a stage's sums for each entry; lanes are summed at once."""
        lanes = self.operator.reduced.get("lanes")
        axes = [axis for axis in self.operator[role].reduce_axes if axis is not lanes]
        return prod(axis.extent for axis in (axes[:-1] if role in self.operator.numbers else axes))

    def _weights(self) -> tuple[int, int, int]:
        """As `computed_weights`."""
        shape = self.shape
        if "y" in self.operator.stages:
            return computed_weights(self.operator)
        return (shape.depth * shape.channels * shape.phases * prod(shape.kernel) * shape.passes
                * (shape.weights or self.entry["wgt"]) * shape.weight_bits // 8), 0, 0

    def weight_cycles(self, bytes_: np.ndarray, loads: np.ndarray | int) -> np.ndarray:
        """Cycles that load works for so many bytes of weights, in so many loads or fewer."""
        steps = bytes_ * (self.weight_steps / max(self.weights, 1))
        return steps + self.waits * np.maximum(steps / self.config.timing.bursts - loads, 0)

    def _sources(self) -> list[LoadedSource | Packed | None]:
        operator, shape = self.operator, self.shape
        if shape.row:
            return [packed_source(self.config, operator)]
        window = shape.kernel, shape.strides, shape.dilations
        return [source_of(operator, role, (shape.rows, shape.columns), window)
                for role in operator.inputs if role not in operator.repeated]


class Traffic:
    """The bytes that each of many tilings moves.

    Attributes
    ----------
    images, cuts : tiles of an image, and of the channels; `count` : all tiles.
    steps : pieces in which a tile's operands come.
    piece : rows and columns of the largest piece of a window; `last_piece` of the last one.
    last : entries of the last tile's result.
    inputs, weights, records : bytes that loads move, residuals among the last ones; `weight_cycles`
        those of load.
    chunks : steps of load for the inputs, padding included; `waited` those of them that come after
        a load's first data.
    turns : loads of an input that move anything.
    first_inputs, first_weights : bytes that the first step of the first tile needs; `first` and
        `first_kept`: cycles for all of them, and for the operand that stays.
    instructions : how many there are.
    """

    def __init__(self, facts: LayerFacts, tiles: Many):
        self.facts, self.tiles = facts, tiles
        shape = facts.shape
        self.keeps_weights, self.keeps_input = (tiles.stationary == kept for kept in ("w", "input"))
        down, across = (-(-size // part) for size, part in (
            (shape.rows, tiles.rows), (shape.columns, tiles.columns)))
        self.images, self.cuts = down * across, -(-shape.channels // tiles.channels)
        self.count = shape.times * self.images * self.cuts
        self.last = ((shape.rows - (down - 1) * tiles.rows)
                     * (shape.columns - (across - 1) * tiles.columns)
                     * (shape.channels - (self.cuts - 1) * tiles.channels) * shape.phases)
        self._cut_windows()
        self._load_inputs()
        self._load_constants()

    def _cut_windows(self) -> None:
        shape, pieces = self.facts.shape, self.tiles.pieces
        height, width = shape.kernel
        whole = pieces <= height
        self.piece = (np.where(whole, -(-height // pieces), 1),
                      np.where(whole, width, -(-width // np.maximum(pieces // height, 1))))
        counts = [-(-size // part) for size, part in zip(shape.kernel, self.piece, strict=True)]
        self.last_piece = [size - (count - 1) * part for size, count, part in zip(
            shape.kernel, counts, self.piece, strict=True)]
        self.steps = pieces if shape.gathered else counts[0] * counts[1]
        if shape.weighted:
            self.steps = self.steps * (shape.depth // self.tiles.depth)

    def _load_inputs(self) -> None:
        facts, shape, tiles = self.facts, self.facts.shape, self.tiles
        nothing = np.zeros(len(tiles.rows), np.int64)
        self.inputs, self.first_inputs = nothing, nothing
        self.chunks = self.waited = nothing.astype(float)
        self.turns = self.count * self.steps
        for source in facts.sources:
            if isinstance(source, Packed):
                self._load_packed(source)
            elif not shape.numbers:         # they load rows in ways of their own: once, at least
                self._load_windows(source or self._unknown())
            elif source:
                self.inputs = self.inputs + shape.times * source.bytes_once
        self.waited = np.maximum(self.waited, self.inputs / facts.rate)

    def _unknown(self) -> LoadedSource:
        """A source of which nothing is in memory, as far as it is known."""
        shape = self.facts.shape
        rows, columns = (WindowLine(*line, (0, 0)) for line in zip(
            (shape.rows, shape.columns), shape.kernel, shape.strides, shape.dilations, strict=True))
        return LoadedSource(rows, columns, 0)

    def _load_windows(self, source: LoadedSource) -> None:
        facts, shape, tiles = self.facts, self.facts.shape, self.tiles
        own = shape.diagonal or not shape.weighted      # a tile reads its own channels alone
        blocks, held = (shape.channels, tiles.channels) if own else (shape.depth, tiles.depth)
        passes = shape.times * np.where(self.keeps_input | own, 1, self.cuts)
        entry = facts.entry["inp" if shape.weighted else "res"]
        (tall, rows, top, lines, above), (wide, columns, left, places, aside) = (
            _each(size, taps, line.loaded) for size, taps, line in zip(
                (tiles.rows, tiles.columns), self.piece, (source.rows, source.columns),
                strict=True))
        # A step writes a chunk, padding too. What comes before the first data may be written
        # before that is there.
        chunk = passes * blocks * entry / facts.config.bus_bytes
        self.chunks = self.chunks + chunk * tall * wide
        self.waited = self.waited + chunk * (tall * wide - above * wide - lines * aside)
        self.inputs = self.inputs + passes * rows * columns * source.pixel_bytes
        least = np.maximum(source.pixel_bytes - (blocks - held) * entry, 0)
        # Of a product of two computed matrices, a piece may be one that reads a constant.
        begins = (tiles.pieces == 1) if "y" in facts.operator.stages else 1
        self.first_inputs = self.first_inputs + top * left * least * begins
        parts = self.cuts * shape.times * (shape.depth // tiles.depth if shape.weighted else 1)
        self.turns = np.minimum(self.turns, parts * lines * places)

    def _load_packed(self, source: Packed) -> None:
        facts, tiles = self.facts, self.tiles
        passes = facts.shape.times * np.where(self.keeps_input, 1, self.cuts)
        ones = np.ones_like(tiles.columns)
        moved, begin = _each(tiles.columns, ones, lambda size, _: source.columns(size))
        lines = int(source.lines[-1])
        self.inputs = passes * lines * moved
        self.first_inputs = source.lines[tiles.rows - 1] * begin
        self.chunks = passes * lines * float(source.chunks(facts.config.bus_bytes))

    def _load_constants(self) -> None:
        facts, shape, tiles = self.facts, self.facts.shape, self.tiles
        turns = shape.times * np.where(self.keeps_weights, 1, self.images)
        self.weights = turns * facts.weights
        self.weight_cycles = facts.weight_cycles(self.weights, np.where(
            self.keeps_weights, shape.times * self.cuts, self.count * self.steps))
        self.first_weights = np.zeros_like(tiles.rows)
        if facts.weights:
            all_taps = shape.channels * prod(shape.kernel) * shape.depth
            self.first_weights = (tiles.channels * self.piece[0] * self.piece[1] * tiles.depth
                                  * facts.weights // all_taps)
        first = facts.weight_cycles(self.first_weights, 1)
        whole = np.maximum(self.first_weights / facts.rate, first)
        self.first = np.maximum((self.first_inputs + self.first_weights) / facts.rate,
                                first + self.first_inputs / facts.config.bus_bytes)
        self.first_kept = np.where(self.keeps_weights, whole, np.where(
            self.keeps_input, self.first_inputs / facts.rate, 0))
        once = shape.parameters - (shape.taps > 0)
        count = shape.planes or (
            shape.rows * shape.columns if shape.pixelwise
            else shape.channels * (shape.phases * once + shape.taps))
        again = 1 if shape.gathered or shape.numbers or shape.pixelwise else turns
        self.records = np.zeros_like(tiles.rows) + shape.tables * facts.entry["tab"]
        if shape.parameters:
            self.records = self.records + again * count * facts.entry["par"]
        if shape.residuals:
            self.records = self.records + facts.layer.size("r")

    @property
    def loads(self) -> np.ndarray:
        """Bytes that loads move."""
        return self.inputs + self.weights + self.records

    @property
    def last_records(self) -> np.ndarray:
        """Bytes of records and residuals that the last tile loads, at most."""
        shape, tiles, entry = self.facts.shape, self.tiles, self.facts.entry
        if shape.planes:
            return np.minimum(self.records, shape.planes * entry["par"])
        pixels = tiles.rows * tiles.columns * shape.residuals * entry["res"]
        return np.minimum(self.records, tiles.channels * shape.phases * (
            (shape.parameters + shape.taps) * entry["par"] + pixels))

    @property
    def written(self) -> np.ndarray:
        """Steps of load."""
        return self.chunks + self.weight_cycles + self.records / self.facts.config.bus_bytes

    @property
    def moved(self) -> np.ndarray:
        """Bytes of the bus."""
        return self.loads + self.facts.stored + self.instructions * WORD_BYTES

    @property
    def busy(self) -> np.ndarray:
        """Cycles that the bus works at its full width, or load if that is longer."""
        bus = -(-self.moved // self.facts.widest)
        return np.maximum(bus, np.ceil(self.written).astype(np.int64))

    @cached_property
    def instructions(self) -> np.ndarray:
        """Every tile has a load of each operand that does not stay, computations and a store."""
        shape, facts = self.facts.shape, self.facts
        plain = not (shape.gathered or shape.numbers)
        turns = self.count * self.steps
        if shape.weighted:
            kept = self.keeps_weights | self.keeps_input
            moves = turns * np.where(kept, 1, 2) + kept + turns
        else:
            moves = turns * len(facts.sources) * plain
        records = np.where(self.keeps_weights, 1, self.count) * (bool(shape.parameters) and plain)
        stages = 1 if shape.numbers else 1 + len(facts.folded)
        return moves + records + self.count * (stages + 1 + shape.residuals) + 1

    @property
    def single(self) -> np.ndarray:
        """True where one instruction of gemm computes a step: its word has loops enough."""
        tiles, shape = self.tiles, self.facts.shape
        extents = (tiles.rows, tiles.columns, tiles.channels, tiles.depth, *self.piece)
        tile = self.facts.operator.extents("quantized")
        fixed = sum(size > 1 for size in (tile.get("p", 1), tile.get("q", 1), shape.passes))
        return np.sum([extent > 1 for extent in extents], 0) + fixed <= GEMM_LOOPS


def _each(sizes: np.ndarray, taps: np.ndarray, of: Callable[[int, int], tuple[int, ...]]
          ) -> tuple[np.ndarray, ...]:
    """Calls `of` for each size with its number of taps, once for equal ones."""
    pairs, place = np.unique(sizes << 32 | taps, return_inverse=True)
    found = np.array([of(pair >> 32, pair & (1 << 32) - 1) for pair in pairs.tolist()])
    return tuple(column[place] for column in found.T)
