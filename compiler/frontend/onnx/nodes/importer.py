"""Turns the nodes of an ONNX graph into calls of the operators' functions.

What is refused is collected, so that one look at a model finds everything: the results of a refused
node are taken to be what ONNX's own inference says, and its readers are judged by that.
"""

import re
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from compiler.frontend.onnx.nodes import registry
from compiler.frontend.building.binding import dimensions
from compiler.frontend.onnx.nodes.functions import body_of, bound, types_of
from compiler.frontend.onnx.nodes.maps import OWN
from compiler.frontend.onnx.nodes.writer import REFUSED
from compiler.frontend.building.small_types import to_bytes
from compiler.frontend.building.values import NodeRefused, Tracer, Value, dtype_name, frozen
from compiler.graph.graph import DTYPES, Node, TensorType
from compiler.ops.records.rules import TypeRefused
from compiler.graph.rewrite import Builder
from compiler.te import SMALL

Item = Any
"""What a name of a model stands for: a Value, a list of them, None, or `UNKNOWN`."""

UNKNOWN = object()
STANDARD = ("", "ai.onnx")

SAME_SHAPE = ("Abs", "Cast", "CastLike", "Exp", "Identity", "Log", "Neg", "Reciprocal", "Relu",
              "Sigmoid", "Sqrt", "Tanh")
"""Operators whose result has the shape of their first input."""


