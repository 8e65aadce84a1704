"""Requantization by integers of a word and one shift, for processors without float64 and with
32-bit registers.

::

    (sum + bias) * mult / 2**shift            16 bits, a shift of each channel
      ->  (sum + bias) * m / 2**n             32 bits times 31, one shift

The largest m of a tensor has 31 bits. All others are integers too, unless scales of its channels
are more than 15 bits apart; then the tensor keeps its multipliers. The product is exact in 64 bits,
so that nothing changes but the instructions: a shift that is known, and mostly is beyond a word,
costs a few (`cpu.schedules.roundings.in_words`).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.families.requantization import SHIFT, sums_of
from compiler.ops.registry import find

INPUTS, BITS, MOST_SHIFT = 5, 31, 61
BYTE = 128                  # the largest size of a factor


@dataclass(frozen=True, slots=True)
class ScalesAsIntegers:
    """product(..., mult, shift) -> product(..., word) with one shift for all channels.

    Before: any graph. After: the same values; operators whose records have `scales` multiply by
    integers of 31 bits, if they have constants, and sums of bytes that cannot wrap. The graph
    itself where there are none.
    """

    name: ClassVar[str] = "scales-as-integers"

    def __call__(self, graph: Graph) -> Graph:
        words = {node.name: word for node in graph.nodes
                 if (word := _in_words(graph, node)) is not None}
        if not words:
            return graph
        builder = Builder.like(graph)
        for node in graph.nodes:
            if node.name in words:
                scale, shift = words[node.name]
                name = builder.add_constant(builder.fresh(f"{node.inputs[3]}.word"), scale)
                node = replace(node, inputs=(*node.inputs[:3], name),
                               attrs={**node.attrs, SHIFT: shift})
            builder.add(node)
        return eliminate_dead_code(builder.finish(graph.outputs))


def _in_words(graph: Graph, node: Node) -> tuple[np.ndarray, int] | None:
    """The integers and the shift; None where there are none."""
    if not find(node.op).scales or len(node.inputs) != INPUTS or any(
            value not in graph.constants for value in node.inputs[1:]) or _may_wrap(graph, node):
        return None
    mult, shift = (graph.constants[value].astype(np.int64) for value in node.inputs[3:])
    scale = np.ldexp(mult.astype(np.float64), -shift)
    if scale.max(initial=0) == 0:
        return None
    amount = BITS - int(np.frexp(scale.max())[1])
    word = np.ldexp(scale, amount)
    if not 1 <= amount <= MOST_SHIFT or (word != np.rint(word)).any():
        return None
    return word.astype(np.int32), amount


def _may_wrap(graph: Graph, node: Node) -> bool:
    """True if a sum, its bias included, may not fit 32 bits."""
    x, weight = (graph.values[value].dtype for value in node.inputs[:2])
    bias = graph.constants[node.inputs[2]].astype(np.int64)
    terms = graph.constants[node.inputs[1]].size // max(1, len(bias))
    most = terms * BYTE * BYTE + int(np.abs(bias).max(initial=0))
    return (x, weight, sums_of(node.attrs)) != ("int8", "int8", "int32") or most >= 2**31
