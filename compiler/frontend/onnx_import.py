"""ONNX models as graphs.

Shapes are constants: symbolic dimensions are bound by name on import. Everything that a user can
get wrong raises ImportRefused, whose message is one line: what, where and what to do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from compiler.frontend.onnx_operators import (
    OPERATORS,
    Attributes,
    NodeRefused,
    Operator,
    Placed,
)
from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.ops import TypeRefused
from compiler.graph.rewrite import Builder

__all__ = ["ImportRefused", "convert", "load"]

OLDEST_OPSET = 10


class ImportRefused(ValueError):
    """A model that cannot be imported; the message is one line."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))


def load(path: str | PathLike[str], shapes: Mapping[str, int] | None = None) -> Graph:
    """The graph of an ONNX file, named after it; `shapes` binds symbolic dimensions by name."""
    path = Path(path)
    try:
        model = onnx.load(path, format="protobuf")
    except FileNotFoundError:
        raise ImportRefused(f"{path}: no such file; give the path of an ONNX model") from None
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be read: {error.strerror or error}") from None
    except DecodeError:
        raise ImportRefused(f"{path}: is not an ONNX file; give a model in .onnx format") from None
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ImportRefused(f"{path}: is not a valid ONNX model: {error}") from None
    return convert(model, path.stem, shapes, place=str(path))


def convert(model: onnx.ModelProto, name: str = "model",
            shapes: Mapping[str, int] | None = None, place: str | None = None) -> Graph:
    """The graph of a model in memory; `place` stands before every refusal (the name unless told).
    """
    place = place or name
    _check_model(model, place)
    importer = _Importer(Builder(name, _value_names(model.graph)), place,
                         {tensor.name: tensor for tensor in model.graph.initializer})
    for value, type_ in _input_types(model.graph, dict(shapes or {}), place):
        importer.builder.add_input(value, type_)
    for index, proto in enumerate(model.graph.node):
        importer.add(proto, index)
    return importer.finish([output.name for output in model.graph.output])


def _check_model(model: onnx.ModelProto, place: str) -> None:
    if not model.HasField("graph") or not model.graph.output:
        raise ImportRefused(f"{place}: is not an ONNX model with a graph; "
                            "give a model in .onnx format")
    newest = onnx.defs.onnx_opset_version()
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    version = max(versions, default=1)
    if not OLDEST_OPSET <= version <= newest:
        raise ImportRefused(f"{place}: opset must be {OLDEST_OPSET} to {newest}, not {version}; "
                            "convert the model with onnx.version_converter")
    if model.graph.sparse_initializer:
        raise ImportRefused(f"{place}: sparse initializers are not supported; store "
                            f"{model.graph.sparse_initializer[0].values.name!r} as a dense tensor")


def _value_names(graph: onnx.GraphProto) -> Iterable[str]:
    yield from (tensor.name for tensor in graph.initializer)
    yield from (value.name for value in graph.input)
    for node in graph.node:
        yield from node.output


def _input_types(graph: onnx.GraphProto, shapes: dict[str, int],
                 place: str) -> list[tuple[str, TensorType]]:
    """Name and type of every input that has no initializer, symbolic dimensions bound."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    symbols = {name: value.name for value in inputs for name in _dimensions(value)
               if isinstance(name, str)}
    _check_bindings(symbols, shapes, place)
    return [(value.name, _input_type(value, shapes, place)) for value in inputs]


def _dimensions(value: onnx.ValueInfoProto) -> list[int | str]:
    """Extents; a symbol stands by its name, a nameless unknown as INPUT.AXIS."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_param or (dim.dim_value if dim.dim_value > 0 else f"{value.name}.{axis}")
            for axis, dim in enumerate(dims)]


def _check_bindings(symbols: Mapping[str, str], shapes: Mapping[str, int], place: str) -> None:
    for name, extent in shapes.items():
        if name not in symbols:
            known = ", ".join(symbols) or "none"
            raise ImportRefused(f"{place}: --shape {name}={extent} names no dimension of the "
                                f"inputs; the symbolic ones are: {known}")
        if type(extent) is not int or extent < 1:
            raise ImportRefused(f"{place}: --shape {name}=N must have an integer N of at least 1, "
                                f"not {extent!r}")
    unbound = [name for name in symbols if name not in shapes]
    if unbound:
        listed = ", ".join(f"{name!r} of input {symbols[name]!r}" for name in unbound)
        example = " ".join(f"--shape {name}=1" for name in unbound)
        raise ImportRefused(f"{place}: no value for dimension {listed}; bind each with "
                            f"--shape NAME=N, for example {example}")


