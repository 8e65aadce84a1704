"""Layers that sum any term of inputs and constant weights, by a product of the machine's own.

What the product sums is tried with all inputs and weights, so how it is written does not matter.
Channels that fill up a block must add nothing: the weights there are what the inputs are there,
which is known of those that load pads, and of those that a product wrote.
"""

from dataclasses import replace

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.builders.layer import MappedLayer, in_line, quantization_of, stage_of
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import blocks_of, pack_params, pack_weights
from accel.mapping.operators import blocked
from accel.mapping.operators.blocked import Activation, Blocks, Product, Window
from compiler.graph.graph import Graph, Node
from compiler.ir.arithmetic import apply_expr
from compiler.ops.integers.integer_text import computed
from compiler.te import Expr, Read, Reduce, walk
from compiler.tensorize import Intrinsic

WRITERS = ("qconv2d", "qdense", "qterms")
"""Operators whose requantization leaves the zero point in channels that fill up a block."""


def terms(node: Node, graph: Graph, known: Forms, machine: Machine) -> MappedLayer:
    """Maps sums of a term along the last axis to the instruction of gemm that has it."""
    term, blocks = node.attrs["term"], blocks_of(machine.config)
    body = next((body for body in machine.of_unit("gemm") if _is(body, term)), None)
    if body is None:
        raise LoweringError(f"no instruction of gemm sums {term}")
    x, matrix = known[node.inputs[0]], graph.constants[node.inputs[1]]
    weights = matrix.reshape(len(matrix), x.c, x.h, x.w)
    beyond = _beyond(node, graph, x, blocks)
    if computed(term, [np.array(beyond), np.array(beyond)]).any():
        raise LoweringError(f"its term is not 0 of two numbers {beyond}, which fill up a block of "
                            f"channels")
    layer = _layer(node, in_line(x, blocks), weights, beyond,
                   replace(blocks, product=Product(body)))
    return replace(layer, macs=x.n * weights.size,
                   note=f"by {body.name} on the accelerator; without: on the host")


def _layer(node: Node, x: Activation, weights: np.ndarray, beyond: int, blocks: Blocks
           ) -> MappedLayer:
    window = Window((x.h, x.w) if weights.shape[2:] != (1, 1) else (1, 1))
    operator = blocked.convolution(stage_of(node), x, len(weights), window, beyond,
                                   quantization_of(node), blocks)
    params = pack_params(node.attrs["bias"], node.attrs["mult"], node.attrs["shift"], len(weights),
                         blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {
        "w": pack_weights(weights, x, blocks, beyond).astype(blocks.weight), "params": params})


def _beyond(node: Node, graph: Graph, x: Activation, blocks: Blocks) -> int:
    """The number in channels that fill up a block of inputs."""
    if x.plain or blocks.read(x.c) == x.c:
        return 0
    writer = next((each for each in graph.nodes if node.inputs[0] in each.outputs), None)
    if writer is None or writer.op not in WRITERS:
        raise LoweringError(f"its input has {x.c} channels, and gemm reads {blocks.read(x.c)}; "
                            f"what fills up the last block is known of plain inputs and products")
    return int(np.clip(writer.attrs["zp"], writer.attrs["lo"], writer.attrs["hi"]))


def _is(body: Intrinsic, term: str) -> bool:
    """True if an instruction sums the term of an element of inp and one of wgt: tried with all."""
    match body.value:
        case Reduce("sum", value, ((lane, _),)) if body.update == "sum" and not body.immediates:
            pass
        case _:
            return False
    row, column = (axis.var for axis in body.axes)
    places = {"inp": (row, lane), "wgt": (column, lane)}
    buses = {operand.name: operand.scopes[0] for operand in body.operands}
    reads = {node for node in walk(value) if isinstance(node, Read)}
    if (any(operand.dtype != "int8" for operand in body.operands)
            or {buses[node.buffer.name] for node in reads} != {*places}
            or any(node.indices != places[buses[node.buffer.name]] for node in reads)
            or {row, column, lane} & _alone(value)):
        return False
    every = np.arange(-128, 128).astype(np.int8)
    numbers = {"inp": every.reshape(-1, 1), "wgt": every.reshape(1, -1)}
    known: dict[Expr, np.ndarray] = {node: numbers[buses[node.buffer.name]] for node in reads}
    wanted = computed(term, [numbers["inp"].astype(np.int64), numbers["wgt"].astype(np.int64)])
    try:
        return bool((apply_expr(value, known) == wanted).all())
    except AssertionError:          # an expression that is no arithmetic
        return False


def _alone(value: Expr) -> set[Expr]:
    """The nodes of an expression without those of indices."""
    indices = {part for node in walk(value) if isinstance(node, Read) for index in node.indices
               for part in walk(index)}
    return {*walk(value)} - indices
