"""Samples that a network is calibrated and judged on, and running them on the host."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import ModelProto, helper

from compiler.cpu_gpu_backends.cpu import CpuTarget, HostSegment
from compiler.frontend.onnx_import import ImportRefused, convert
from compiler.graph.graph import Graph
from compiler.graph.passes import FoldConstants
from compiler.graph.pipeline import optimize, standard_passes
from compiler.quantize.network import Network
from compiler.quantize.refusal import QuantizeRefused

__all__ = ["Samples", "imported", "program"]

BATCH = 4               # samples at a time where the model leaves it open: all values are kept

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays [count, ...] by the name of the network's input; `batch` divides the count."""

    arrays: Mapping[str, Array]
    count: int
    batch: int
    shapes: Mapping[str, int]       # of symbolic dimensions, by their name

    @classmethod
    def of(cls, network: Network, given: Mapping[str, Array] | Array) -> "Samples":
        """Raises QuantizeRefused for a set that does not fit the network's inputs.

        An array stands for that of the only input. A first dimension that the model fixes is the
        batch; one with a name is bound to at most `BATCH` samples, other names to what the arrays
        have there.
        """
        arrays = _by_name(network, given)
        counts = {name: len(array) for name, array in arrays.items()}
        count = next(iter(counts.values()))
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{number} of {name!r}" for name, number in counts.items())
            _refuse(network, f"must have as many samples of every input, not {listed}")
        batch = _batch(network, count)
        shapes: dict[str, int] = {}
        for value in network.inputs:
            _bind(network, value, (batch, *arrays[value.name].shape[1:]), shapes)
        return cls(arrays, count, batch, shapes)

    def require_finite(self, network: Network, values: Iterable[str]) -> None:
        """Raises QuantizeRefused where one of these is an input."""
        for name in self.arrays.keys() & values:
            array = self.arrays[name]
            place = int(np.argmin(np.isfinite(array).reshape(len(array), -1).all(axis=1)))
            _refuse(network, f"must be finite: sample {place} of {name!r} is not")

    def batches(self, limit: int | None = None) -> Iterator[dict[str, Array]]:
        """One batch after the other, at least one and as many as `limit` samples allow."""
        end = self.count if limit is None else max(self.batch, min(limit, self.count))
        for start in range(0, end - self.batch + 1, self.batch):
            yield {name: array[start:start + self.batch] for name, array in self.arrays.items()}


def _refuse(network: Network, rule: str) -> None:
    raise QuantizeRefused(f"{network.place}: calibration set {rule}")


def _by_name(network: Network, given: Mapping[str, Array] | Array) -> dict[str, Array]:
    names = [value.name for value in network.inputs]
    if not names:
        raise QuantizeRefused(f"{network.place}: must have an input to calibrate")
    if not isinstance(given, Mapping):
        if len(names) > 1:
            _refuse(network, f"must name its arrays, for inputs {', '.join(names)}")
        given = {names[0]: given}
    if set(given) != set(names):
        _refuse(network, f"must hold {', '.join(names)}, not {', '.join(given) or 'nothing'}")
    return {name: _checked(network, name, np.asarray(given[name])) for name in names}


def _checked(network: Network, name: str, array: Array) -> Array:
    value = next(one for one in network.inputs if one.name == name)
    wanted = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if array.dtype != wanted:
        _refuse(network, f"must hold {wanted} for {name!r}, not {array.dtype}")
    if array.ndim == 0 or not array.size:
        _refuse(network, f"must hold at least one sample of {name!r}, not shape {array.shape}")
    return array


def _batch(network: Network, count: int) -> int:
    """Samples at a time: what the model fixes, else the most up to `BATCH` that divide them."""
    fixed = {dims[0].dim_value for value in network.inputs
             if (dims := value.type.tensor_type.shape.dim) and not dims[0].dim_param
             and dims[0].dim_value}
    if len(fixed) > 1:
        listed = ", ".join(map(str, sorted(fixed)))
        raise QuantizeRefused(f"{network.place}: inputs must have one first dimension, the batch, "
                              f"not {listed}")
    if not fixed:
        return max(size for size in range(1, BATCH + 1) if count % size == 0)
    batch = fixed.pop()
    if count % batch:
        _refuse(network, f"must have a multiple of the model's batch {batch}, not {count} samples")
    return batch


def _bind(network: Network, value: onnx.ValueInfoProto, shape: Sequence[int],
          shapes: dict[str, int]) -> None:
    """Checks the shape of a batch, and binds the symbols of the model in it."""
    dims = value.type.tensor_type.shape.dim
    wanted = [dim.dim_param or dim.dim_value or "?" for dim in dims]
    fits = len(dims) == len(shape)
    for axis, (dim, extent) in enumerate(zip(dims, shape, strict=False)):
        symbol = dim.dim_param or ("" if dim.dim_value else f"{value.name}.{axis}")
        fits &= extent == (shapes.setdefault(symbol, extent) if symbol else dim.dim_value)
    if not fits:
        text = ",".join(map(str, wanted))
        found = ",".join(map(str, ("N", *shape[1:])))
        _refuse(network, f"must fit input {value.name!r} [{text}], not [{found}]")


def imported(model: ModelProto, name: str, shapes: Mapping[str, int] | None = None,
             every: bool = False) -> Graph:
    """The graph of a model, its constants folded; with `every`, each of its values that a graph can
    hold is an output. Raises QuantizeRefused.
    """
    used = {dim.dim_param or f"{value.name}.{axis}" for value in model.graph.input
            for axis, dim in enumerate(value.type.tensor_type.shape.dim)}
    bound = {symbol: extent for symbol, extent in (shapes or {}).items() if symbol in used}
    try:
        return optimize(convert(model, name, bound, every=every), (FoldConstants(),))
    except ImportRefused as error:
        raise QuantizeRefused(str(error)) from None


def program(graph: Graph, outputs: Sequence[str]) -> HostSegment:
    """The float meaning of a graph as native code, with these values as outputs."""
    graph = replace(graph, outputs=tuple(outputs))
    return CpuTarget().compile(optimize(graph, standard_passes(integerize=False)))
