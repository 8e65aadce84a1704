"""Builders of functions of rows: along the lanes of entries, or across them.

Across lanes, an entry has an element of many rows, and memory has them apart. They are loaded and
stored byte by byte, or the whole is turned by gemm before and behind: a product of blocks of it, as
weights, with the identity is their transpose. What one function of rows makes for another stays
turned.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.builders.layer import MappedLayer, in_line, rows_within, stage_of
from accel.mapping.builders.vector_layers import records_of
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import blocks_of
from accel.mapping.memory.views import View
from accel.mapping.memory.weights import slots_of
from accel.mapping.operators.blocked import Blocks
from accel.mapping.operators.elementwise import tables_of
from accel.mapping.operators.products import Planes, matrix_product
from accel.mapping.operators.rows import row_function
from accel.mapping.operators.rows_across import row_function_across
from accel.mapping.selecting.row_selection import (RowSelection, is_row_function,
                                                   select_rows)
from accel.mapping.selecting.stream_selection import computed_together
from compiler.graph.graph import Graph, Node

Layers = tuple[MappedLayer, ...]

TURNED = ".turned"
"""The end of the name of a transpose."""


def row_function_ways(node: Node, graph: Graph, known: Forms, machine: Machine) -> Iterator[Layers]:
    """The ways to compute a function of rows. Along lanes those where rows fit less are behind the
    others; across lanes any may be the cheapest.
    """
    blocks = blocks_of(machine.config)
    selection = select_rows(machine, graph, node)
    own = [name for name in dict.fromkeys(step.intrinsic.name for step in selection.steps)
           if name in machine.own]
    other = ("by shipped ones" if selection.across else
             "on the host" if few_rows(node, known, blocks) else "across lanes")
    note = f"by {', '.join(own)} on the accelerator; without: {other}" if own else ""
    constants = _constants(node, known, selection, blocks)
    if selection.across:
        for before, layer, behind in _across(node, known, selection, machine):
            records = {role: _in_all_lanes(array, *layer.operator[role].shape)
                       if role.startswith("params") else array
                       for role, array in constants.items()}
            yield (*before, replace(layer, constants=records, note=note), *behind)
        return
    x = in_line(known[node.inputs[0]], blocks)
    for apart in (False, True):
        operator = row_function(stage_of(node), x, selection, blocks, apart)
        yield (MappedLayer(node, operator, {"x": node.inputs[0]}, constants, note=note),)


def _constants(node: Node, known: Forms, selection: RowSelection, blocks: Blocks
               ) -> Mapping[str, np.ndarray]:
    """The records and the tables of all steps, by role."""
    arrays = {name: array.reshape(-1) for name, array in selection.constants.items()}
    tables = {role: selection.tables[buffer.name]
              for role, buffer in tables_of(selection.steps).items()}
    return records_of(selection.steps, arrays, known[node.outputs[0]], blocks) | tables


def _in_all_lanes(records: np.ndarray, count: int, lanes: int) -> np.ndarray:
    """The first records, one of each element, in all lanes of an entry."""
    return np.repeat(records.reshape(-1)[:count, None], lanes, axis=1)


def _across(node: Node, known: Forms, selection: RowSelection, machine: Machine
            ) -> Iterator[tuple[Layers, MappedLayer, Layers]]:
    """The ways to compute a function of rows across lanes: what comes before, the function, and
    what comes behind it."""
    blocks, form = blocks_of(machine.config), known[node.outputs[0]]
    x, z = _matrix(known, node.inputs[0]), _matrix(known, node.outputs[0])
    lanes = blocks.batch * blocks.block_out
    if blocks.batch > 1 and x.shape[0] % lanes:
        raise LoweringError(f"its {x.shape[0]} rows are not a multiple of the {lanes} of an entry")
    turns = _turns(machine)
    given, kept = (turns and _stays_turned(known, value, machine)
                   for value in (node.inputs[0], node.outputs[0]))
    if not (given or kept):
        channels = form.c if form.plain else blocks.padded(form.c)
        yield (), _function(node, x, z, channels, selection, blocks), ()
    if turns and (given or x.strides[1] == 1) and (kept or z.strides[1] == 1):
        before, layer, behind = _between_turns(node, x, z, selection, blocks, not form.plain)
        source = {"x": f"{node.inputs[0]}{TURNED}"} if given else layer.inputs
        yield () if given else before, replace(layer, inputs=source), () if kept else behind


def _between_turns(node: Node, x: View, z: View, selection: RowSelection, blocks: Blocks,
                   padded: bool) -> tuple[Layers, MappedLayer, Layers]:
    """A function of the transpose of what it reads, whose transpose it writes."""
    (value, *_), (result,) = node.inputs, node.outputs
    rows, elements = blocks.padded(x.shape[0]), x.shape[1]
    turned = View((rows, elements), (1, rows), rows * elements)
    first, last = f"{result}.input", f"{result}{TURNED}"
    before = _turned(node, "turned", value, x, turned.transposed((1, 0)), blocks)
    layer = _function(node, turned, turned, elements, selection, blocks)
    behind = _turned(node, "back", last, turned.transposed((1, 0)), z, blocks, padded)
    return (tuple(replace(one, result=first, room=turned.size) for one in before),
            replace(layer, inputs={"x": first}, result=last, room=turned.size), behind)


def few_rows(node: Node, known: Forms, blocks: Blocks) -> str:
    """A phrase for rows that fill less than half of an entry; "" where they fill more."""
    rows, lanes = math.prod(known.shape(node.inputs[0])[:-1]), blocks.batch * blocks.block_out
    return f"{rows} of {lanes}" if 2 * rows < lanes else ""


def _stays_turned(known: Forms, value: str, machine: Machine) -> bool:
    """True if functions of rows alone make and read a value: its transpose is all they need. An
    instruction of a stream unit that may compute one of them alone needs the value itself."""
    maker, readers = known.producers.get(value), known.readers[value]
    return (maker is not None and is_row_function(maker) and bool(readers)
            and value not in known.graph.outputs
            and all(is_row_function(one) and one.inputs[0] == value for one in readers)
            and not any((maker in nodes) != (one in nodes) for one in readers
                        for nodes in computed_together(machine, known.graph, (maker, one))))


def _turns(machine: Machine) -> bool:
    """True if gemm multiplies computed matrices of bytes, of one image in an entry."""
    config = machine.config
    known = (slots_of(body) for body in machine.of_unit("gemm"))
    return config.batch == 1 and (config.operand, config.weight) == ("int8", "int8") and any(
        slots is not None and slots.dense for slots in known)


def _matrix(known: Forms, value: str) -> View:
    """The rows of a tensor as those of one matrix."""
    view, part, shape = known.view(value), known.part(value), known.shape(value)
    matrix = view and view.reshaped((math.prod(shape[:-1]), shape[-1]))
    if matrix is None or part is not None:
        raise LoweringError("its rows lie in memory among others")
    # Padding lies beside an only element, which has no stride.
    return matrix if shape[-1] > 1 else replace(matrix, strides=(matrix.strides[0], 1))


def _function(node: Node, x: View, z: View, channels: int, selection: RowSelection, blocks: Blocks
              ) -> MappedLayer:
    """The function itself, of rows with any strides."""
    lanes, (rows, elements), (row, element) = blocks.batch * blocks.block_out, x.shape, z.strides
    together = lanes if x.strides[0] == 1 == row else 1
    operator = row_function_across(stage_of(node), (rows, elements), channels, selection, blocks,
                                   together)
    return MappedLayer(
        node, operator, {"x": node.inputs[0]}, {}, views={"x": x},
        pitches=(0, 0, row * lanes, row * blocks.block_out, element, row),
        bounds=((-4, -1, rows),) if rows % lanes else ())


def _turned(node: Node, part: str, value: str, x: View, z: View, blocks: Blocks,
            padded: bool = True) -> Layers:
    """The transpose of a matrix whose rows lie together, written as `z`, `padded` where whole
    blocks of it are: blocks of as many columns as a product takes, and those that are left.
    """
    whole, left = divmod(z.shape[0], blocks.block_in)
    parts = [(0, whole, blocks.block_in), (whole * blocks.block_in, 1, left)]
    return tuple(_turned_blocks(node, f"{part}{begin or ''}", value, x, z, blocks, padded,
                                (begin, count, size)) for begin, count, size in parts
                 if count and size)


def _turned_blocks(node: Node, part: str, value: str, x: View, z: View, blocks: Blocks,
                   padded: bool, cut: tuple[int, int, int]) -> MappedLayer:
    """The transpose of so many blocks of columns of a size, from one on: each is the identity times
    what is loaded as weights."""
    begin, count, size = cut
    seen = View((count, x.shape[0], size), (size * x.strides[1], *x.strides), x.size,
                x.offset + begin * x.strides[1])
    target = View((count, size, z.shape[1]), (size * z.strides[0], *z.strides), z.size)
    operator = matrix_product(f"{stage_of(node)}_{part}", (size, size), seen.shape, True,
                              Planes(size), None, blocks)
    return MappedLayer(node, operator, {"y": value}, {"x": np.eye(size, dtype=np.int8)}, part=part,
                       offset=begin * z.strides[0], views={"y": seen},
                       **rows_within(operator, target, blocks, padded))


def row_function_refusal(graph: Graph, node: Node, forms: Forms) -> str | None:
    """Why a function of rows does not read rows of int8."""
    x = graph.values[node.inputs[0]]
    if node.inputs[0] in graph.constants:
        return "its input is a constant"
    if (x.dtype, forms.blocks.element) != ("int8", "int8"):
        return (f"its input is {x.dtype} on a machine of {forms.blocks.element}; functions of rows "
                "are of int8")
    form = forms.values.get(node.inputs[0])
    if form is None or not form.as_rows:
        return "its input lies in memory as images, not as rows"
    return None
