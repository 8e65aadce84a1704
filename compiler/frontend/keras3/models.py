"""Keras 3's files as graphs: Keras builds the network on its torch back end, torch.export traces
it, and the importer of PyTorch programs makes the graph. TensorFlow is not needed.

Keras computes images in NHWC; its torch back end turns them for each layer and back. These
transposes are sunk here until they meet.
"""

import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import ml_dtypes    # noqa: F401 - NumPy then knows bfloat16
import numpy as np

from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.keras3.sink_transposes import SinkTransposes
from compiler.graph.graph import Graph
from compiler.graph.passes import FoldConstants

BACKEND = "torch"


@dataclass
class KerasNetwork:
    """A network that Keras built. `inputs` are names, extents (INPUT.AXIS where one is open) and
    types.
    """

    model: Any
    place: str
    inputs: list[tuple[str, list[int | str], np.dtype]]
    graphs: dict[tuple, Graph] = field(default_factory=dict)

    def graph(self, shapes: Mapping[str, int] | None = None,
              arrays: Mapping[str, np.ndarray] | None = None) -> Graph:
        """The graph for extents of open dimensions: from `shapes`, else from `arrays` by the name
        of the input; else the first dimension is 1. Raises ImportRefused.
        """
        extents = self._extents(dict(shapes or {}), arrays or {})
        if (key := tuple(sorted(extents.items()))) not in self.graphs:
            self.graphs[key] = self._exported(extents)
        return self.graphs[key]

    def _extents(self, shapes: dict[str, int], arrays: Mapping[str, np.ndarray]
                 ) -> dict[str, int]:
        opened = [dim for _, dims, _ in self.inputs for dim in dims if isinstance(dim, str)]
        for name, extent in shapes.items():
            if name not in opened:
                raise ImportRefused(f"{self.place}: --shape {name}={extent} names no dimension of "
                                    f"the inputs; the open ones are: {', '.join(opened) or 'none'}")
            if type(extent) is not int or extent < 1:
                raise ImportRefused(f"{self.place}: --shape {name}=N must have an integer N of at "
                                    f"least 1, not {extent!r}")
        extents = {}
        for name, dims, _ in self.inputs:
            given = np.shape(arrays[name]) if name in arrays else ()
            for axis, dim in enumerate(dims):
                if isinstance(dim, str):
                    known = shapes.get(dim, given[axis] if len(given) == len(dims) else None)
                    extents[dim] = known or (1 if axis == 0 else None)
        unbound = [dim for dim, extent in extents.items() if extent is None]
        if unbound:
            example = " ".join(f"--shape {dim}=1" for dim in unbound)
            raise ImportRefused(f"{self.place}: no value for dimension {', '.join(unbound)}; bind "
                                f"each with --shape NAME=N, for example {example}")
        return extents

    def _exported(self, extents: Mapping[str, int]) -> Graph:
        from compiler.frontend.pytorch import programs as torch_export

        torch = torch_export.require_torch()
        given = tuple(torch.zeros(
            [extents[dim] if isinstance(dim, str) else dim for dim in dims],
            dtype=getattr(torch, str(dtype))) for _, dims, dtype in self.inputs)
        wrapped = _wrapped(torch, self.model)
        try:
            program = torch_export.exported(wrapped, given)
        except ImportRefused as error:
            reason = str(error).partition("refuses it: ")[2] or str(error)
            raise ImportRefused(f"{self.place}: torch.export.export refuses what Keras builds: "
                                f"{reason}; call model.export(format=\"onnx\") in Keras and give "
                                "that file") from None
        graph = torch_export.convert(program, Path(self.place).stem, place=self.place)
        return SinkTransposes()(FoldConstants(dequantize=False)(self._named(graph)))

    def _named(self, graph: Graph) -> Graph:
        """The graph with the names that Keras has for inputs and outputs."""
        names = dict(zip(graph.inputs, (name for name, _, _ in self.inputs), strict=True))
        wanted = list(getattr(self.model, "output_names", ()) or ())
        if len(set(wanted)) == len(graph.outputs):
            names |= dict(zip(graph.outputs, wanted, strict=True))
        taken = set(graph.values) - set(names)
        return renamed(graph, {old: new for old, new in names.items() if new not in taken})


def renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with other names for values."""
    def of(values: Any) -> tuple[str, ...]:
        return tuple(names.get(value, value) for value in values)

    return Graph(graph.name, of(graph.inputs), of(graph.outputs),
                 tuple(replace(node, inputs=of(node.inputs), outputs=of(node.outputs))
                       for node in graph.nodes),
                 {names.get(name, name): kind for name, kind in graph.values.items()},
                 {names.get(name, name): array for name, array in graph.constants.items()},
                 graph.notes)


def _wrapped(torch: Any, model: Any) -> Any:
    """The model as a module whose arguments are its inputs, called to predict."""
    structure = getattr(model, "_inputs_struct", None)

    class Predicting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = model

        def forward(self, *given):
            if isinstance(structure, dict):
                arguments: Any = dict(zip(structure, given, strict=True))
            else:
                arguments = given[0] if len(given) == 1 else list(given)
            return self.network(arguments, training=False)

    return Predicting().eval()


def read(path: str | PathLike[str]) -> KerasNetwork:
    """The network of a .keras file. Keras refuses pickled code in it, but builds what it names:
    give it files that you trust. Raises ImportRefused.
    """
    if not os.path.isfile(path):
        raise ImportRefused(f"{path}: no such file; give the path of a .keras file")
    keras = on_torch(path)
    try:
        with warnings.catch_warnings(action="ignore"):
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:      # noqa: BLE001 - Keras says in many ways that it cannot
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ImportRefused(f"{path}: Keras cannot read it: {reason[:300]}") from None
    if not getattr(model, "inputs", None):
        raise ImportRefused(f"{path}: has no inputs of known shapes; call the model once before "
                            "it is saved")
    inputs = [(tensor.name, [f"{tensor.name}.{axis}" if extent is None else extent
                             for axis, extent in enumerate(tensor.shape)], np.dtype(tensor.dtype))
              for tensor in model.inputs]
    return KerasNetwork(model, str(path), inputs)


def on_torch(path: str | PathLike[str]) -> Any:
    """The module `keras` on torch. Raises ImportRefused, with the path in front, where it is not
    there or runs on something else already.
    """
    from compiler.frontend.pytorch import programs as torch_export

    loaded = "keras" in sys.modules
    torch_export.require_torch()
    before = os.environ.get("KERAS_BACKEND")
    os.environ["KERAS_BACKEND"] = BACKEND
    try:
        import keras  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportRefused(f"{path}: a Keras model needs keras, which is not installed; install "
                            "lockstep-hw[keras]") from None
    finally:
        os.environ.pop("KERAS_BACKEND") if before is None else os.environ.update(
            KERAS_BACKEND=before)
    if loaded and keras.config.backend() != BACKEND:
        raise ImportRefused(f"{path}: Keras must run on torch, not {keras.config.backend()}, which "
                            "this process chose; set KERAS_BACKEND=torch before keras is imported")
    return keras