def element_type(code: int) -> np.dtype:
    """The NumPy type of an ONNX element type; strings are objects."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
    return np.dtype(object) if dtype.kind in "SU" else dtype


CONTRADICTIONS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
                  MemoryError, RuntimeError)
"""What a model causes whose inputs and attributes contradict each other in a way that no operator
looks for.
"""


def _reason(error: Exception) -> str:
    if isinstance(error, NodeRefused | TypeRefused | ValueError | TypeError) and str(error):
        return str(error)
    if isinstance(error, MemoryError):
        return "it takes more memory than there is"
    return (f"its inputs and attributes contradict each other ({type(error).__name__}: {error})")


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    try:
        return frozen(onnx.numpy_helper.to_array(tensor))
    except CONTRADICTIONS as error:
        raise NodeRefused(f"initializer {tensor.name!r}: its data do not fit its type and shape "
                          f"({type(error).__name__}: {error})") from None


class Importer(Tracer):
    """A graph built from a model's nodes. `run`, if there is one, computes what must be known."""

    def __init__(self, model: onnx.ModelProto, name: str, run=None):
        super().__init__(Builder(name, _value_names(model.graph)), run)
        self.model = model
        self.opsets = {"": onnx.defs.onnx_opset_version(), **_versions(model.opset_import)}
        self.functions = {(function.domain, function.name): function
                          for function in model.functions}
        self.names: ChainMap[str, Item] = ChainMap()
        self.names_of_constants.update(_value_names(model.graph))
        self.refusals: list[str] = []
        self.outputs: Sequence[str] = ()
        self.proto = onnx.NodeProto()
        self.depth = 0
        self.extents: Mapping[str, int] = {}    # of dimensions with a name
        self.arranged: Collection[str] = ()     # LSTMs in the form that can be quantized

    @property
    def opset(self) -> int:
        """The version of the standard operators."""
        return self.opsets.get("", 1)

    def define_initializers(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            try:
                array = _array(tensor)
            except NodeRefused as error:
                if self.depth:
                    raise
                self.refusals.append(str(error))
                self.names[tensor.name] = UNKNOWN
            else:
                self.names[tensor.name] = self.constant(array, "" if self.depth else tensor.name)

    def graph(self, graph: onnx.GraphProto, inputs: Sequence[Item]) -> list[Item]:
        """The outputs of a subgraph of the current node for these inputs; it sees the values
        around it.
        """
        around, self.names = self.names, self.names.new_child()
        try:
            self.names.update({value.name: item for value, item
                               in zip(graph.input, inputs, strict=True)})
            self.define_initializers(graph)
            self.nodes(graph.node)
            return [self.names[output.name] for output in graph.output]
        finally:
            self.names = around

    def nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Nodes within a node: the first refusal is the outer node's."""
        outer = self.current, self.outputs, self.proto
        self.depth += 1
        try:
            for index, proto in enumerate(nodes):
                name = proto.name or f"{proto.op_type}_{index}"
                try:
                    self._convert(proto, self.builder.fresh_node(f"{outer[0]}.{name}"))
                except (NodeRefused, *CONTRADICTIONS) as error:
                    place, reason = f"{name} ({proto.op_type}): ", _reason(error)
                    if not reason.startswith(place):        # deep nests of one and the same
                        reason = f"{place}{reason}"
                    raise NodeRefused(reason) from error
        finally:
            self.depth -= 1
            self.current, self.outputs, self.proto = outer

    def add(self, proto: onnx.NodeProto, index: int) -> None:
        """Adds a node of the model itself."""
        name = self.builder.fresh_node(proto.name or f"{proto.op_type}_{index}")
        try:
            self._convert(proto, name)
        except (NodeRefused, *CONTRADICTIONS) as error:
            domain = "" if proto.domain in (*STANDARD, REFUSED) else f"{proto.domain}."
            reason = re.sub(rf"^{re.escape(name)}[.\w]*: ", "", _reason(error))
            self.refusals.append(f"{name} ({domain}{proto.op_type}): {reason}")
            self.names.update(self._guessed(proto))

    def _convert(self, proto: onnx.NodeProto, name: str) -> None:
        for output in proto.output:
            if output and output in self.names.maps[0]:
                raise NodeRefused(f"output {output!r} must be defined once")
        self.count()
        convert = self._rule(proto)
        inputs = [self._item(value) for value in proto.input]
        while inputs and inputs[-1] is None and not proto.input[len(inputs) - 1]:
            inputs.pop()
        if any(item is UNKNOWN for item in inputs):
            self.names.update(dict.fromkeys(filter(None, proto.output), UNKNOWN))
            return
        self.current, self.proto = name, proto
        self.outputs = proto.output
        start = len(self.builder.nodes)
        converted = convert(inputs)
        results = converted if isinstance(converted, tuple) else (converted,)
        if len(results) < len([output for output in proto.output if output]):
            raise NodeRefused(f"must have {len(results)} outputs, not {len(proto.output)}")
        for output, item in zip(proto.output, results, strict=False):
            if output:
                self.names[output] = item
        self._name(proto, name, start)

    def _rule(self, proto: onnx.NodeProto):
        """The function that converts the node: a function of its inputs."""
        domain = "" if proto.domain in STANDARD else proto.domain
        version, own = self.opsets.get(domain, 1), None
        if domain == REFUSED:
            raise NodeRefused(proto.doc_string)
        if domain == OWN:
            own = registry.find(OWN, proto.op_type.partition("_")[0], version)
        if own is None and (domain, proto.op_type) in self.functions:
            function = self.functions[domain, proto.op_type]
            return lambda inputs: self.function(function, proto, inputs)
        entry = own or registry.find(domain, proto.op_type, version)
        if entry is not None:
            return lambda inputs: registry.call(self, entry, proto, inputs, version)
        schema = registry.schema_of(domain, proto.op_type, version)
        if schema is None or not (schema.has_function or schema.has_context_dependent_function):
            raise NodeRefused("operator is not supported")
        return lambda inputs: self.function(
            body_of(schema, proto, inputs, version), proto, inputs)

    def function(self, function: onnx.FunctionProto, proto: onnx.NodeProto,
                 inputs: Sequence[Item]) -> tuple[Item, ...]:
        """The results of a node that is defined by other nodes."""
        around, opsets = self.names, self.opsets
        self.names = ChainMap({})
        self.opsets = opsets | _versions(function.opset_import)
        try:
            padded = [*inputs, *(None,) * (len(function.input) - len(inputs))]
            self.names.update(zip(function.input, padded, strict=True))
            self.nodes(bound(function, proto))
            return tuple(self.names.get(output, UNKNOWN) for output in function.output)
        finally:
            self.names, self.opsets = around, opsets

    def _item(self, name: str) -> Item:
        if not name:
            return None
        if name not in self.names:
            raise NodeRefused(f"input {name!r} must be defined before its use")
        return self.names[name]

    def _name(self, proto: onnx.NodeProto, name: str, start: int) -> None:
        """Names the graph's node that makes the first result after the model's node, and results
        after the model's values.
        """
        makers = {node.outputs[0]: node.name for node in self.builder.nodes[start:]}
        values, nodes = {}, {}
        for output in proto.output:
            item = self.names.get(output)
            if isinstance(item, Value) and item.name in makers:
                if not values:
                    nodes[makers[item.name]] = name
                if item.name not in values:
                    values[item.name], item.role = self._fresh(output, item), output
                item.name = values[item.name]
        self.builder.rename(start, values, nodes)

    def _fresh(self, output: str, item: Value) -> str:
        """The name in the graph of what is computed for a model's value. A result of the model
        itself that has a small type is made of what carries it.
        """
        if not self.depth and item.dtype in SMALL and output in {
                value.name for value in self.model.graph.output}:
            return self.builder.fresh(f"{output}.codes")
        return output if not self.depth else self.builder.fresh(output)

    def _guessed(self, proto: onnx.NodeProto) -> dict[str, Item]:
        """Values of the types that ONNX infers, to judge the readers of a refused node by."""
        domain = "" if proto.domain in STANDARD else proto.domain
        inferred = types_of(registry.schema_of(domain, proto.op_type, self.opsets.get(domain, 1)),
                            proto, [self.names.get(name) for name in proto.input], self.opsets)
        told = {value.name: value.type for value in (*self.model.graph.value_info,
                                                     *self.model.graph.output)}
        return {output: self._of_type(output, inferred.get(output) or told.get(output))
                for output in proto.output if output}

    def _of_type(self, output: str, type_: onnx.TypeProto | None) -> Item:
        if type_ is None or not type_.tensor_type.HasField("shape"):
            return UNKNOWN
        extents = tuple(dim.dim_value for dim in type_.tensor_type.shape.dim)
        try:
            known = TensorType(extents, dtype_name(element_type(type_.tensor_type.elem_type)))
        except CONTRADICTIONS:      # a type that no graph has
            return UNKNOWN
        return self.input(self.builder.fresh(output), known)

    def told(self, place: int = 0) -> tuple[int, ...] | None:
        if self.depth or place >= len(self.outputs):
            return None
        return self._shapes.get(self.outputs[place])

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes that the model declares in full, and those that follow backwards from them."""
        shapes = {value.name: shape for value in (*self.model.graph.value_info,
                                                  *self.model.graph.output)
                  if (shape := declared_shape(value, self.extents)) is not None}
        for node in reversed(self.model.graph.node):
            if node.op_type in SAME_SHAPE and node.domain in STANDARD and (
                    node.output[0] in shapes):
                shapes.setdefault(node.input[0], shapes[node.output[0]])
        return shapes

    def result(self, name: str) -> str:
        """The name in the graph of one of the model's results, which is its own."""
        item = self.names[name]
        if not isinstance(item, Value):
            raise NodeRefused(f"output {name!r} must be a tensor")
        _require_given(self.model.graph, name, item)
        if item.name == name:
            return name
        if name in self.builder.values:
            raise NodeRefused(f"output {name!r} must be made by a node of the model")
        if item.constant and item.name is None:
            try:
                return self.builder.add_constant(name, _used(item))
            except ValueError as error:
                raise NodeRefused(f"output {name!r} cannot be used: {error}") from None
        if item.dtype in SMALL:
            self.current = name
            return self.builder.emit("bitcast", self.builder.fresh_node(f"{name}.bitcast"),
                                     [self.enter(to_bytes(item))], name, to=item.dtype)
        self.builder.add(Node("identity", self.builder.fresh_node(name), (self.enter(item),),
                              (name,)))
        return name


def declared_shape(value: onnx.ValueInfoProto, extents: Mapping[str, int]
                   ) -> tuple[int, ...] | None:
    """The shape of a tensor if all its extents are told, or have names that are bound."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    shape = [extents.get(dim, 0) if isinstance(dim, str) else dim for dim in dimensions(value)]
    return tuple(shape) if min(shape, default=1) > 0 else None


def _versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {"" if opset.domain in STANDARD else opset.domain: opset.version for opset in imports}


def _require_given(graph: onnx.GraphProto, name: str, item: Value) -> None:
    """Refuses an output of another type than its declared one, where either is one that processors
    do not compute with.
    """
    codes = {value.name: value.type.tensor_type.elem_type for value in graph.output}
    told = dtype_name(element_type(codes[name])) if codes.get(name) else item.dtype
    if item.array is None and told != item.dtype and not {told, item.dtype} <= {*DTYPES}:
        raise NodeRefused(f"output {name!r} must be {told}, as the model declares it, not "
                          f"{item.dtype}")


def _used(item: Value) -> np.ndarray:
    assert item.array is not None
    return item.array


def _value_names(graph: onnx.GraphProto) -> list[str]:
    return [*(tensor.name for tensor in graph.initializer),
            *(value.name for value in graph.input),
            *(output for node in graph.node for output in node.output)]
