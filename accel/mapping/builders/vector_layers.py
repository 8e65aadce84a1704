"""Builders of layers that declared instructions of vector compute: elementwise operators, places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.builders.layer import MappedLayer, in_line, stage_of
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms, ValueForm
from accel.mapping.memory.layout import blocks_of, pack_params, pack_records
from accel.mapping.memory.misfits import other_type
from accel.mapping.operators import elementwise, places
from accel.mapping.operators.blocked import Activation, Blocks
from accel.mapping.selecting.selection import Selection, note_of, select
from compiler.graph.graph import Graph, Node
from compiler.tensorize.cover import CoverStep


def elementwise_layer(node: Node, graph: Graph, known: Forms, machine: Machine) -> MappedLayer:
    """Maps an operator to the instructions that compute it, a stage for each."""
    blocks, result = blocks_of(machine.config), known[node.outputs[0]]
    selection = select(machine, graph, node)
    inputs = {leaf: known[value] for leaf, value in selection.inputs.items()}
    _require_broadcast(node, known, selection)
    whole = inputs
    if all(_extents(x) == _extents(result) for x in inputs.values()):
        whole = {leaf: in_line(x, blocks) for leaf, x in inputs.items()}
        if len({(x.n, x.w) for x in whole.values()}) > 1:
            whole = inputs
    first = next(iter(whole.values()))
    seen = replace(first, plain=False) if whole is not inputs else result
    operator = elementwise.elementwise(stage_of(node), whole, seen, selection.steps, blocks)
    sources = [role for role in operator.stages if role in elementwise.SOURCES]
    return MappedLayer(node, operator, dict(zip(sources, selection.inputs.values(), strict=True)),
                       {**_parameters(known.of(node), result, selection, blocks),
                        **{role: selection.tables[buffer.name] for role, buffer
                           in elementwise.tables_of(selection.steps).items()}},
                       note=note_of(machine, graph, node, selection))


def elementwise_refusal(graph: Graph, node: Node, element: str) -> str | None:
    """Why tensors are none that instructions take, of the type `element`."""
    computed = [value for value in node.inputs if value not in graph.constants]
    if not computed:
        return "all its inputs are constants"
    for side, values in (("input", computed), ("result", node.outputs)):
        for x in (graph.values[value] for value in values):
            if x.dtype != element:
                return other_type(side, x.dtype, element)
            if len(x.shape) < 2:
                return f"its {side} has {len(x.shape)} dimensions; the accelerator takes 2 and more"
    return None


def _require_broadcast(node: Node, known: Forms, selection: Selection) -> None:
    """Refuses inputs that the result's images, or rows, do not repeat as they lie in memory."""
    result, extents = known.of(node), _extents(known[node.outputs[0]])
    for value in selection.inputs.values():
        form, own = known.values[value], _extents(known[value])
        if form.shape == result.shape:
            if own != extents:
                raise LoweringError("its inputs lie in memory as images and as rows of matrices")
            continue
        repeated = all(mine in (1, theirs) for mine, theirs in zip(own, extents, strict=True))
        alike = form.is_image if result.is_image else form.as_rows
        if not (alike and repeated):
            raise LoweringError(f"an input of shape {form.shape} is repeated to {result.shape}; "
                                f"the accelerator repeats images, channels, rows and columns")


def _extents(x: Activation) -> tuple[int, ...]:
    return x.n, x.c, x.h, x.w


def _parameters(form: ValueForm, result: Activation, selection: Selection, blocks: Blocks
                ) -> dict[str, np.ndarray]:
    """The records of each step that reads parameters, by role."""
    axis = 1 if form.is_image else len(form.shape) - 1

    def along(array: np.ndarray) -> np.ndarray:
        if array.size != array.shape[axis]:
            raise LoweringError(f"its constant of shape {array.shape} must be one number, or one "
                                f"for each of {result.c} channels")
        return array.reshape(-1)

    constants = {leaf: along(array) for leaf, array in selection.constants.items()}
    return records_of(selection.steps, constants, result, blocks)


def records_of(steps: Sequence[CoverStep], constants: Mapping[str, np.ndarray], result: Activation,
             blocks: Blocks) -> dict[str, np.ndarray]:
    """The records of each step that reads some, by role."""
    return {role: pack_records(elementwise.record_read(step),
                               elementwise.numbers_of(step, constants), result.c, blocks)
            for step, role in elementwise.parameters_of(steps).items()}


def place_layer(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps the place of the greatest, or least, channel."""
    x = known[node.inputs[0]]
    operator = places.place(stage_of(node), in_line(x, blocks), node.op == "qargmax", blocks)
    numbers, shifts = places.place_numbers(x, blocks), places.byte_shifts(blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {
        "params": pack_params(numbers, 0, 0, len(numbers), blocks),
        "params_1": pack_params(shifts, 0, 0, len(shifts), blocks)})


def place_refusal(graph: Graph, node: Node) -> str | None:
    """Why no instructions find a place."""
    if node.attrs["axis"] != 1:
        return f"it is along axis {node.attrs['axis']}; the accelerator takes channels"
    x = graph.values[node.inputs[0]]
    return None if x.dtype == "int8" else f"its input is {x.dtype}; places are found in int8"