def _input_type(value: onnx.ValueInfoProto, shapes: Mapping[str, int], place: str) -> TensorType:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or not tensor.elem_type:
        raise ImportRefused(f"{place}: input {value.name!r} must be a tensor with a shape; "
                            "declare its type and shape in the model")
    shape = tuple(shapes[d] if isinstance(d, str) else d for d in _dimensions(value))
    try:
        return TensorType(shape, np.dtype(_numpy_type(tensor.elem_type)).name)
    except (ValueError, KeyError, TypeError) as error:
        raise ImportRefused(f"{place}: input {value.name!r} cannot be used: {error}; "
                            "change its type in the model") from None


def _numpy_type(code: int) -> np.dtype:
    return onnx.helper.tensor_dtype_to_np_dtype(code)


@dataclass(slots=True)
class _Importer:
    """Nodes go in one after the other; what is refused is collected, and `finish` reports all.

    A value whose node was refused is unknown: its readers are then checked by their attributes
    alone.
    """

    builder: Builder
    place: str
    initializers: dict[str, onnx.TensorProto]
    unknown: set[str] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)
    current: tuple[str, str] = ("", "")

    def add(self, proto: onnx.NodeProto, index: int) -> None:
        name = self.builder.fresh_node(proto.name or f"{proto.op_type}_{index}")
        try:
            self._convert(proto, name)
        except (NodeRefused, TypeRefused, ValueError, TypeError) as error:
            domain = "" if proto.domain in ("", "ai.onnx") else f"{proto.domain}."
            reason = str(error).removeprefix(f"{name}: ")
            self.refusals.append(f"{name} ({domain}{proto.op_type}): {reason}")
            self.unknown.update(proto.output)

    def _convert(self, proto: onnx.NodeProto, name: str) -> None:
        if proto.op_type not in OPERATORS or proto.domain not in ("", "ai.onnx"):
            raise NodeRefused("operator is not supported")
        operator = OPERATORS[proto.op_type]
        attributes = Attributes.of(proto)
        read = operator.read(attributes)
        attributes.close()
        placed = _placed(proto, operator)
        if self.unknown.intersection(placed.inputs):
            self.unknown.add(placed.output)
            return
        if placed.output in self.builder.values:
            raise NodeRefused(f"output {placed.output!r} must be defined once")
        self.current = name, placed.output
        for value in filter(None, placed.inputs):
            self._use(value)
        operator.build(self, placed, read)

    def _use(self, value: str) -> None:
        """Initializers enter the graph with their first reader."""
        if value in self.initializers and value not in self.builder.values:
            self.define_constant(value, onnx.numpy_helper.to_array(self.initializers[value]))
        if value not in self.builder.values:
            raise NodeRefused(f"input {value!r} must be defined before its use")

    def type_of(self, value: str) -> TensorType:
        return self.builder.values[value]

    def constant(self, value: str, role: str) -> np.ndarray:
        if value not in self.builder.constants:
            raise NodeRefused(f"its {role} {value!r} must be a constant")
        return self.builder.constants[value]

    def add_constant(self, stem: str, array: np.ndarray) -> str:
        return self.builder.add_constant(self.builder.fresh(stem), array)

    def define_constant(self, value: str, array: np.ndarray) -> None:
        try:
            self.builder.add_constant(value, array)
        except ValueError as error:
            self.builder.constants.pop(value, None)
            raise NodeRefused(f"constant {value!r} cannot be used: {error}") from None

    def emit(self, op: str, inputs: tuple[str, ...], **attrs: object) -> None:
        name, output = self.current
        self.builder.add(Node(op, name, inputs, (output,), attrs))

    def finish(self, outputs: list[str]) -> Graph:
        if self.refusals:
            raise ImportRefused(f"{self.place}: cannot import {'; '.join(self.refusals)}; replace "
                                f"these in the model (supported: {', '.join(OPERATORS)})")
        for value in outputs:
            try:
                self._use(value)
            except NodeRefused:
                raise ImportRefused(f"{self.place}: output {value!r} is made by no node; "
                                    "export the model again") from None
        return self.builder.finish(outputs)


def _placed(proto: onnx.NodeProto, operator: Operator) -> Placed:
    inputs = list(proto.input)
    while inputs and not inputs[-1]:
        inputs.pop()
    low, high = operator.inputs
    if not low <= len(inputs) <= high or ("" in inputs and not operator.gaps):
        wanted = str(low) if low == high else f"{low} to {high}"
        raise NodeRefused(f"must have {wanted} inputs, not {len(inputs)}")
    outputs = [value for value in proto.output if value]
    if len(outputs) != 1:
        raise NodeRefused(f"must have 1 output, not {len(outputs)}")
    return Placed(tuple(inputs), outputs[0])
