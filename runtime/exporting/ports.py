"""Inputs and outputs of a network, as records; and random inputs."""

from dataclasses import dataclass

import numpy as np

from compiler.graph.graph import Graph
from compiler.te import SMALL, numpy_dtype


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """An input or output of a network.

    Parameters
    ----------
    name : of the value. shape, dtype : of the arrays that are taken or given.
    scale, zero_point : where the network quantizes this input first, or makes this output from
        integers last: a number is ``scale * (integer - zero_point)``, with integers in stored form
        (int8 or int16; an unsigned one less half its range). Else None.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int | None = None

    def __str__(self) -> str:
        text = f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"
        if self.scale is None:
            return text
        return f"{text}, scale {self.scale:g}, zero point {self.zero_point}"


def inputs_of(graph: Graph) -> tuple[NetworkPort, ...]:
    """The inputs in order. One that is quantized in several ways has no scale."""
    readers = graph.consumers()
    return tuple(_port(graph, name, readers.get(name, ())) for name in graph.inputs)


def outputs_of(graph: Graph) -> tuple[NetworkPort, ...]:
    """The outputs in order."""
    makers = graph.producers()
    return tuple(_port(graph, name, (makers[name],) if name in makers else ())
                 for name in graph.outputs)


def _port(graph: Graph, name: str, nodes) -> NetworkPort:
    kind = graph.values[name]
    pairs = {(float(node.attrs["scale"]), int(node.attrs["zp"]))
             if node.op in ("quantize", "dequantize") else None for node in nodes}
    (pair,) = pairs if len(pairs) == 1 else (None,)
    scale, zero_point = pair or (None, None)
    return NetworkPort(name, tuple(kind.shape), kind.dtype, scale, zero_point)


def random_inputs(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Random inputs of a network's types, by name."""
    rng, inputs = np.random.default_rng(seed), {}
    for name in graph.inputs:
        kind = graph.values[name]
        if kind.dtype == "float32":
            inputs[name] = rng.random(kind.shape, np.float32)
        elif kind.dtype == "bool":
            inputs[name] = rng.random(kind.shape) < 0.5
        elif "float" in kind.dtype:
            inputs[name] = rng.random(kind.shape).astype(numpy_dtype(kind.dtype))
        elif kind.dtype in SMALL:
            codes = rng.integers(0, 1 << SMALL[kind.dtype], kind.shape, np.uint8)
            inputs[name] = codes.view(numpy_dtype(kind.dtype))
        else:
            bounds = np.iinfo(kind.dtype)
            inputs[name] = rng.integers(bounds.min, bounds.max, kind.shape, kind.dtype,
                                        endpoint=True)
    return inputs
