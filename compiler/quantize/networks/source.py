"""Float networks of any supported form, imported as graphs for requested extents."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from compiler.frontend.building.binding import (Bindings, bound_graph, bound_model, dimensions,
                                                extents_of, real_inputs)
from compiler.frontend.models import is_of_keras, is_of_torch, read_file
from compiler.frontend.onnx.importing import PAGE, ImportRefused, check_model, convert
from compiler.gradients.trainable import with_rows
from compiler.graph.graph import Graph
from compiler.quantize.networks.recurrent import Recurrent
from compiler.quantize.ranges.calibration import Input
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.te import numpy_dtype

QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv",
             "QLinearMatMul", "ConvInteger", "MatMulInteger")

Array = np.ndarray
Importing = Callable[[Mapping[str, int], Mapping[str, Array]], Graph]


@dataclass(frozen=True, slots=True)
class Source:
    """A network; `place` begins the messages of refusals. `imported` gives its graph for extents of
    open dimensions, and for those of arrays where these leave some open. `of_rows` gives the
    network of an ONNX model with so many rows in each input.
    """

    place: str
    inputs: tuple[Input, ...]
    imported: Importing
    recurrent: Recurrent = Recurrent()
    of_rows: "Callable[[int], Source] | None" = None

    def graph(self, shapes: Mapping[str, int], arrays: Mapping[str, Array] | None = None) -> Graph:
        """Raises QuantizeRefused."""
        try:
            return self.imported(shapes, arrays or {})
        except ImportRefused as error:
            raise QuantizeRefused(str(error)) from None


def source_of(model: Any, samples: Mapping[str, Array] | Array, example_inputs: Any = None,
              bind: Bindings | None = None, keep_float: tuple[str, ...] = ()) -> Source:
    """The network from an argument of `quantize`, with the inputs in `bind` as constants. Raises
    QuantizeRefused.
    """
    place = str(model) if isinstance(model, str | PathLike) else "model"
    try:
        if is_of_torch(model):
            return _of_torch(model, place, samples, example_inputs, bind)
        if is_of_keras(model):
            return _of_keras(model, place, bind)
        if isinstance(model, Graph):
            graph = bound_graph(model, bind)
            return Source(place, _inputs(graph), lambda shapes, arrays: graph)
        return _of_model(model, place, bind, keep_float)
    except ImportRefused as error:
        raise QuantizeRefused(str(error)) from None


def is_quantized(path: str | PathLike[str]) -> bool:
    """True if a file has quantized operators; False for programs of frameworks. Raises
    ImportRefused.
    """
    return not is_of_torch(path) and not is_of_keras(path) and _quantized(
        read_file(path).model.graph) is not None


def _quantized(graph: onnx.GraphProto) -> onnx.NodeProto | None:
    """The first quantized operator; constants that are dequantized are weights in float."""
    known = {constant.name for constant in graph.initializer}
    known |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    return next((node for node in graph.node if node.op_type in QUANTIZED and not (
        node.op_type == "DequantizeLinear" and known.issuperset(node.input))), None)


def _of_torch(model: Any, place: str, samples: Mapping[str, Array] | Array, example_inputs: Any,
              bind: Bindings | None) -> Source:
    from compiler.frontend.pytorch import programs as torch_export

    program = torch_export.program_of(model, example_inputs)

    def imported(shapes: Mapping[str, int], arrays: Mapping[str, Array]) -> Graph:
        graph = torch_export.of_samples(program, samples, place, shapes, arrays)
        return bound_graph(graph, bind)

    return Source(place, _inputs(imported({}, {})), imported)


def _of_keras(model: Any, place: str, bind: Bindings | None) -> Source:
    from compiler.frontend.keras3 import models as keras_export

    network = keras_export.read(model)

    def imported(shapes: Mapping[str, int], arrays: Mapping[str, Array]) -> Graph:
        return bound_graph(network.graph(shapes, arrays), bind)

    bound = bind or {}
    return Source(place, tuple(Input(name, tuple(dims), dtype) for name, dims, dtype
                               in network.inputs if name not in bound), imported)


def _inputs(graph: Graph) -> tuple[Input, ...]:
    types = ((value, graph.values[value]) for value in graph.inputs)
    return tuple(Input(value, type_.shape, np.dtype(numpy_dtype(type_.dtype)))
                 for value, type_ in types)


def _of_model(model: Any, place: str, bind: Bindings | None, keep_float: tuple[str, ...]) -> Source:
    loaded, page = model, PAGE
    if isinstance(model, str | PathLike):
        file = read_file(model)
        loaded, page = file.model, file.page
    elif not isinstance(model, ModelProto):
        raise QuantizeRefused("model must be an ONNX file or model to be quantized, not "
                              f"{type(model).__name__}")
    bound = bound_model(loaded, bind, place)
    check_model(bound, place)
    node = _quantized(bound.graph)
    if node is not None:
        raise QuantizeRefused(f"{place}: is quantized already: {node.name or node.op_type} is "
                              f"a {node.op_type}; give the float model")
    recurrent = Recurrent.of(bound, keep_float)
    name = Path(place).stem if loaded is not model else "model"
    values = real_inputs(bound.graph)

    def imported(shapes: Mapping[str, int], arrays: Mapping[str, Array]) -> Graph:
        return convert(bound, name, extents_of(values, arrays, shapes), place,
                       recurrent.arranged, page)

    return Source(place, tuple(map(_input, values)), imported, recurrent, lambda batch: _of_model(
        with_rows(bound, batch), place, None, keep_float))


def _input(value: onnx.ValueInfoProto) -> Input:
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    except KeyError:
        dtype = None
    return Input(value.name, tuple(dimensions(value)), dtype)
