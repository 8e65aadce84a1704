"""Samples that a network is calibrated and evaluated on, and running them on the host."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from compiler.cpu_gpu_backends.cpu.target import CpuTarget, HostSegment
from compiler.graph.graph import MOST_DIMENSIONS, Graph
from compiler.graph.passes.pipeline import optimize, standard_passes
from compiler.quantize.ranges.refusal import QuantizeRefused

BATCH = 4               # samples at a time where the batch is open: all values are kept

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a network; open extents have names. `dtype` is None where NumPy has no such type.
    """

    name: str
    dims: tuple[int | str, ...]
    dtype: np.dtype | None


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays [runs, ...] by the name of the network's input, one run after the other; each run has
    `batch` samples.
    """

    arrays: Mapping[str, Array]
    runs: int
    batch: int
    shapes: Mapping[str, int]       # of open dimensions, by their name or place

    @classmethod
    def of(cls, inputs: Iterable[Input], place: str, given: Mapping[str, Array] | Array
           ) -> "Samples":
        """Cuts a set into runs for these inputs of a network. A bare array belongs to the only
        input. An array with one dimension more than its input has an element for each run.
        Otherwise an open first dimension holds the samples, at most `BATCH` in a run; a fixed one
        is cut into runs, and an array that suffices for one run is given to each. Raises
        QuantizeRefused, with `place` before the reason, for a set that does not fit.
        """
        named = {declared.name: declared for declared in inputs}
        arrays = _by_name(place, named, given)
        counts = {name: _runs(place, named[name], array) for name, array in arrays.items()}
        counted = {name: count for name, count in counts.items() if count not in (None, 1)}
        loose = {name: len(arrays[name]) for name, count in counts.items() if count is None}
        runs = _only(place, counted, "runs") or _loose_runs(place, loose, counts, arrays)
        batch = _batch(place, named, loose, runs, arrays)
        samples = {name: _cut(array, named[name], counts[name], runs)
                   for name, array in arrays.items()}
        shapes: dict[str, int] = {}
        for name, array in samples.items():
            _bind(place, named[name], array.shape[1:], shapes)
        return cls(samples, runs, batch, shapes)

    @property
    def count(self) -> int:
        """The number of samples in all runs."""
        return self.runs * self.batch

    def require_finite(self, place: str, values: Iterable[str]) -> None:
        """Raises QuantizeRefused if one of these values is an input."""
        for name in self.arrays.keys() & values:
            infinite = ~np.isfinite(self.arrays[name]).reshape(-1)
            sample = int(np.argmax(infinite)) * self.count // infinite.size
            _refuse(place, f"must be finite: sample {sample} of {name!r} is not")

    def batches(self, limit: int | None = None) -> Iterator[dict[str, Array]]:
        """Yields the inputs of each run: as many runs as `limit` samples allow, at least one."""
        runs = self.runs if limit is None else min(self.runs, max(1, limit // self.batch))
        for run in range(runs):
            yield {name: np.ascontiguousarray(array[run]) if array.ndim > 1 else array[run, ...]
                   for name, array in self.arrays.items()}


def _refuse(place: str, rule: str) -> NoReturn:
    raise QuantizeRefused(f"{place}: calibration set {rule}")


def _by_name(place: str, inputs: Mapping[str, Input],
             given: Mapping[str, Array] | Array) -> dict[str, Array]:
    names = list(inputs)
    if not names:
        raise QuantizeRefused(f"{place}: must have an input to calibrate")
    if not isinstance(given, Mapping):
        if len(names) > 1:
            _refuse(place, f"must name its arrays, for inputs {', '.join(names)}")
        given = {names[0]: given}
    if set(given) != set(names):
        _refuse(place, f"must hold {', '.join(names)}, not {', '.join(given) or 'nothing'}")
    return {name: _checked(place, inputs[name], np.asarray(given[name])) for name in names}


def _checked(place: str, value: Input, array: Array) -> Array:
    name = value.name
    if value.dtype is None:
        raise QuantizeRefused(f"{place}: input {name!r} must be a tensor of a type that ONNX has; "
                              "declare its type and shape in the model")
    if array.dtype != value.dtype:
        _refuse(place, f"must hold {value.dtype} for {name!r}, not {array.dtype}")
    if array.ndim == 0 < len(value.dims) or not array.size:
        _refuse(place, f"must hold at least one sample of {name!r}, not shape {array.shape}")
    if len(value.dims) >= MOST_DIMENSIONS:       # runs are an extra dimension
        raise QuantizeRefused(f"{place}: input {name!r} must have {MOST_DIMENSIONS - 1} dimensions "
                              f"at most, not {len(value.dims)}")
    return array


def _runs(place: str, value: Input, array: Array) -> int | None:
    """The number of runs that the array suffices for; None where the model leaves that open."""
    dims = value.dims
    if array.ndim == len(dims) + 1:
        return len(array)
    if not dims or array.ndim != len(dims):
        return 1
    if isinstance(dims[0], str):
        return None
    if len(array) % dims[0]:
        _refuse(place, f"must have a multiple of the {dims[0]} that the model takes at a time "
                         f"of {value.name!r}, not {len(array)}")
    return len(array) // dims[0]


def _only(place: str, counts: Mapping[str, int], what: str) -> int | None:
    """The number that all inputs share; None where there are none."""
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{number} of {name!r}" for name, number in counts.items())
        _refuse(place, f"must have as many {what} of every input, not {listed}")
    return next(iter(counts.values()), None)


def _loose_runs(place: str, loose: Mapping[str, int], counts: Mapping[str, int | None],
                arrays: Mapping[str, Array]) -> int:
    """The number of runs: as few as `BATCH` allows, or one for each sample where some input is
    shared.
    """
    count = _only(place, loose, "samples")
    if count is None:
        return 1
    shared = any(counts[name] is not None and array.ndim for name, array in arrays.items())
    size = 1 if shared else max(size for size in range(1, BATCH + 1) if count % size == 0)
    return count // size


def _batch(place: str, inputs: Mapping[str, Input], loose: Mapping[str, int],
           runs: int, arrays: Mapping[str, Array]) -> int:
    """The samples in a run: those of the open inputs, else of the first input with more than one.
    """
    count = _only(place, loose, "samples")
    if count is None:
        return next((len(arrays[value.name]) // runs for value in inputs.values()
                     if (dims := value.dims) and arrays[value.name].ndim == len(dims)
                     and len(arrays[value.name]) == runs * dims[0]), 1)
    if count % runs:
        _refuse(place, f"must have as many samples for each of its {runs} runs, not {count} of "
                         f"{next(iter(loose))!r}")
    return count // runs


def _cut(array: Array, value: Input, count: int | None, runs: int) -> Array:
    """Cuts an array that suffices for all runs, or for one, into [runs, ...]."""
    if array.ndim == len(value.dims) + 1:
        return array
    if count == 1:
        return np.broadcast_to(array, (runs, *array.shape))
    return array.reshape(runs, -1, *array.shape[1:])


def _bind(place: str, value: Input, shape: Sequence[int],
          shapes: dict[str, int]) -> None:
    """Checks the shape of a run's input, and binds the open dimensions of the model in it."""
    dims = value.dims
    fits = len(dims) == len(shape) and all(
        extent == (shapes.setdefault(dim, extent) if isinstance(dim, str) else dim)
        for dim, extent in zip(dims, shape, strict=True))
    if not fits:
        wanted, shown = ",".join(map(str, dims)), ",".join(map(str, ("N", *shape[1:])))
        _refuse(place, f"must fit input {value.name!r} [{wanted}], not [{shown}]")


def program(graph: Graph, outputs: Sequence[str]) -> HostSegment:
    """The float meaning of a graph as native code, with these values as outputs."""
    graph = replace(graph, outputs=tuple(outputs))
    return CpuTarget().compile(optimize(graph, standard_passes(integerize=False)))
