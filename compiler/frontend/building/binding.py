"""Applies what a user says of a model's inputs before import: open extents, and elements.

An open dimension is called by its name in the model, which stands for all dimensions of that name,
or by its place, INPUT.AXIS, which goes before; `?` is no name. An input that is bound to elements
becomes a constant, and is no input any more.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, ValueInfoProto, numpy_helper

from compiler.frontend.building.arrays import array_shapes
from compiler.frontend.building.refusal import ImportRefused
from compiler.graph.graph import Graph, TensorType
from compiler.graph.passes import EliminateDeadCode, FoldConstants
from compiler.graph.rewrite import Builder
from compiler.te import numpy_dtype

Array = np.ndarray
Bindings = Mapping[str, Any]
"""Elements by the name of the input: an array of its shape, or a number for all of them."""

NAMELESS = ("", "?")


def real_inputs(graph: onnx.GraphProto) -> list[ValueInfoProto]:
    """The inputs that have no initializer."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def dimensions(value: ValueInfoProto) -> list[int | str]:
    """Extents; the name of an open dimension, INPUT.AXIS where it has none, or an extent below 0.
    """
    return [dim.dim_param if dim.dim_param not in NAMELESS else
            dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else
            f"{value.name}.{axis}" for axis, dim in enumerate(value.type.tensor_type.shape.dim)]


def open_dimensions(inputs: Iterable[ValueInfoProto]) -> dict[str, str]:
    """The name of each open dimension by its place, INPUT.AXIS."""
    return {f"{value.name}.{axis}": dim for value in inputs
            for axis, dim in enumerate(dimensions(value)) if isinstance(dim, str)}


def extents_of(inputs: Iterable[ValueInfoProto], arrays: Mapping[str, Array],
               shapes: Mapping[str, int] | None = None) -> dict[str, int]:
    """`shapes`, and for each open dimension that they leave open what the arrays have there."""
    bound, given = dict(shapes or {}), array_shapes(arrays)
    for value in inputs:
        extents = given.get(value.name, ())
        dims = dimensions(value)
        if len(extents) == len(dims):
            for axis, (dim, extent) in enumerate(zip(dims, extents, strict=True)):
                if isinstance(dim, str) and f"{value.name}.{axis}" not in bound:
                    bound.setdefault(dim, extent)
    return bound


def bound_model(model: ModelProto, bind: Bindings | None, place: str,
                shapes: Mapping[str, int] | None = None) -> ModelProto:
    """The model with these inputs as constants; a copy unless there are none.

    Raises ImportRefused for what is no input, or does not fit it. A number fills an input; its
    open dimensions must then be bound by `shapes`.
    """
    if not bind:
        return model
    inputs = {value.name: value for value in model.graph.input}
    _require_inputs(bind, inputs, place)
    tensors = [numpy_helper.from_array(_elements(inputs[name], given, place, shapes or {}), name)
               for name, given in bind.items()]
    copy = ModelProto()
    copy.CopyFrom(model)
    kept = [value for value in copy.graph.input if value.name not in bind]
    others = [tensor for tensor in copy.graph.initializer if tensor.name not in bind]
    del copy.graph.input[:], copy.graph.initializer[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend((*others, *tensors))
    return copy


def _require_inputs(bind: Bindings, names: Iterable[str], place: str) -> None:
    for name in bind:
        if name not in names:
            raise ImportRefused(f"{place}: --bind {name}=VALUE names no input; the inputs are: "
                                f"{', '.join(names) or 'none'}")


def _elements(value: ValueInfoProto, given: Any, place: str, shapes: Mapping[str, int]) -> Array:
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    wanted = [shapes.get(f"{value.name}.{axis}", shapes.get(dim, dim)) if isinstance(dim, str)
              else dim for axis, dim in enumerate(dimensions(value))]
    return _fitted(value.name, given, dtype, wanted, place)


def _fitted(name: str, given: Any, dtype: np.dtype, wanted: Iterable[int | str], place: str
            ) -> Array:
    """The given elements as an array of this type and shape."""
    wanted, text = list(wanted), f"{place}: --bind {name}"
    try:
        array = np.asarray(given)
        cast = array.astype(dtype)
    except (ValueError, TypeError, OverflowError):
        raise ImportRefused(f"{text} must be numbers of type {dtype}, not {given!r}") from None
    if array.dtype.kind not in "biuf" or not np.array_equal(cast, array) and dtype.kind != "f":
        raise ImportRefused(f"{text} must be numbers of type {dtype}, not {given!r}")
    extents = [extent for extent in wanted if isinstance(extent, int)]
    if cast.ndim == 0 and len(extents) == len(wanted):
        return np.full(extents, cast, dtype)
    fits = cast.ndim == len(wanted) and all(
        isinstance(dimension, str) or dimension == extent
        for dimension, extent in zip(wanted, cast.shape, strict=True))
    if not fits:
        shape, actual = ",".join(map(str, wanted)), ",".join(map(str, cast.shape))
        raise ImportRefused(f"{text} must have the input's shape [{shape}], not [{actual}]")
    return cast


def bound_graph(graph: Graph, bind: Bindings | None) -> Graph:
    """The graph with these inputs as constants, which are computed with. Raises ImportRefused."""
    if not bind:
        return graph
    _require_inputs(bind, graph.inputs, graph.name)
    builder = Builder(graph.name, graph.values)
    for value in graph.inputs:
        if value in bind:
            builder.add_constant(value, _of_type(value, bind[value], graph.values[value],
                                                 graph.name))
        else:
            builder.add_input(value, graph.values[value])
    for value, array in graph.constants.items():
        builder.add_constant(value, array)
    for node in graph.nodes:
        builder.add(node)
    builder.notes.extend(graph.notes)
    return EliminateDeadCode()(FoldConstants(dequantize=False)(builder.finish(graph.outputs)))


def _of_type(name: str, given: Any, type_: TensorType, place: str) -> Array:
    return _fitted(name, given, np.dtype(numpy_dtype(type_.dtype)), type_.shape, place)
