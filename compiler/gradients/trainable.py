"""Networks made ready for training: which constants are learned, and what changes beside them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from os import PathLike
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from compiler.errors import called_by_name
from compiler.frontend.building.binding import dimensions, real_inputs
from compiler.frontend.building.training import InTraining
from compiler.frontend.models import read_file
from compiler.frontend.onnx.importing import convert
from compiler.gradients.reverse import GradientRefused
from compiler.graph.graph import Graph

LEARNED: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "InstanceNormalization", "LayerNormalization",
                     "GroupNormalization", "BatchNormalization"), (1, 2)),
    **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization", "PRelu"), (1,)),
    **dict.fromkeys(("MatMul", "Add", "Sub", "Mul", "Div"), (0, 1)),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (1, 2, 3)),
    **dict.fromkeys(("Gather", "Identity", "Transpose", "Reshape", "Unsqueeze", "Squeeze"), (0,)),
    "Gemm": (0, 1, 2), "Einsum": (0, 1), "LSTM": (1, 2, 3, 7),
}
"""Inputs of ONNX's operators whose constants are parameters, where they have several elements."""

NORM, AVERAGES = "BatchNormalization", (3, 4)


@dataclass(frozen=True, slots=True)
class Trainable:
    """A network as it is in training.

    graph : with the parameters and the running statistics as constants, by their names.
    parameters : the constants that are learned.
    statistics : running means and variances of batch norms: of each constant the value of the graph
        that takes its place after a step.
    counter : the input that counts steps from 0, int64 [], which dropouts read; "" without them.
    """

    graph: Graph
    parameters: tuple[str, ...]
    statistics: Mapping[str, str]
    counter: str


@called_by_name
def trainable(model: onnx.ModelProto | str | PathLike[str], batch: int | None = None, *,
              seed: int = 0, freeze: Iterable[str] = (),
              shapes: Mapping[str, int] | None = None, name: str = "") -> Trainable:
    """A network of an ONNX model, or of the file of one, as it is in training: batch norms take
    mean and variance of the batch and keep running ones, dropouts drop.

    Parameters
    ----------
    batch : extent of the first axis of all inputs; unless told, that of the model.
    seed : of the masks of dropouts.
    freeze : constants that are not learned, by names in which ``*`` stands for any text.
    shapes : extents of other open dimensions, as `lockstep.compile` has them.
    name : what the network is called; by default after its file.

    Raises GradientRefused where nothing is to be learned, or the batch does not go through the
    network; ImportRefused as `lockstep.compile` does.
    """
    source, stem = (model, "model") if isinstance(model, onnx.ModelProto) else (
        read_file(model).model, Path(model).stem)
    name = name or stem
    arrays = parameters_of(source)
    frozen = matching(name, arrays, freeze)
    running = _averages(source)
    moved = {key: array for key, array in arrays.items() if key not in frozen} | running
    training = InTraining(seed)
    graph = convert(_with_inputs(source, moved, batch), name, shapes, training=training)
    require_batch(graph, batch)
    read = {value for node in graph.nodes for value in node.inputs}
    parameters = tuple(key for key in moved if key in read and key not in running)
    if not parameters:
        raise GradientRefused(f"{name}: it must have constants that are learned, and has none"
                              + (" that are not frozen" if frozen else ""))
    statistics = {key: str(value.name) for key, value in training.statistics.items()}
    return Trainable(_with_constants(graph, moved), parameters, statistics, training.counter)


def parameters_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """The constants of floats that all their readers take as parameters, by name: `LEARNED`."""
    fit, others = set[str](), {value.name for value in model.graph.output}
    for node in model.graph.node:
        places = LEARNED.get(node.op_type, ()) if node.domain in ("", "ai.onnx") else ()
        for place, value in enumerate(node.input):
            (fit if place in places else others).add(value)
        others.update(_read_inside(node))
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
              if tensor.name in fit - others and prod(tensor.dims) > 1}
    return {name: array for name, array in arrays.items()
            if array.dtype.kind == "f" and np.isfinite(array).all()}


def with_initializers(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model with other elements in initializers of these names, as they were otherwise."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    return copy


def _read_inside(node: onnx.NodeProto) -> set[str]:
    """The values that nodes of subgraphs read."""
    graphs = [graph for attribute in node.attribute
              for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else []))]
    return {value for graph in graphs for inner in graph.node
            for value in (*inner.input, *_read_inside(inner))}


def matching(name: str, arrays: Iterable[str], patterns: Iterable[str]) -> set[str]:
    """The names that patterns stand for, ``*`` for any text. Raises GradientRefused for a pattern
    that stands for none.
    """
    found = set[str]()
    for pattern in patterns:
        matching = {array for array in arrays if fnmatchcase(array, pattern)}
        if not matching:
            raise GradientRefused(f"{name}: freeze must name parameters, not {pattern!r}; there "
                                  f"are {', '.join(arrays) or 'none'}")
        found |= matching
    return found


def _averages(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Means and variances of batch norms, those that are initializers."""
    names = {node.input[place] for node in model.graph.node if node.op_type == NORM
             for place in AVERAGES}
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
            if tensor.name in names}


def _with_inputs(model: onnx.ModelProto, moved: Mapping[str, np.ndarray],
                 batch: int | None) -> onnx.ModelProto:
    """The model with these initializers as inputs, and its own inputs of so many rows."""
    copy = with_rows(model, batch)
    kept = [tensor for tensor in copy.graph.initializer if tensor.name not in moved]
    inputs = real_inputs(copy.graph)
    typed = [onnx.helper.make_tensor_value_info(
        name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in moved.items()]
    inputs = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in inputs]
    del copy.graph.initializer[:], copy.graph.input[:]
    copy.graph.initializer.extend(kept)
    copy.graph.input.extend((*inputs, *typed))
    return copy


def with_rows(model: onnx.ModelProto, batch: int | None) -> onnx.ModelProto:
    """A copy of the model with so many rows in each input; as many as it has for None."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if batch is None:
        return copy
    for value in real_inputs(copy.graph):
        if not dimensions(value):
            raise GradientRefused(f"input {value.name!r} must have an axis of rows for a batch of "
                                  f"{batch}")
        value.type.tensor_type.shape.dim[0].dim_value = batch
    del copy.graph.value_info[:]            # shapes of another batch
    for value in copy.graph.output:
        value.type.tensor_type.ClearField("shape")
    return copy


def require_batch(graph: Graph, batch: int | None) -> None:
    """Raises GradientRefused where an output does not have the rows of the batch."""
    for value in graph.outputs if batch is not None else ():
        if graph.values[value].shape[:1] != (batch,):
            raise GradientRefused(f"{graph.name}: output {value!r} must have {batch} rows, as a "
                                  f"batch has, not {graph.values[value]}; the network fixes its "
                                  "number of rows: leave the batch out")


def _with_constants(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    inputs = tuple(name for name in graph.inputs if name not in arrays)
    return Graph(graph.name, inputs, graph.outputs, graph.nodes, graph.values,
                 {**graph.constants, **arrays}, graph.notes)
