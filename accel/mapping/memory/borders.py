"""The tensors that cross between a segment and the host: which cross, and in which order they lie.

A segment has `relayout` nodes at its borders where the host has images with their channels last
(`compiler.graph.division.layout`). They become no layers: the layouts of the program's tensors
express them.
"""

from dataclasses import replace
from math import prod

from accel.machine.program import AccelProgram, TensorSlot
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms, ValueForm
from accel.mapping.memory.layout import BLOCKED, BLOCKED_LAST, BLOCKED_ROWS, LAST, PLAIN, PLAIN_ROWS
from accel.mapping.operators.blocked import Activation
from compiler.graph.division.cheapest_orders import NCHW, NHWC, Order
from compiler.graph.division.layout import RELAYOUT
from compiler.graph.graph import Graph


def layout_of(form: ValueForm) -> str:
    """The layout of a tensor that lies in memory in this form."""
    x, by_rows = form.stored, form.as_rows or len(form.shape) not in (2, 4)
    assert isinstance(x, Activation)
    layouts = (PLAIN_ROWS, BLOCKED_ROWS) if by_rows else (PLAIN, BLOCKED)
    return layouts[0 if x.plain else 1]


def orders(graph: Graph, forms: Forms) -> dict[str, Order | None]:
    """The order of each input and output of a segment, as in
    `compiler.graph.division.layout.Borders`."""
    return {value: NCHW if forms.stored(value) is None else _order(forms, value)
            for value in (*graph.inputs, *graph.outputs)}


def _order(forms: Forms, value: str) -> Order | None:
    x, shape = forms[value], forms.shape(value)
    layout = layout_of(forms.values[value])
    if layout in (PLAIN_ROWS, BLOCKED_ROWS) or len(shape) == 2 and (x.c == 1 or x.h * x.w == 1):
        return NCHW
    lanes = forms.blocks.batch if layout == BLOCKED else 1
    interleaved = lanes > 1 and x.n > 1 and x.h * x.w > 1
    return None if interleaved or len(shape) == 2 else NHWC


def is_converted(slot: TensorSlot) -> bool:
    """True if the elements of a tensor change their order when it is copied."""
    if slot.layout in (PLAIN_ROWS, BLOCKED_ROWS):
        return False
    pixels, images = prod(slot.shape[1:3]), slot.logical[0]
    if slot.layout == BLOCKED_LAST:
        return min(slot.shape[3], images, pixels) > 1
    return pixels > 1 and prod(slot.logical[1:]) > pixels


def core(graph: Graph) -> Graph:
    """The segment without `relayout`, its inputs in the order of their use."""
    nodes = tuple(node for node in graph.nodes if node.op != RELAYOUT)
    if len(nodes) == len(graph.nodes):
        return graph
    inside = {outside: value for value, outside in _outside(graph).items()}
    outputs = {inside.get(value, value) for value in graph.outputs}
    results = [value for node in nodes for value in node.outputs]
    read = dict.fromkeys(value for node in nodes for value in node.inputs)
    known = read.keys() | {*results}
    return replace(
        graph, nodes=nodes, outputs=tuple(value for value in results if value in outputs),
        inputs=tuple(value for value in read if value not in {*results, *graph.constants}),
        values={value: type_ for value, type_ in graph.values.items() if value in known})


def with_borders(program: AccelProgram, graph: Graph) -> AccelProgram:
    """Adapt a program to a segment with the same nodes: its tensors get the names and layouts of
    `graph`.
    """
    inner, outside = core(graph), _outside(graph)
    positions = {node.inputs[2] for node in inner.nodes if node.op == "qput"}   # lie nowhere
    given = tuple(value for value in inner.inputs if value not in positions)

    def slots(names: tuple[str, ...], existing: tuple[TensorSlot, ...],
              order: tuple[str, ...]) -> tuple[TensorSlot, ...]:
        crossing = {outside.get(name, name): _crossing(graph, slot, outside.get(name), name)
                    for name, slot in zip(names, existing, strict=True)}
        return tuple(crossing[value] for value in order if value in crossing)

    return replace(program, inputs=slots(given, program.inputs, graph.inputs),
                   outputs=slots(inner.outputs, program.outputs, graph.outputs))


def _outside(graph: Graph) -> dict[str, str]:
    """Maps each value of a `relayout` inside the segment to its counterpart at the border."""
    return {inside: outside for node in graph.nodes if node.op == RELAYOUT
            for inside, outside in [(node.outputs[0], node.inputs[0])
                                    if node.inputs[0] in graph.inputs
                                    else (node.inputs[0], node.outputs[0])]}


def _crossing(graph: Graph, slot: TensorSlot, outside: str | None, name: str) -> TensorSlot:
    if outside is None:
        return replace(slot, name=name)
    shape = graph.values[outside].shape
    if slot.layout not in LAST:
        raise LoweringError(f"{outside} must be an image to have its channels last, and it lies in "
                            f"memory as {slot.layout}")
    return replace(slot, name=outside, layout=LAST[slot.layout], logical=shape)
