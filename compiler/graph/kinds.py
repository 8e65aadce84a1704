"""What each operator may be fused with: the table.

| kind | element of the result | operators |
|---|---|---|
| elementwise | from the elements at its own place; one of the injective ones | relu, add |
| injective | from few elements, by a formula | reshape, concat |
| reduction | from all elements along some axes, each read once | globalavgpool |
| complex | from many elements, each read many times; its result may be mapped | conv2d, maxpool |
| opaque | not said | everything that the table does not name |

After T. Chen et al.: TVM, OSDI 2018, section 3.
"""

from enum import IntEnum

__all__ = ["KINDS", "Kind", "kind"]


class Kind(IntEnum):
    """In the order of what may be done with them: a smaller one may stand where a greater may."""

    ELEMENTWISE = 0
    INJECTIVE = 1
    REDUCTION = 2
    COMPLEX = 3
    OPAQUE = 4


_OPERATORS = {
    Kind.ELEMENTWISE: (
        "relu", "clip", "leakyrelu", "identity", "quantizelinear", "dequantizelinear",
        "qadd", "qrescale", "qleakyrelu", "quantize", "dequantize", "to_int8", "to_uint8",
        "add", "sub", "mul", "div", "mod", "fmod", "pow", "minimum", "maximum", "neg", "sign",
        "abs", "and", "or", "xor", "not", "shl", "shr", "equal", "less", "less_equal", "is_nan",
        "where", "cast", "exp", "log", "sqrt", "erf", "floor", "ceil", "rint", "sin", "cos",
        "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    Kind.INJECTIVE: ("reshape", "upsample", "slice", "concat", "qconcat", "transpose",
                     "relayout", "expand", "reverse", "pad"),
    Kind.REDUCTION: ("globalavgpool", "qglobalavgpool", "reduce_sum", "reduce_max", "reduce_min",
                     "reduce_prod"),
    Kind.COMPLEX: ("conv2d", "convtranspose2d", "conv", "dense", "matmul", "einsum", "maxpool",
                   "avgpool", "pool_max", "pool_sum", "qconv2d", "qconvtranspose2d", "qdense",
                   "qmatmul", "qmaxpool", "qavgpool"),
}
KINDS: dict[str, Kind] = {op: kind for kind, ops in _OPERATORS.items() for op in ops}


def kind(op: str) -> Kind:
    """The kind of an operator of graphs; opaque unless the table says more."""
    return KINDS.get(op, Kind.OPAQUE)
