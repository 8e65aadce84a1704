"""What all cases of operators are made of: seeded arrays, attributes, and the case itself."""

from dataclasses import dataclass

import numpy as np

from compiler.graph import Node

Array = np.ndarray
CLAMP = {"zp": -7, "lo": -120, "hi": 110}
# Sums of float32 products may be added up in any order.
SUMS = ("conv2d", "convtranspose2d", "dense", "matmul", "avgpool", "globalavgpool",
        "conv2d_blocks", "depthwise_blocks", "conv2d_into_blocks", "packed_matmul",
        "block_columns", "winograd_tiles", "winograd_image", "conv2d_last", "depthwise_last",
        "conv2d_direct")
WIDE = {"zp": -700, "lo": -30000, "hi": 31000}

# size, kernel, strides, pads (top, left, bottom, right)
WINDOWS = [
    ((5, 6), (3, 3), (1, 1), (1, 1, 1, 1)),
    ((7, 5), (3, 2), (2, 1), (0, 1, 2, 0)),
    ((4, 7), (1, 1), (2, 3), (0, 0, 0, 0)),
    ((6, 9), (5, 7), (3, 4), (2, 3, 1, 2)),
    ((1, 1), (3, 3), (1, 1), (1, 1, 1, 1)),
    ((6, 5), (2, 2), (4, 4), (0, 0, 1, 1)),         # no window reaches the padding below
    ((5, 6), (2, 2), (4, 4), (0, 0, 1, 1)),         # nor, here, that on the right
]


@dataclass(frozen=True)
class OperatorCase:
    op: str
    attrs: dict
    inputs: tuple[Array, ...]

    @property
    def node(self) -> Node:
        return Node(self.op, self.op, tuple(f"x{i}" for i in range(len(self.inputs))), ("y",),
                    self.attrs)

    def __str__(self) -> str:
        return f"{self.op}-{'-'.join('x'.join(map(str, a.shape)) for a in self.inputs)}"


def assert_same(op: str, found: Array, wanted: Array) -> None:
    """Equal to the bit, but for sums of floats."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if op in SUMS:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, wanted)


class Draws:
    """Random arrays of a seed: those of one file of cases do not depend on another."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape: int) -> Array:
        return self.rng.normal(size=shape).astype(np.float32)

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int32") -> Array:
        """Integers from `low` to before `high`."""
        return self.rng.integers(low, high, shape).astype(dtype)

    def int8(self, *shape: int) -> Array:
        return self.integers(-128, 128, *shape, dtype="int8")

    def int16(self, *shape: int) -> Array:
        return self.integers(-2**15, 2**15, *shape, dtype="int16")

    def uint8(self, *shape: int) -> Array:
        return self.integers(0, 256, *shape, dtype="uint8")

    def parameters(self, channels: int, low: int) -> tuple[Array, Array, Array]:
        """Bias, multipliers and shifts from `low` that spread results over int8; one channel is 0.
        """
        mult = self.integers(2**15, 2**16, channels)
        mult[0] = 0
        return (self.integers(-3000, 3000, channels), mult,
                self.integers(low, low + 4, channels))

    def multipliers(self, rows: int, columns: int) -> tuple[Array, Array]:
        """Multipliers and shifts of every place of a window."""
        return (self.integers(2**15, 2**16, rows, columns), self.integers(17, 19, rows, columns))

    def scales(self, *shape: int, terms: int) -> tuple[Array, Array]:
        """Biases, and scales in float32 that make int8 of most sums of so many products; one
        channel has sums that float32 does not hold, one is 0.
        """
        bias = self.integers(-2**16, 2**16, *shape)
        scale = (self.rng.uniform(0.5, 1, shape) / 2**11 / terms**0.5).astype(np.float32)
        bias[..., -1], scale[..., -1], scale[..., 0] = 2**24 + 1, 2**-18, 0
        return bias, scale


def counted(dtype: str, *shape: int) -> Array:
    """Numbers far from each other, the same ones whatever is drawn before."""
    return (np.arange(np.prod(shape)) * 73 % 256 - 128 * (dtype == "int8")).reshape(shape).astype(
        dtype)


def of(dtype: str, values) -> Array:
    return np.array(values, dtype)


def halves(scale: float) -> Array:
    """Ties of a quantization, values that saturate, and the values that surround both."""
    ties = (np.arange(-140, 140) + 0.5).astype(np.float32) * np.float32(scale)
    edges = of("float32", [np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, 1e-40])
    return np.concatenate([ties, np.nextafter(ties, of("float32", 9)), edges])[None]


def window(strides, pads, **more) -> dict:
    return {"strides": strides, "pads": pads, **more}


def int8_window(*args, **attrs) -> dict:
    return {**window(*args, **attrs), "pad_value": -5, **CLAMP}
