"""Gradients without rules: the reference of a graph in float64, moved a little to both sides.

The meanings in `compiler.ops.families` round to float32 where operators do, which differences of
neighbours do not survive. Here they run with float64 in the place of float32, all else the same.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

import numpy as np

from compiler.graph import Graph
from compiler.ops.families import activations, convolutions, elementwise, pooling, products
from compiler.ops.families import reductions
from compiler.ops.registry import find
from compiler.te import numpy_dtype

__all__ = ["directional", "in_float64", "slope"]

Array = np.ndarray
Arrays = Mapping[str, Array]
STEP = 1e-6


class _Wide(ModuleType):
    """NumPy, whose float32 is float64."""

    float32 = np.float64

    def __getattr__(self, name: str):
        return getattr(np, name)


_WIDE = _Wide("numpy")
_FAMILIES = (activations, convolutions, elementwise, pooling, products, reductions)


def _wide_dtype(dtype: str) -> np.dtype:
    return np.dtype("float64") if dtype == "float32" else numpy_dtype(dtype)


@contextmanager
def _wide() -> Iterator[None]:
    try:
        _substitute(_WIDE, _wide_dtype)
        yield
    finally:
        _substitute(np, numpy_dtype)


def _substitute(numpy: ModuleType, dtype: Callable[[str], np.dtype]) -> None:
    for family in _FAMILIES:
        family.np = numpy
    elementwise.te.numpy_dtype = dtype


def widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def in_float64(graph: Graph, inputs: Arrays) -> dict[str, Array]:
    """The outputs of a network of float32, computed in float64 from beginning to end."""
    known = {name: widened(array) for name, array in (dict(graph.constants) | dict(inputs)).items()}
    with _wide(), np.errstate(all="ignore"):
        for node in graph.nodes:
            made = find(node.op).meaning(node.attrs, *(known[name] for name in node.inputs))
            known[node.outputs[0]] = np.asarray(made)
    return {name: known[name] for name in graph.outputs}


def slope(graph: Graph, of: str, inputs: Arrays, direction: Arrays) -> float:
    """How fast `of` grows where inputs move in a direction."""
    def at(step: float) -> float:
        moved = {name: widened(array) + step * direction[name] if name in direction else array
                 for name, array in inputs.items()}
        return float(in_float64(graph, moved)[of].reshape(()))
    return (at(STEP) - at(-STEP)) / (2 * STEP)


def directional(gradients: Arrays, direction: Arrays) -> float:
    """The slope that gradients give in a direction."""
    return sum(float(np.sum(gradients[name] * along)) for name, along in direction.items())
