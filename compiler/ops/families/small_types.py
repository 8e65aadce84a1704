"""Types that no operator computes with, at the inputs and outputs of a network.

`bitcast` is a view: no kernel computes it. Bits of the byte that a number of fewer bits does not
have may be anything in an input; networks leave 0 there.
"""

import numpy as np

from compiler import te
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Attributes, Inputs, Operator
from compiler.ops.records.rules import Types, need, need_arity
from compiler.te import Tensor


def _type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    pair = types[0].dtype, node.attrs["to"]
    need("uint8" in pair and any(dtype in te.SMALL for dtype in pair), node,
         f"bitcast must be between uint8 and one of {', '.join(te.SMALL)}, not from {pair[0]} to "
         f"{pair[1]!r}")
    return TensorType(types[0].shape, node.attrs["to"])


def _define(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, = inputs
    return te.compute(x.shape, lambda *at: x[at], name=name)


def _meaning(attrs: Attributes, x: np.ndarray) -> np.ndarray:
    return x.view(te.numpy_dtype(attrs["to"]))


# Records
OPERATORS = (
    Operator(
        name="bitcast", summary="the bytes of x as another type", inputs="x",
        attributes="to: uint8 of a type that no operator computes with, or such a type of uint8",
        define=_define, meaning=_meaning, type=_type, reads_small=True,
        view=lambda attrs, whole, part: True),
)
