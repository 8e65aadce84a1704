"""The integer operators of a softmax."""

from compiler.graph.graph import Graph, TensorType
from compiler.graph.rewrite import Builder
from compiler.ops.families.row_functions import RECIPROCALS, exponentials

SCALED = {"mult": 40000, "shift": 36, "zp": -120, "lo": -128, "hi": 127}


def softmax_graph(shape: tuple[int, ...], between: bool = False) -> Graph:
    """The two operators of a softmax; what is `between` them may be a result as well."""
    builder, (high, low) = Builder("net"), exponentials(0.03)
    builder.add_input("x", TensorType(shape, "int8"))
    for name, array in (("high", high), ("low", low), ("reciprocals", RECIPROCALS)):
        builder.add_constant(name, array)
    builder.emit("qbelow_max", "below", ["x"], "below")
    builder.emit("qsoftmax", "y", ["below", "high", "low", "reciprocals"], "y", **SCALED)
    return builder.finish(["y", "below"] if between else ["y"])
