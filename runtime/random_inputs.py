"""Inputs for networks of which no others are given."""

import numpy as np

from compiler.graph.graph import Graph
from compiler.te import numpy_dtype

__all__ = ["random_inputs"]


def random_inputs(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Random arrays for all inputs of a network: floats from 0 to 1, integers of their whole range.
    """
    rng, inputs = np.random.default_rng(seed), {}
    for name in graph.inputs:
        kind = graph.values[name]
        if kind.dtype == "float32":
            inputs[name] = rng.random(kind.shape, np.float32)
        elif kind.dtype == "bool":
            inputs[name] = rng.random(kind.shape) < 0.5
        elif "float" in kind.dtype:
            inputs[name] = rng.random(kind.shape).astype(numpy_dtype(kind.dtype))
        else:
            bounds = np.iinfo(kind.dtype)
            inputs[name] = rng.integers(bounds.min, bounds.max, kind.shape, kind.dtype,
                                        endpoint=True)
    return inputs
