"""Functions of a model, and operators that ONNX defines by others: their bodies, with a node's
attributes put in, how many nodes they stand for, and the types that ONNX infers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused, Value

DEEPEST = 100
"""Functions that call one another."""

LARGEST_KNOWN = 1 << 10
"""Elements of a constant that ONNX is told for its inference: shapes, not tables."""


def body_of(schema: Any, proto: onnx.NodeProto, inputs: Sequence[Any],
            opset: int) -> onnx.FunctionProto:
    """The body of the operator at this opset; it may depend on types and on attributes. `schema` is
    an `onnx.defs.OpSchema`.
    """
    versions = schema.context_dependent_function_opset_versions
    if schema.has_context_dependent_function and versions:
        types = [_type_of(item).SerializeToString() for item in inputs]
        text = schema.get_context_dependent_function_with_opset_version(
            _newest(versions, opset), proto.SerializeToString(), types)
    else:
        text = schema.get_function_with_opset_version(
            _newest(schema.function_opset_versions, opset))
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    if not function.node:
        raise NodeRefused("operator is not supported for inputs of these types")
    return function


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=min(versions))


def _type_of(item: Any) -> onnx.TypeProto:
    if isinstance(item, list):
        raise NodeRefused("operator is not supported for sequences")
    if not isinstance(item, Value):
        return onnx.TypeProto()
    dtype = onnx.TensorProto.STRING if item.dtype == "string" else (
        onnx.helper.np_dtype_to_tensor_dtype(np.dtype(item.dtype)))
    return onnx.helper.make_tensor_type_proto(dtype, item.shape)


def types_of(schema: Any, proto: onnx.NodeProto, inputs: Sequence[Any],
             opsets: Mapping[str, int]) -> dict[str, onnx.TypeProto]:
    """The types that ONNX infers of this node alone, by its outputs' names; none where it fails."""
    known = {name: item for name, item in zip(proto.input, inputs, strict=True)
             if name and isinstance(item, Value)}
    more = [attribute for attribute in proto.attribute if attribute.name == "num_outputs" and
            attribute.i > len(proto.output)]      # ONNX would list them all
    if more or schema is None or len(known) < len(set(filter(None, proto.input))):
        return {}
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    shapes = {name: item.array for name, item in known.items()
              if item.constant and item.array is not None and item.size <= LARGEST_KNOWN}
    try:
        return onnx.shape_inference.infer_node_outputs(
            schema, proto, {name: _type_of(item) for name, item in known.items()},
            {name: onnx.numpy_helper.from_array(array) for name, array in shapes.items()},
            opset_imports=imports)
    except (NodeRefused, onnx.shape_inference.InferenceError, onnx.checker.ValidationError,
            ValueError, TypeError, RuntimeError, MemoryError):
        return {}


def expanded(model: onnx.ModelProto) -> int:
    """Counts the nodes of the model with its functions inlined.

    Raises NodeRefused for functions that call themselves, or one another too deeply.
    """
    functions = {(function.domain, function.name): function for function in model.functions}
    known: dict[tuple[str, str], int] = {}

    def size(nodes: Iterable[onnx.NodeProto], calls: tuple[tuple[str, str], ...]) -> int:
        return sum(1 + called((node.domain, node.op_type), calls)
                   + sum(size(graph.node, calls) for attribute in node.attribute
                         for graph in (attribute.g, *attribute.graphs)) for node in nodes)

    def called(name: tuple[str, str], calls: tuple[tuple[str, str], ...]) -> int:
        if name not in functions:
            return 0
        if name in calls:
            circle = (*calls[calls.index(name):], name)
            raise NodeRefused("functions must not call themselves: "
                              + " calls ".join(".".join(name) for name in circle[:5]))
        if len(calls) == DEEPEST:
            raise NodeRefused(f"functions must call one another {DEEPEST} deep at most")
        if name not in known:
            known[name] = size(functions[name].node, (*calls, name))
        return known[name]

    return size(model.graph.node, ())


def bound(function: onnx.FunctionProto, proto: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of the body; references to the function's attributes become the node's values."""
    given = {attribute.name: attribute for attribute in function.attribute_proto}
    given |= {attribute.name: attribute for attribute in proto.attribute}
    return [_bound(node, given) for node in function.node]


def _bound(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(_attributes(node, given))
    return copy


def _attributes(node: onnx.NodeProto,
                given: Mapping[str, onnx.AttributeProto]) -> Iterator[onnx.AttributeProto]:
    """The attributes of a node in a body, without those that refer to one that is not given."""
    for attribute in node.attribute:
        new = onnx.AttributeProto()
        new.CopyFrom(given.get(attribute.ref_attr_name, attribute) if attribute.ref_attr_name
                     else attribute)
        if attribute.ref_attr_name and attribute.ref_attr_name not in given:
            continue
        new.name = attribute.name
        new.ref_attr_name = ""
        if new.type == onnx.AttributeProto.GRAPH and not attribute.ref_attr_name:
            nodes = [_bound(inner, given) for inner in new.g.node]
            del new.g.node[:]
            new.g.node.extend(nodes)
        yield new
