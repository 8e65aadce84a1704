"""Operators that ONNX defines by other operators: their bodies, with a node's attributes put in."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from compiler.frontend.values import NodeRefused, Value

__all__ = ["body_of", "bound"]


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
    return max((one for one in versions if one <= opset), default=min(versions))


def _type_of(item: Any) -> onnx.TypeProto:
    if isinstance(item, list):
        raise NodeRefused("operator is not supported for sequences")
    if not isinstance(item, Value):
        return onnx.TypeProto()
    dtype = onnx.TensorProto.STRING if item.dtype == "string" else (
        onnx.helper.np_dtype_to_tensor_dtype(np.dtype(item.dtype)))
    return onnx.helper.make_tensor_type_proto(dtype, item.shape)


def bound(function: onnx.FunctionProto, proto: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of the body; attributes that refer to the function's are those of the node."""
    given = {one.name: one for one in function.attribute_proto}
    given |= {one.name: one for one in proto.attribute}
    return [_bound(node, given) for node in function.node]


def _bound(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(_attributes(node, given))
    return copy


def _attributes(node: onnx.NodeProto,
                given: Mapping[str, onnx.AttributeProto]) -> Iterator[onnx.AttributeProto]:
    """Attributes that refer to one that is not given are left out."""
    for one in node.attribute:
        new = onnx.AttributeProto()
        new.CopyFrom(given.get(one.ref_attr_name, one) if one.ref_attr_name else one)
        if one.ref_attr_name and one.ref_attr_name not in given:
            continue
        new.name = one.name
        new.ref_attr_name = ""
        if new.type == onnx.AttributeProto.GRAPH and not one.ref_attr_name:
            nodes = [_bound(inner, given) for inner in new.g.node]
            del new.g.node[:]
            new.g.node.extend(nodes)
        yield new
