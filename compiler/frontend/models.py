"""Networks in whatever form they come: files, programs and modules of PyTorch, graphs."""

import sys
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from compiler.errors import ArgumentError
from compiler.frontend import onnx_import
from compiler.frontend.binding import (Bindings, bound_graph, bound_model, extents_of,
                                       open_dimensions, real_inputs)
from compiler.graph.graph import Graph

__all__ = ["Model", "graph_of", "is_of_torch"]

Model = Any
"""A path of an .onnx or .pt2 file, an ONNX model, a graph, a torch.export.ExportedProgram, or an
nn.Module.
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
        from compiler.frontend import torch_export

        graph = torch_export.graph_of(model, shapes, example_inputs, arrays)
        return bound_graph(graph, bind)
    if not isinstance(model, ModelProto | str | PathLike):
        raise ArgumentError(f"Model must be the path of a file, an ONNX model, a program or module "
                            f"of PyTorch, or a graph, not {model!r}")
    if not isinstance(model, ModelProto):
        source = str(model)
        model = onnx_import.read_model(Path(model))
    name = Path(source).stem if source else "model"
    before = open_dimensions(real_inputs(model.graph))
    model = bound_model(model, bind, source or name, shapes)
    inputs = real_inputs(model.graph)
    left = open_dimensions(inputs)
    gone = {*before, *before.values()}.difference(left, left.values())      # with a bound input
    shapes = {name: extent for name, extent in (shapes or {}).items() if name not in gone}
    shapes = extents_of(inputs, arrays or {}, shapes)
    return onnx_import.convert(model, name, shapes, source)


def is_of_torch(model: Model) -> bool:
    """Whether it is a program or a module of PyTorch, or the path of a .pt2 file."""
    if isinstance(model, str | PathLike):
        return Path(model).suffix == ".pt2"
    return _is(model, "export", "ExportedProgram") or _is(model, "nn", "Module")


def _is(model: Model, room: str, name: str) -> bool:
    """Whether it is of this class of torch; False where torch was never imported."""
    kind = getattr(sys.modules.get(f"torch.{room}"), name, None)
    return kind is not None and isinstance(model, kind)
