"""The signs of ONNX files: of each operator its name with its domain, and the types that its zero
points, its constants and its attributes tell.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compiler.frontend import kinds
from compiler.frontend.onnx.importing import read_model
from compiler.frontend.spellings.signs import FileSigns, Sign

CODES = frozenset(getattr(TensorProto, name) for name in (
    "INT2", "UINT2", "INT4", "UINT4", "INT8", "UINT8", "INT16", "UINT16", "FLOAT4E2M1",
    "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
    if hasattr(TensorProto, name))
"""Types of quantized elements; int32 of biases says nothing."""

BITS = {"bits": "{} bits", "block_size": "blocks of {}"}
"""Attributes that say how weights are packed."""


def read(path: Path) -> FileSigns:
    model = read_model(path)
    producer = f"{model.producer_name} {model.producer_version}"
    return FileSigns.of(kinds.ONNX, (producer, *_producers(model)), _Signs(model).all())


def _producers(model: ModelProto) -> Iterator[str]:
    """Further tools that metadata name: lockstep.version, nncf, and the like."""
    for entry in model.metadata_props:
        name, _, last = entry.key.rpartition(".")
        if last in ("version", "producer") and name:
            yield f"{name} {entry.value}"


class _Signs:
    """The operators of a model, those of its functions and branches included."""

    def __init__(self, model: ModelProto):
        self.model = model
        self.constants: dict[str, TensorProto] = {
            tensor.name: tensor for tensor in model.graph.initializer}
        self.types: dict[str, int] = {
            value.name: value.type.tensor_type.elem_type
            for value in (*model.graph.input, *model.graph.value_info)}
        self.producers: dict[str, NodeProto] = {}

    def all(self) -> list[Sign]:
        own = [node for function in self.model.functions for node in function.node]
        nodes = [*_nodes(self.model.graph.node), *_nodes(own)]
        for node in nodes:
            self.producers.update(dict.fromkeys(node.output, node))
            self.constants.update((node.output[0], attribute.t) for attribute in node.attribute
                                  if node.op_type == "Constant" and attribute.name == "value")
        return [sign for node in nodes if (sign := self._sign(node)) is not None]

    def _sign(self, node: NodeProto) -> Sign | None:
        domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
        if node.op_type == "Clip":
            return Sign("Clip", "of integers") if self._is_of_integers(node) else None
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute
                      if one.type in (one.INT, one.STRING)}
        return Sign(f"{domain}{node.op_type}", self._types(node, attributes))

    def _is_of_integers(self, node: NodeProto) -> bool:
        before = self.producers.get(node.input[0])
        return self._type(node.input[0]) in CODES or (
            before is not None and before.op_type == "QuantizeLinear")

    def _types(self, node: NodeProto, attributes: Mapping[str, Any]) -> str:
        match node.op_type:
            case "QuantizeLinear" | "DequantizeLinear":
                return self._of_pair(node, attributes)
            case "Quant" | "IntQuant" | "BipolarQuant" | "Trunc" | "FloatQuant":
                return self._of_qonnx(node, attributes)
        told = [text.format(attributes[name]) for name, text in BITS.items() if name in attributes]
        return ", ".join((*self._of_constants(node.input), *told))

    def _of_pair(self, node: NodeProto, attributes: Mapping[str, Any]) -> str:
        """``uint8``, ``int8 constant per channel, zero points``."""
        scale, zero = (self._array(node.input, place) for place in (1, 2))
        told = map(self._type, (*node.input[2:3], *node.input[:1]))
        kind = next((kind for kind in told if kind in CODES or kind == TensorProto.INT32),
                    attributes.get("output_dtype", TensorProto.UINT8))
        words = [_name(kind)]
        if node.input[0] in self.constants and node.op_type == "DequantizeLinear":
            words.append("constant")
        if block := attributes.get("block_size"):
            words.append(f"in blocks of {block}")
        elif scale is not None and scale.size > 1:
            words.append("per channel")
        has_zeros = "constant" in words and zero is not None and np.any(zero)
        return " ".join(words) + (", zero points" if has_zeros else "")

    def _of_qonnx(self, node: NodeProto, attributes: Mapping[str, Any]) -> str:
        """``8 bits signed``, ``4 bits constant per channel``."""
        scale, bits = self._array(node.input, 1), self._array(node.input, 3)
        words = [] if bits is None or bits.size != 1 else [f"{bits.item():g} bits"]
        words += [name for name in ("signed", "narrow") if attributes.get(name)]
        words += ["constant"] * (node.input[0] in self.constants)
        return " ".join(words + ["per channel"] * (scale is not None and scale.size > 1))

    def _of_constants(self, names: Iterable[str]) -> list[str]:
        """The types of its quantized constants, in order."""
        found = (self.constants[name].data_type for name in names if name in self.constants)
        return [*dict.fromkeys(_name(kind) for kind in found if kind in CODES)]

    def _type(self, name: str) -> int:
        """The element type of a value, 0 where the file does not say it."""
        constant = self.constants.get(name)
        return self.types.get(name, 0) if constant is None else constant.data_type

    def _array(self, names: Sequence[str], place: int) -> np.ndarray | None:
        tensor = self.constants.get(names[place]) if place < len(names) else None
        return None if tensor is None else numpy_helper.to_array(tensor)


def _nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes, and those of their branches and bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def _name(kind: int) -> str:
    return TensorProto.DataType.Name(kind).lower()
