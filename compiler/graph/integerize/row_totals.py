"""Sums and means along the last axis as products with weights of one: gemm adds up what lies along
rows, which a machine's vector instructions may not.
"""

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.integerize.quantized import QuantizedView
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, QuantizedInputs, Stored,
                                                clamp_to, weighted)


def is_row_total(view: QuantizedView, core: Node) -> bool:
    """True if an operator is the sum, or the mean, of a tensor's last axis."""
    total = view.producers.get(core.inputs[0]) if core.op == "div" else core
    if total is None or total.op != "reduce_sum":
        return False
    rank = len(view.shape(total.inputs[0]))
    divisor = view.graph.constants.get(core.inputs[1]) if core.op == "div" else np.ones(())
    return rank > 1 and tuple(total.attrs["axes"]) == (rank - 1,) and (
        divisor is not None and divisor.size == 1 and bool((divisor > 0).all()))


def row_total(view: QuantizedInputs, core: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    """The `qdense` of an operator that `is_row_total`, reshaped where it keeps no axis."""
    assert isinstance(view, QuantizedView)
    total, share = core, 1.0
    if core.op == "div":
        total = view.producers[core.inputs[0]]
        share = 1 / float(view.graph.constants[core.inputs[1]].reshape(()))
    x = view.activation(total.inputs[0])
    ones = np.ones((1, view.shape(total.inputs[0])[-1]), np.int8)
    sums, constants = weighted(view, (), x, ones, np.array([share]), out)
    kept = IntegerNode("qdense", (x.value,), clamp_to(out, bounds) | sums, constants)
    shape = {"shape": view.shape(core.outputs[0])}
    return kept if total.attrs["keepdims"] else IntegerNode("reshape", (kept,), shape)
