"""Tile sizes: the cheapest that fit, by a closed formula over all candidates.

A tile is `rows` x `columns` output pixels and `channels` output blocks; a convolution may cut its
input blocks into steps of `depth`. Every tile loads what it needs. With two virtual threads every
buffer is used in halves, and a tile costs the longer of its products and its traffic instead of
their sum.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import ceil

from accel.config import AccelConfig
from accel.lowering.nest import LoweringError
from compiler.ops.blocked import Operator

__all__ = ["Shape", "Tiles", "choose", "shape_of"]

LATENCY = 200
"""Cycles that work which nothing hides costs besides: memory latency, tokens, full pipelines."""

TURN = 4
"""Cycles from one instruction of gemm to the next when tokens pass between them."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Extents of one tile, in pixels and in blocks of channels."""

    rows: int
    columns: int
    channels: int
    depth: int


@dataclass(frozen=True, slots=True)
class Shape:
    """What a layer asks of a tile. `kernel`, `strides` are of its window; a layer without products
    has `weighted` false and its input blocks are its output blocks.
    """

    rows: int
    columns: int
    channels: int
    depth: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    weighted: bool
    inputs: int             # tensors that are loaded like the input
    accumulates: bool
    parameters: bool


def shape_of(operator: Operator) -> Shape:
    """What a layer asks of its tiles."""
    stages = operator.stages
    kernel, strides = operator.window.kernel, operator.window.strides
    _, rows, columns, channels = stages["quantized"].shape[:4]
    weighted = "w" in stages
    return Shape(rows, columns, channels, stages["input"].shape[3] if weighted else 1,
                 kernel, strides, weighted, 2 if "input_y" in stages else 1, "acc" in stages,
                 "params" in stages)


def choose(config: AccelConfig, shape: Shape, threads: int) -> Tiles:
    """The cheapest tile that fits. Refuses a layer of which not even the smallest does."""
    best = min((candidate for candidate in _candidates(shape)
                if _fits(config, shape, candidate, threads)),
               key=lambda one: (_cost(config, shape, one, threads), -one.rows, -one.columns),
               default=None)
    if best is None:
        smallest = Tiles(1, 1, 1, 1)
        short = ", ".join(f"{name} needs {need} of {have} entries"
                          for name, need, have in _needs(config, shape, smallest, threads)
                          if need > have)
        times = f" {threads} times" if threads > 1 else ""
        raise LoweringError(f"Tile of one pixel must fit the buffers of {config.name}{times}: "
                            f"{short}")
    return best


def _candidates(shape: Shape) -> Iterable[Tiles]:
    depths = [d for d in range(1, shape.depth + 1) if shape.depth % d == 0]
    for rows, columns, channels, depth in product(
            _pieces(shape.rows), _pieces(shape.columns), _pieces(shape.channels), depths):
        yield Tiles(rows, columns, channels, depth)


def _pieces(extent: int) -> list[int]:
    """Sizes that cut `extent` into equal pieces, the last one perhaps smaller."""
    return sorted({ceil(extent / count) for count in range(1, extent + 1)})


def _window(shape: Shape, tiles: Tiles) -> int:
    """Input pixels of a tile."""
    return (((tiles.rows - 1) * shape.strides[0] + shape.kernel[0])
            * ((tiles.columns - 1) * shape.strides[1] + shape.kernel[1]))


def _needs(config: AccelConfig, shape: Shape, tiles: Tiles,
           threads: int) -> list[tuple[str, int, int]]:
    """Buffer, entries that a tile takes, entries that it may take."""
    have = {name: buffer.depth // threads for name, buffer in config.buffers.items()}
    outputs = tiles.rows * tiles.columns * tiles.channels
    pixels = _window(shape, tiles)
    needs = [("out", outputs)]
    if shape.accumulates:
        needs.append(("acc", outputs))
    if shape.parameters:
        needs.append(("par", tiles.channels))
    if shape.weighted:
        needs += [("inp", pixels * tiles.depth),
                  ("wgt", tiles.channels * shape.kernel[0] * shape.kernel[1] * tiles.depth)]
    else:
        needs.append(("res", pixels * tiles.channels * shape.inputs))
    return [(name, need, have[name]) for name, need in needs]


def _fits(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int) -> bool:
    return all(need <= have for _, need, have in _needs(config, shape, tiles, threads))


def _cost(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int) -> int:
    """Cycles, roughly."""
    count = (ceil(shape.rows / tiles.rows) * ceil(shape.columns / tiles.columns)
             * ceil(shape.channels / tiles.channels))
    taps = shape.kernel[0] * shape.kernel[1]
    outputs = tiles.rows * tiles.columns * tiles.channels
    entry = {name: buffer.entry_bytes for name, buffer in config.buffers.items()}
    steps, work = 1, outputs
    loaded = _window(shape, tiles) * tiles.channels * shape.inputs * entry["res"]
    if shape.weighted:
        steps, work = shape.depth // tiles.depth, outputs * taps * shape.depth
        loaded = shape.depth * (_window(shape, tiles) * entry["inp"]
                                + tiles.channels * taps * entry["wgt"])
    if shape.parameters:
        loaded += tiles.channels * entry["par"]
    stored = outputs * entry["out"]
    traffic = ceil((loaded + stored) / config.bus_bytes)
    if threads == 1:
        return count * (work + traffic + outputs + LATENCY)
    ends = ceil((loaded / steps + stored) / config.bus_bytes) + outputs + LATENCY
    return count * max(work + TURN * steps, traffic + traffic // 16 + 2 * TURN * steps) + ends
