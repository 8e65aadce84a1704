"""The mappings of layers with products as input of Timeloop: problem and mapping, in its YAML of
version 0.3, a document for each layer.

The levels are DRAM, then the buffers acc, wgt and inp, each of which keeps one operand, and the
array. A document is self-contained but for the architecture, which needs levels of these names. It
says what the machine computes, so channels are whole blocks::

    DRAM    tiles of channels, rows and columns, in the order of the schedule; steps of depth
    inp     a tile: rows, columns, channel blocks, depth, kernel
    array   block_in of C, block_out of M, batch of N, at the same time
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine
from accel.mapping.plans.choices import Group, LayerPart
from accel.mapping.schedules import shape_of
from compiler.texts import Part, PartedText

DIMENSIONS = "CMRSNPQ"
"""Input and output channels, columns and rows of the kernel, images, output columns and rows."""

KEPT = {"acc": "Outputs", "wgt": "Weights", "inp": "Inputs"}
"""The buffers, from DRAM inwards, and the data that each keeps."""

IN_TILE = "RSCMPQN"                             # the innermost loop first, as Timeloop has it
AROUND_TILES = {"input": "RSCMPQN", "w": "RSCPQMN", "": "RSCPQMN"}
"""Orders of the loops around tiles, by the operand that stays."""

BY_ROWS = "RSCPMQN"
"""The order of tiles that come by rows."""

PROJECTIONS = {
    "Weights": ("[[C]]", "[[M]]", "[[R]]", "[[S]]"),
    "Inputs": ("[[N]]", "[[C]]", "[[R, Wdilation], [P, Wstride]]",
               "[[S, Hdilation], [Q, Hstride]]"),
    "Outputs": ("[[N]]", "[[M]]", "[[Q]]", "[[P]]")}


@dataclass(frozen=True, slots=True)
class Mapped:
    """Factors of each dimension: tiles in DRAM's loops, within a tile, and at the same time."""

    tiles: Mapping[str, int]
    inside: Mapping[str, int]
    lanes: Mapping[str, int]

    def extent(self, dimension: str) -> int:
        """The extent of a dimension."""
        return prod(part.get(dimension, 1) for part in (self.tiles, self.inside, self.lanes))


def timeloop_text(machine: Machine, groups: Sequence[Group]) -> PartedText:
    """A part for each layer: its document, or a line that says why it has none."""
    return PartedText([Part((part.layer.node.name, part.layer.name),
                            lambda part=part: _document(machine.config, part))
                       for group in groups for part in group])


def unmapped(part: LayerPart) -> str | None:
    """Why Timeloop's problem of convolutions does not say what a layer computes, or None."""
    operator, shape = part.layer.operator, shape_of(part.layer.operator)
    if not shape.weighted:
        return "it has no products"
    if shape.diagonal or shape.times > operator.extents("output").get("n", 1):
        return "its groups have weights of their own"
    if "y" in operator.stages:
        return "its weights are computed"
    if shape.phases > 1:
        return "each position is several pixels"
    if shape.planes:
        return "each sum is several elements"
    if part.tiles.pieces > 1 or shape.passes > 1:
        return "its products are in several passes"
    return None


def mapped(config: AccelConfig, part: LayerPart) -> Mapped:
    """The factors of a layer; a last tile that is smaller counts as a whole one."""
    shape, tiles = shape_of(part.layer.operator), part.tiles
    inside = {"C": tiles.depth, "M": tiles.channels, "P": tiles.columns, "Q": tiles.rows,
              "R": shape.kernel[1], "S": shape.kernel[0]}
    whole = {"C": shape.depth, "M": shape.channels, "P": shape.columns, "Q": shape.rows}
    around = {name: -(-extent // inside[name]) for name, extent in whole.items()}
    return Mapped(around | {"N": shape.times}, inside,
                  {"C": config.block_in, "M": config.block_out, "N": config.batch})


def _document(config: AccelConfig, part: LayerPart) -> Iterator[str]:
    yield "---"
    reason = unmapped(part)
    if reason:
        yield f"# {part.layer.name}: no mapping, since {reason}"
        return
    factors = mapped(config, part)
    yield f"# {part.layer.name} on {config.name}"
    yield from _notes(part, factors)
    yield from _problem(part, factors)
    yield from _mapping(BY_ROWS if part.tiles.by_rows else AROUND_TILES[part.tiles.stationary],
                        factors)


def _notes(part: LayerPart, factors: Mapped) -> Iterator[str]:
    """Lists what the document does not say."""
    shape = shape_of(part.layer.operator)
    if shape.row:
        yield "# windows are packed: C are the elements of a window"
    if shape.residuals:
        yield "# the sums meet a residual, which is loaded besides"
    for name, extent in (("P", shape.columns), ("Q", shape.rows)):
        if factors.extent(name) != extent:
            yield f"# {name} is {extent}; the last tile counts as a whole one"


def _problem(part: LayerPart, factors: Mapped) -> Iterator[str]:
    shape = shape_of(part.layer.operator)
    yield from ("problem:", "  shape:", "    name: CNN-Layer",
                f"    dimensions: [{', '.join(DIMENSIONS)}]", "    coefficients:")
    steps = dict(zip(("Hstride", "Wstride", "Hdilation", "Wdilation"),
                     (*shape.strides, *shape.dilations), strict=True))
    for name in steps:
        yield f"      - {{name: {name}, default: 1}}"
    yield "    data-spaces:"
    for name, projection in PROJECTIONS.items():
        written = ", read-write: True" if name == "Outputs" else ""
        yield f"      - {{name: {name}, projection: [{', '.join(projection)}]{written}}}"
    yield "  instance:"
    yield from (f"    {name}: {factors.extent(name)}" for name in DIMENSIONS)
    yield from (f"    {name}: {step}" for name, step in steps.items())


def _mapping(around: str, factors: Mapped) -> Iterator[str]:
    yield "mapping:"
    yield from _nest("DRAM", "temporal", factors.tiles, around)
    for buffer in KEPT:
        last = buffer == [*KEPT][-1]
        yield from _nest(buffer, "temporal", factors.inside if last else {}, IN_TILE)
    yield from _nest("inp", "spatial", factors.lanes, "CMNPQRS")
    yield "    split: 1"
    for buffer, kept in KEPT.items():
        others = ", ".join(one for one in PROJECTIONS if one != kept)
        yield from (f"  - target: {buffer}", "    type: bypass", f"    keep: [{kept}]",
                    f"    bypass: [{others}]")


def _nest(level: str, kind: str, factors: Mapping[str, int], order: str) -> Iterator[str]:
    """Loops of a level; the innermost stands first in `order`."""
    told = " ".join(f"{name}={factors.get(name, 1)}" for name in DIMENSIONS)
    yield from (f"  - target: {level}", f"    type: {kind}", f"    factors: {told}",
                f"    permutation: {order}")
