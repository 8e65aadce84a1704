"""ONNX operators as functions: the table, and how a node becomes a call.

An operator is one function. Its first parameter is the importer, its other positional ones are the
node's inputs in order, its keyword-only ones the attributes, by their ONNX names::

    @operator("Softmax")
    def softmax(t, x, *, axis):

A parameter without a default must be given, unless ONNX has a default for it. What the schema of
the model's opset does not know is refused before the call. Where an older opset has an attribute
for what is an input today, the attribute comes as a constant in the input's place; what else opsets
1 to 6 have is handled before the call (`compiler.frontend.onnx.nodes.older`). Results are one
value, or a tuple where the node has several; a list is a sequence, and None an empty optional.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.onnx.nodes.older import as_later, older


@dataclass(frozen=True, slots=True)
class OnnxFunction:
    """From opset `since` on, until a later one of the same name."""

    function: Callable[..., Any]
    since: int
    inputs: tuple[str, ...]
    required: int
    variadic: bool
    attributes: dict[str, Any]


MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

OPERATORS: dict[tuple[str, str], list[OnnxFunction]] = {}
"""By domain and name; the newest first."""


def operator(*names: str, since: int = 1, domain: str = "") -> Callable[[Callable], Callable]:
    """Registers a function for operators of these names."""
    def register(function: Callable) -> Callable:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        inputs = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
        required = sum(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty
                       for p in parameters)
        variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        attributes = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        for name in names:
            table = OPERATORS.setdefault((domain, name), [])
            table.append(OnnxFunction(function, since, inputs, required, variadic,
                                      attributes))
            table.sort(key=lambda version: -version.since)
        return function
    return register


def find(domain: str, name: str, opset: int) -> OnnxFunction | None:
    return next((version for version in OPERATORS.get((domain, name), ())
                 if version.since <= opset), None)


@lru_cache(4096)
def schema_of(domain: str, name: str, opset: int) -> Any:
    """The `onnx.defs.OpSchema`, if there is one."""
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None


def attributes_of(proto: onnx.NodeProto) -> dict[str, Any]:
    """Attribute values by name: numbers, strings, arrays, graphs, and tuples of them."""
    return {attribute.name: _plain(onnx.helper.get_attribute_value(attribute))
            for attribute in proto.attribute}


def _plain(value: Any) -> Any:
    match value:
        case bytes(): return value.decode()
        case onnx.TensorProto(): return onnx.numpy_helper.to_array(value)
        case list(): return tuple(map(_plain, value))
        case str() | int() | float() | onnx.GraphProto(): return value
    if hasattr(value, "__iter__"):
        return tuple(map(_plain, value))
    return value


def call(t: Any, function: OnnxFunction, proto: onnx.NodeProto, inputs: list[Any],
         opset: int) -> Any:
    """The results of the node. `inputs` holds None for those that are absent."""
    schema = schema_of(proto.domain, proto.op_type, opset)
    given = attributes_of(proto)
    _check(proto, schema, given, inputs, function)
    if schema is not None:
        given, inputs = as_later(schema, given, inputs)
    if not function.variadic:
        inputs = [*inputs, *(None,) * (len(function.inputs) - len(inputs))]
        inputs = [t.constant(_tensor(given[name])) if value is None and name in given else value
                  for name, value in zip(function.inputs, inputs, strict=False)]
        while inputs and inputs[-1] is None:
            inputs.pop()
    return function.function(t, *inputs, **_attributes(function, schema, given))


def _check(proto: onnx.NodeProto, schema: Any, given: dict[str, Any],
           inputs: list[Any], function: OnnxFunction) -> None:
    if schema is None:
        _check_unknown(given, inputs, function)
        return
    low, high = schema.min_input, schema.max_input
    if not low <= len(inputs) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        raise NodeRefused(f"must have {wanted} inputs, not {len(inputs)}")
    known = {*function.attributes, *function.inputs} | older(schema)
    for name in given:
        if name not in schema.attributes or name not in known:
            raise NodeRefused(f"attribute {name!r} is not supported")
    if not schema.min_output <= len(proto.output) <= schema.max_output:
        raise NodeRefused(f"must have {schema.min_output} to {schema.max_output} outputs, "
                          f"not {len(proto.output)}")
    for formal, name in zip(schema.inputs, proto.input, strict=False):
        if not name and formal.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            raise NodeRefused(f"its input {formal.name} must be given")


def _check_unknown(given: dict[str, Any], inputs: list[Any], function: OnnxFunction) -> None:
    """The check of an operator that ONNX has no schema of: its function is one."""
    low, high = function.required, len(function.inputs)
    if len(inputs) < low or len(inputs) > high and not function.variadic:
        wanted = str(low) if low == high else f"{low} to {high}"
        raise NodeRefused(f"must have {wanted} inputs, not {len(inputs)}")
    for name in given:
        if name not in function.attributes and name not in function.inputs:
            raise NodeRefused(f"attribute {name!r} is not supported")


def _attributes(function: OnnxFunction, schema: Any, given: dict[str, Any]) -> dict[str, Any]:
    values = {}
    for name, default in function.attributes.items():
        declared = schema.attributes.get(name) if schema else None
        usual = declared.default_value if declared else None
        if name in given:
            values[name] = given[name]
        elif usual is not None and usual.type:
            values[name] = _plain(onnx.helper.get_attribute_value(usual))
        elif default is inspect.Parameter.empty:
            raise NodeRefused(f"{name} must be given")
        else:
            values[name] = default
    return values


def _tensor(value: Any) -> np.ndarray:
    """An attribute as the tensor that a later opset has as an input."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and not isinstance(value, np.ndarray):
        return array.astype(np.float32)
    return array
