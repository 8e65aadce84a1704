"""Networks to measure: integer graphs with seeded random weights."""

import numpy as np

from compiler.graph.graph import Attrs, Graph, Node, TensorType

__all__ = ["convolution_graph"]


def convolution_graph(inputs: int, outputs: int, size: int, *, kernel: int = 3, stride: int = 1,
                      seed: int = 0) -> Graph:
    """One int8 convolution, `size` x `size` pixels, padded by half the kernel, batch 1."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-128, 128, (outputs, inputs, kernel, kernel)).astype(np.int8)
    pad = kernel // 2
    made = (size + 2 * pad - kernel) // stride + 1
    constants = {
        "w": weights,
        "bias": rng.integers(-1000, 1000, outputs).astype(np.int32),
        "mult": rng.integers(1 << 15, 1 << 16, outputs).astype(np.int32),
        "shift": np.full(outputs, 26, np.int32),
    }
    values = {name: TensorType.of(array) for name, array in constants.items()}
    values |= {"x": TensorType((1, inputs, size, size), "int8"),
               "y": TensorType((1, outputs, made, made), "int8")}
    node = Node("qconv2d", "conv", ("x", *constants), ("y",),
                Attrs({"strides": (stride, stride), "pads": (pad,) * 4, "pad_value": 3,
                       "zp": -5, "lo": -128, "hi": 127}))
    return Graph("convolution", ("x",), ("y",), (node,), values, constants)
