"""Networks in whatever form they come: files of several kinds, programs and modules of PyTorch,
graphs.

All kinds of files but those of torch and Keras become ONNX models first, so that what is said of
inputs (extents, elements) and what is refused is the same for all.
"""

import sys
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from compiler.errors import ArgumentError
from compiler.frontend import kinds
from compiler.frontend.building.binding import (Bindings, bound_graph, bound_model, extents_of,
                                                open_dimensions, real_inputs)
from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.onnx import importing as onnx_import
from compiler.frontend.onnx.nodes.writer import Loaded
from compiler.graph.graph import Graph

__all__ = ["Loaded", "Model", "graph_of", "is_of_keras", "is_of_torch", "read_file"]

Model = Any
"""The path of a file that is read (docs/frontends.md), an ONNX model, a graph, a
torch.export.ExportedProgram, or an nn.Module.
"""


def graph_of(model: Model, shapes: Mapping[str, int] | None = None, example_inputs: Any = None,
             source: str | None = None, bind: Bindings | None = None,
             arrays: Mapping[str, np.ndarray] | None = None) -> Graph:
    """The graph; `example_inputs` are those that an nn.Module is exported with, `source` is the
    file that an ONNX model was made from. Dimensions that `shapes` leave open have the extents of
    `arrays`, by the name of the input. The inputs in `bind` become constants. Raises ImportRefused,
    and ArgumentError for what is no model.
    """
    if isinstance(model, Graph):
        return bound_graph(model, bind)
    if is_of_torch(model):
        from compiler.frontend.pytorch import programs as torch_export

        graph = torch_export.graph_of(model, shapes, example_inputs, arrays)
        return bound_graph(graph, bind)
    if is_of_keras(model):
        from compiler.frontend.keras3 import models as keras_export

        return bound_graph(keras_export.read(model).graph(shapes, arrays), bind)
    if not isinstance(model, ModelProto | str | PathLike):
        raise ArgumentError(f"Model must be the path of a file, an ONNX model, a program or module "
                            f"of PyTorch, or a graph, not {model!r}")
    told: Mapping[str, int] = {}
    page = onnx_import.PAGE
    if not isinstance(model, ModelProto):
        source = str(model)
        loaded = read_file(model)
        model, told, page = loaded.model, loaded.extents, loaded.page
    name = Path(source).stem if source else "model"
    before = open_dimensions(real_inputs(model.graph))
    model = bound_model(model, bind, source or name, {**told, **(shapes or {})})
    inputs = real_inputs(model.graph)
    left = open_dimensions(inputs)
    gone = {*before, *before.values()}.difference(left, left.values())      # with a bound input
    shapes = {name: extent for name, extent in (shapes or {}).items() if name not in gone}
    shapes = extents_of(inputs, arrays or {}, shapes)
    shapes = {where: told[where] for where, dim in left.items() if where in told
              and dim not in shapes} | shapes
    return onnx_import.convert(model, name, shapes, source, page=page)


def read_file(path: str | PathLike[str]) -> Loaded:
    """The ONNX model of a file of any kind that becomes one. Raises ImportRefused, also for kinds
    that are known and not read.
    """
    path = Path(path)
    match kinds.kind_of(path):
        case kinds.TFLITE:
            from compiler.frontend import tflite

            return tflite.convert(path)
        case kinds.SAVED_MODEL:
            from compiler.frontend import saved_model

            return saved_model.convert(path)
        case kinds.CORE_ML | kinds.CORE_ML_PACKAGE:
            from compiler.frontend import core_ml

            return core_ml.convert(path)
        case kinds.GGUF | kinds.HUB:
            from compiler.frontend import decoders

            return decoders.convert(path)
    return Loaded(_onnx(path), page=onnx_import.PAGE)


def _onnx(path: Path) -> ModelProto:
    try:
        model = onnx_import.read_model(path)
    except ImportRefused:
        kinds.require_onnx_name(path)
        raise
    if not model.HasField("graph"):
        kinds.require_onnx_name(path)
    return model


def is_of_torch(model: Model) -> bool:
    """True if it is a program or a module of PyTorch, or the path of a .pt2 file."""
    if isinstance(model, str | PathLike):
        return kinds.kind_of(model) == kinds.TORCH
    return _is(model, "export", "ExportedProgram") or _is(model, "nn", "Module")


def is_of_keras(model: Model) -> bool:
    """True if it is the path of a .keras file."""
    return isinstance(model, str | PathLike) and kinds.kind_of(model) == kinds.KERAS


def _is(model: Model, room: str, name: str) -> bool:
    """True if it is of this class of torch; False where torch was never imported."""
    kind = getattr(sys.modules.get(f"torch.{room}"), name, None)
    return kind is not None and isinstance(model, kind)
