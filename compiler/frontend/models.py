"""Networks in whatever form they come: files, programs and modules of PyTorch, graphs."""

import sys
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from onnx import ModelProto

from compiler.frontend import onnx_import
from compiler.graph.graph import Graph

__all__ = ["Model", "graph_of", "is_of_torch"]

Model = Any
"""A path of an .onnx or .pt2 file, an ONNX model, a graph, a torch.export.ExportedProgram, or an
nn.Module.
"""


def graph_of(model: Model, shapes: Mapping[str, int] | None = None, example_inputs: Any = None,
             source: str | None = None) -> Graph:
    """The graph; `example_inputs` are those that an nn.Module is exported with, `source` is the
    file that an ONNX model was made from. Raises ImportRefused.
    """
    if isinstance(model, Graph):
        return model
    if isinstance(model, ModelProto):
        return onnx_import.convert(model, Path(source).stem if source else "model", shapes, source)
    if is_of_torch(model):
        from compiler.frontend import torch_export

        if isinstance(model, str | PathLike):
            return torch_export.load(model, shapes)
        return torch_export.convert(torch_export.program_of(model, example_inputs), shapes=shapes)
    return onnx_import.load(model, shapes)


def is_of_torch(model: Model) -> bool:
    """Whether it is a program or a module of PyTorch, or the path of a .pt2 file."""
    if isinstance(model, str | PathLike):
        return Path(model).suffix == ".pt2"
    return _is(model, "export", "ExportedProgram") or _is(model, "nn", "Module")


def _is(model: Model, room: str, name: str) -> bool:
    """Whether it is of this class of torch, which nothing is where torch was never imported."""
    kind = getattr(sys.modules.get(f"torch.{room}"), name, None)
    return kind is not None and isinstance(model, kind)
