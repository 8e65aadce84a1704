"""What one ONNX node means, by itself: constants, or an input that it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import ModelProto

from compiler.frontend.importer import Importer, element_type
from compiler.frontend.values import NodeRefused, Value, dtype_name
from compiler.graph.graph import DTYPES, TensorType
from compiler.graph.passes import CleanUp, FoldConstants

__all__ = ["Meaning", "Types", "meaning"]

Types = Mapping[str, tuple[int, tuple[int, ...]]]
"""Values with their ONNX element types and shapes; 0 stands for an unknown extent."""

UNKNOWN_EXTENTS = (2, 65537)
"""Stand for what is not known: what holds for both is taken to hold for every extent."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """By the name of a result: its elements where they are constant, or the input that it is."""

    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)


def meaning(model: ModelProto, types: Types) -> Meaning:
    """The meaning of the model's only node, with inputs of these types and the model's
    initializers. What cannot be imported means nothing.
    """
    extents = UNKNOWN_EXTENTS if any(0 in shape for _, shape in types.values()) else (1,)
    first, *others = (_meaning(model, types, extent) for extent in extents)
    for other in others:
        first = replace(first, same={name: source for name, source in first.same.items()
                                     if other.same.get(name) == source})
    return first


def _meaning(model: ModelProto, types: Types, extent: int) -> Meaning:
    importer = Importer(model, "node")
    importer.define_initializers(model.graph)
    for value, (code, shape) in types.items():
        dtype = dtype_name(element_type(code))
        if dtype not in DTYPES:
            return Meaning()
        type_ = TensorType(tuple(one or extent for one in shape), dtype)
        importer.names[value] = importer.input(value, type_)
    importer.add(model.graph.node[0], 0)
    if importer.refusals:
        return Meaning()
    names = [name for name in model.graph.node[0].output if name]
    items = {name: importer.names.get(name) for name in names}
    constants = {name: item.array for name, item in items.items()
                 if isinstance(item, Value) and item.constant and item.array is not None
                 and item.dtype != "string"}
    return Meaning(constants, _same(importer, [name for name in names if name not in constants]))


def _same(importer: Importer, names: list[str]) -> dict[str, str]:
    held = [name for name in names if importer.holds(name)]
    try:
        graph = importer.builder.finish([importer.result(name) for name in held])
    except NodeRefused:
        return {}
    makers = CleanUp()(FoldConstants()(graph)).producers()
    nodes = {name: makers[name] for name in held if name in makers}
    return {name: node.inputs[0] for name, node in nodes.items()
            if node.op == "identity" and node.inputs[0] in graph.inputs}
