"""Every operator of graphs with odd shapes, strides and pads: attributes and seeded inputs."""

from dataclasses import dataclass

import numpy as np

from compiler.graph import Node
from compiler.ops.families.row_functions import RECIPROCALS, ROOTS, exponentials
from compiler.ops.records.windows import window_shape

__all__ = ["CASES", "OperatorCase", "assert_same"]

Array = np.ndarray
CLAMP = {"zp": -7, "lo": -120, "hi": 110}
# Sums of float32 products may be added up in any order.
SUMS = ("conv2d", "convtranspose2d", "dense", "matmul", "avgpool", "globalavgpool",
        "conv2d_blocks", "depthwise_blocks", "conv2d_into_blocks", "packed_matmul",
        "block_columns", "winograd_tiles", "winograd_image", "conv2d_last", "depthwise_last",
        "conv2d_direct")

_rng = np.random.default_rng(20260)


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


def _normal(*shape: int) -> Array:
    return _rng.normal(size=shape).astype(np.float32)


def _int8(*shape: int) -> Array:
    return _rng.integers(-128, 128, shape).astype(np.int8)


def _counted(dtype: str, *shape: int) -> Array:
    """Numbers far from each other, the same ones whatever is drawn before."""
    return (np.arange(np.prod(shape)) * 73 % 256 - 128 * (dtype == "int8")).reshape(shape).astype(
        dtype)


NUMBERS = np.array([-32768, 301, 12345, -7, 32767], np.int32).reshape(5, 1, 1)
"""Constants of channels."""


def _int16(*shape: int) -> Array:
    return _rng.integers(-2**15, 2**15, shape).astype(np.int16)


def _uint8(*shape: int) -> Array:
    return _rng.integers(0, 256, shape).astype(np.uint8)


def _of(dtype: str, values) -> Array:
    return np.array(values, dtype)


def _parameters(channels: int, low: int) -> tuple[Array, Array, Array]:
    """Bias, multipliers and shifts from `low` that spread results over int8; one channel is 0."""
    mult = _rng.integers(2**15, 2**16, channels)
    mult[0] = 0
    return (_rng.integers(-3000, 3000, channels).astype(np.int32), mult.astype(np.int32),
            _rng.integers(low, low + 4, channels).astype(np.int32))


def _multipliers(rows: int, columns: int) -> tuple[Array, Array]:
    """Multipliers and shifts of every place of a window."""
    return (_rng.integers(2**15, 2**16, (rows, columns)).astype(np.int32),
            _rng.integers(17, 19, (rows, columns)).astype(np.int32))


def _halves(scale: float) -> Array:
    """Ties of a quantization, values that saturate, and the values that surround both."""
    ties = (np.arange(-140, 140) + 0.5).astype(np.float32) * np.float32(scale)
    edges = _of("float32", [np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, 1e-40])
    return np.concatenate([ties, np.nextafter(ties, _of("float32", 9)), edges])[None]


def _window(strides, pads, **more) -> dict:
    return {"strides": strides, "pads": pads, **more}


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

CONVOLUTIONS = [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("conv2d", _window(strides, pads),
                     (_normal(2, 3, *size), _normal(4, 3, *kernel), _normal(4))),
        OperatorCase("qconv2d", _window(strides, pads, pad_value=77, **CLAMP),
                     (_int8(2, 3, *size), _int8(5, 3, *kernel), *_parameters(5, 21))))
] + [OperatorCase("conv2d", _window((1, 2), (0, 0, 0, 0)),
                  (_normal(1, 4, 6, 5), _normal(3, 4, 2, 2)))]

# size, kernel, strides, pads, dilations, group, channels of a group: in and out
SPREAD = [
    ((9, 7), (3, 2), (1, 2), (2, 0, 1, 1), (2, 3), 1, 3, 4),
    ((6, 7), (3, 3), (2, 1), (1, 1, 1, 1), (1, 1), 5, 1, 1),
    ((6, 7), (2, 3), (1, 1), (0, 1, 0, 1), (3, 1), 3, 2, 2),
    ((5, 5), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4, 1, 3),
]
CONVOLUTIONS += [
    case for size, kernel, strides, pads, dilations, group, inward, outward in SPREAD for case in (
        OperatorCase("conv2d", _window(strides, pads, dilations=dilations, group=group),
                     (_normal(2, group * inward, *size), _normal(group * outward, inward, *kernel),
                      _normal(group * outward))),
        OperatorCase("qconv2d", _window(strides, pads, dilations=dilations, group=group,
                                        pad_value=77, **CLAMP),
                     (_int8(2, group * inward, *size), _int8(group * outward, inward, *kernel),
                      *_parameters(group * outward, 20))))
]

# size, kernel, strides, pads, dilations, output padding, group, channels of a group: in and out
TRANSPOSED = [
    ((3, 4), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), (0, 0), 1, 3, 4),
    ((4, 3), (3, 4), (2, 1), (1, 1, 1, 2), (1, 1), (1, 0), 1, 3, 4),
    ((3, 3), (2, 3), (3, 2), (0, 2, 1, 0), (1, 2), (0, 1), 2, 2, 3),
    ((2, 5), (1, 2), (3, 2), (0, 1, 0, 0), (1, 3), (2, 0), 3, 1, 1),
    ((2, 2), (1, 1), (1, 1), (3, 0, 0, 1), (1, 1), (2, 0), 1, 2, 3),     # nothing but padding
]
TRANSPOSED_CASES = [
    case for size, kernel, strides, pads, dilations, more, group, inward, outward in TRANSPOSED
    for attrs in [_window(strides, pads, dilations=dilations, output_padding=more, group=group)]
    for case in (
        OperatorCase("convtranspose2d", attrs,
                     (_normal(2, group * inward, *size), _normal(group * inward, outward, *kernel),
                      _normal(group * outward))),
        OperatorCase("convtranspose2d", attrs,
                     (_normal(2, group * inward, *size),
                      _normal(group * inward, outward, *kernel))),
        OperatorCase("qconvtranspose2d", {**attrs, "pad_value": -51, **CLAMP},
                     (_int8(2, group * inward, *size), _int8(group * outward, inward, *kernel),
                      *_parameters(group * outward, 20))))
]

POOLS = [
    OperatorCase(op, _window(strides, pads, kernel=kernel), (make(2, 3, *size),))
    for size, kernel, strides, pads in WINDOWS
    for op, make in (("maxpool", _normal), ("maxpool", _int8), ("maxpool", _uint8),
                     ("qmaxpool", _int8))
] + [
    OperatorCase("qmaxpool", _window((1, 1), (1, 1, 1, 1), kernel=(2, 2)),
                 (np.full((1, 1, 2, 2), -128, np.int8),)),
] + [
    OperatorCase("avgpool", _window(strides, pads, kernel=kernel, include_pad=include),
                 (_normal(2, 3, *size),))
    for size, kernel, strides, pads in WINDOWS for include in (0, 1)
] + [
    OperatorCase("qavgpool", _window(strides, pads, kernel=kernel, pad_value=33, bias=-440,
                                     **CLAMP),
                 (_int8(2, 3, *size), *_multipliers(*window_shape(size, kernel, strides, pads))))
    for size, kernel, strides, pads in WINDOWS
] + [
    *(OperatorCase(op, _window((2, 1), (1, 0, 2, 1), kernel=(3, 2), dilations=(2, 3)), (x,))
      for op, x in (("maxpool", _normal(2, 3, 8, 7)), ("qmaxpool", _int8(2, 3, 8, 7)))),
    OperatorCase("qavgpool", _window((2, 1), (1, 0, 1, 1), kernel=(3, 2), pad_value=-9, bias=54,
                                     **CLAMP), (_int8(2, 3, 6, 7), *_multipliers(1, 1))),
    OperatorCase("globalavgpool", {}, (_normal(2, 5, 3, 7),)),
    OperatorCase("qglobalavgpool", {"bias": 91, "mult": 40000, "shift": 20, **CLAMP},
                 (_int8(3, 5, 7, 3),)),
    OperatorCase("qmean", {"axes": (0, 2), "keepdims": 0, "bias": 91, "mult": 40000, "shift": 20,
                           **CLAMP}, (_int8(3, 5, 7),)),
    OperatorCase("qmean", {"axes": (1,), "keepdims": 1, "bias": -5, "mult": 50000, "shift": 18,
                           **CLAMP}, (_int8(2, 9, 6),)),
    OperatorCase("qglobalavgpool", {"bias": 0, "mult": 2**15, "shift": 16, "zp": 0, "lo": -128,
                                    "hi": 127}, (_int8(1, 64, 2, 1),)),
]

MATRICES = [
    OperatorCase("dense", {"trans_b": 1}, (_normal(3, 17), _normal(5, 17), _normal(5))),
    OperatorCase("dense", {"trans_b": 0}, (_normal(3, 17), _normal(17, 5), _normal(1, 1))),
    OperatorCase("dense", {"trans_b": 0}, (_normal(1, 9), _normal(9, 6))),
    OperatorCase("dense", {"trans_b": 1}, (_normal(2, 4), _normal(3, 4), _normal(2, 1))),
    OperatorCase("matmul", {}, (_normal(4, 7), _normal(7, 3))),
    OperatorCase("matmul", {}, (_normal(2, 1, 4, 7), _normal(3, 7, 5))),
    OperatorCase("qmatmul", {"trans_b": 0, "bias": 9, "mult": 40000, "shift": 23, **CLAMP},
                 (_int8(4, 17), _int8(17, 6))),
    OperatorCase("qmatmul", {"trans_b": 1, "bias": 0, "mult": 40000, "shift": 23, **CLAMP},
                 (_int8(2, 1, 4, 9), _int8(3, 5, 9))),
    OperatorCase("qmatmul", {"trans_b": 0, "a_zp": -128, "b_zp": 7, "bias": 9, "mult": 40000,
                             "shift": 25, **CLAMP}, (_int8(3, 4, 17), _int8(17, 6))),
    OperatorCase("qdense", CLAMP, (_int8(2, 3, 1, 37), _int8(5, 37), *_parameters(5, 21))),
    OperatorCase("qdense", CLAMP, (_int8(3, 37), _int8(5, 37), *_parameters(5, 21))),
    OperatorCase("qdense", CLAMP, (np.full((1, 2**17), -128, np.int8),      # the sums wrap
                                   np.full((3, 2**17), -128, np.int8), *_parameters(3, 40))),
]

ELEMENTWISE = [
    OperatorCase("relu", {}, (_normal(2, 3, 5),)),
    OperatorCase("clip", {"lo": -0.3, "hi": 1e-3}, (_normal(2, 3, 5),)),
    OperatorCase("clip", {"lo": 0.25, "hi": np.inf}, (_normal(2, 3, 5),)),
    OperatorCase("clip", {"lo": 3.0, "hi": -1.0}, (_normal(7),)),
    OperatorCase("leakyrelu", {"alpha": 0.1}, (_normal(2, 3, 5),)),
    OperatorCase("leakyrelu", {"alpha": -1.5}, (_normal(2, 3, 5),)),
    OperatorCase("qleakyrelu", {"bias": 5, "mult": 50000, "shift": 15, "mult_below": 40000,
                                "shift_below": 18, **CLAMP},
                 (np.arange(-128, 128).astype(np.int8),)),
    OperatorCase("identity", {}, (_normal(2, 3),)),
    OperatorCase("identity", {}, (_int8(4),)),
    OperatorCase("identity", {}, (_of("int64", -7),)),
    OperatorCase("add", {}, (_normal(2, 3, 4), _normal(2, 3, 4))),
    OperatorCase("add", {}, (_normal(2, 1, 4), _normal(3, 1))),
    OperatorCase("add", {}, (_normal(), _normal(3, 2))),
    OperatorCase("mul", {}, (_normal(2, 1, 4), _normal(3, 1))),
    OperatorCase("qadd", {"ma": 45942, "mb": 21987, "c": 2584626, "shift": 16, **CLAMP},
                 tuple(grid.astype(np.int8) for grid in np.meshgrid(np.arange(-128, 128),
                                                                    np.arange(-128, 128, 5)))),
    OperatorCase("qadd", {"ma": 2**15, "mb": 0, "c": 0, "shift": 16, "zp": 0, "lo": -128,
                          "hi": 127}, (np.arange(-128, 128).astype(np.int8),) * 2),
    OperatorCase("qrescale", {"bias": 5, "mult": 50000, "shift": 15, **CLAMP},
                 (np.arange(-128, 128).astype(np.int8),)),
    OperatorCase("qrescale", {"bias": 0, "mult": 0, "shift": 46, **CLAMP}, (_int8(3, 2),)),
    *(OperatorCase(op, {"axis": axis}, (_int8(*shape) >> 5,)) for op in ("qargmax", "qargmin")
      for axis, shape in ((1, (2, 300, 3)), (2, (2, 3, 1)), (0, (5, 2)))),
    OperatorCase("quantize", {"scale": 0.25, "zp": 3}, (_halves(0.25),)),
    OperatorCase("quantize", {"scale": 0.1, "zp": -128}, (_halves(0.1),)),
    OperatorCase("dequantize", {"scale": 0.037, "zp": -128},
                 (np.arange(-128, 128).astype(np.int8),)),
    OperatorCase("quantizelinear", {"axis": 1},
                 (_halves(0.1), _of("float32", 0.1), _of("uint8", 130))),
    OperatorCase("quantizelinear", {"axis": 1},
                 (10 * _normal(2, 3, 5), _of("float32", [0.1, 0.2, 0.3]),
                  _of("int8", [3, -2, 127]))),
    OperatorCase("dequantizelinear", {"axis": 0},
                 (_int8(3, 4, 2), _of("float32", [0.1, 0.2, 0.3]), _of("int8", [3, -128, 127]))),
    OperatorCase("dequantizelinear", {"axis": 1},
                 (_uint8(2, 40), _of("float32", 0.013), _of("uint8", 200))),
    OperatorCase("dequantizelinear", {"axis": 0},
                 (_of("int32", [2**31 - 1, -2**31, 2**24 + 1]), _of("float32", 0.5),
                  _of("int32", 2**24))),
    *(OperatorCase("qorder", {"count": count, "largest": largest, "part": part}, (
        _int8(*shape) >> 4,)) for count, shape in ((3, (2, 9)), (4, (2, 1, 300)))
      for largest in (0, 1) for part in range(3)),
    OperatorCase("qgather", {}, (_int8(3, 2, 2), _int8(300, 5))),
    OperatorCase("qgather", {}, (np.array([[[0, 0], [44, 1], [-1, 0]]], np.int8), _int8(301, 3))),
    OperatorCase("to_int8", {}, (np.arange(256).astype(np.uint8),)),
    OperatorCase("qtable", {}, (np.arange(-128, 128).astype(np.int8), _int8(256))),
    OperatorCase("qtable", {}, (_int8(2, 3, 5, 7), _int8(256))),
    OperatorCase("qbelow_max", {}, (_int8(3, 4, 9),)),
    OperatorCase("qsoftmax", {"mult": 40000, "shift": 37, "zp": -128, "lo": -128, "hi": 127},
                 (_int8(5, 21), *exponentials(0.02), RECIPROCALS)),
    OperatorCase("qlayer_norm", {"epsilon": 90, "mult": 50000, "shift": 37, "zp": 3, "lo": -128,
                                 "hi": 120},
                 (_int8(2, 5, 24), _rng.integers(-16384, 16385, 24).astype(np.int16),
                  _rng.integers(-2**27, 2**27, 24).astype(np.int32), ROOTS)),
    OperatorCase("qrms_norm", {"zero": 11, "epsilon": 90, "zp": 3, "lo": -128, "hi": 120},
                 (np.arange(240).reshape(2, 5, 24).astype(np.int8),
                  np.linspace(1 << 15, 65535, 24).astype(np.int32),
                  np.full(24, 24, np.int32), ROOTS, _of("int8", [1, -1, 1] * 8))),
    OperatorCase("put_place", {"axis": 1}, (np.arange(24, dtype=np.float32).reshape(2, 4, 3),
                                            np.ones((2, 1, 3), np.float32), _of("int64", [2]))),
    OperatorCase("put_place", {"axis": 0}, (np.arange(6, dtype=np.float32).reshape(3, 2),
                                            np.ones((1, 2), np.float32), _of("int64", [-1]))),
    OperatorCase("qput", {"axis": 2}, (np.arange(24).reshape(2, 3, 4).astype(np.int8),
                                       _of("int8", [[[5], [6], [7]]] * 2), _of("int64", [3]))),
    OperatorCase("qmap", {"function": "requantize((x0 - 3) * (x1 + 128), 40000, 23, -7, -120, "
                                      "110)"},
                 (_int8(2, 3, 1, 1), _int8(2, 3, 4, 5))),
    OperatorCase("qmap", {"function": "requantize(x0 * 77 - x1 + 5, 65535, 24, 3, -128, 127)"},
                 (_int8(2, 3, 4, 5), _rng.integers(-2**15, 2**15, (3, 1, 1)).astype(np.int16))),
    OperatorCase("qmap", {"function": "clamp(max(abs(x0 - x1), x2) - 5, -128, 127)"},
                 (_int8(2, 3), _int8(3), _int8(2, 1))),
    OperatorCase("qmap", {"function": "clamp(select(x0 < -x1, rshift_rne(x0 * 5, 2), "
                                      "min(x1 << 1, x0 >> 1)), -128, 127)"},
                 tuple(grid.astype(np.int8) for grid in np.meshgrid(np.arange(-128, 128),
                                                                    np.arange(-128, 128, 5)))),
    OperatorCase("qmap", {"function": "int32(rshift_rne(int64(x0) * 40000, 17)) & 8191"},
                 (_rng.integers(-2**15, 2**15, (2, 3, 5)).astype(np.int16),)),
    OperatorCase("qmap", {"function": "int32(clamp(rshift_rne(int64(x0) * int64(int16(x1)), "
                                      "int64(uint8(x2) & 63)), -128, 127))"},
                 (_counted("int8", 2, 5, 3, 3), NUMBERS, NUMBERS // 17 & 15 | 6)),
    OperatorCase("quantized_map", {"function": "clamp((x0 * int32(int16(x1))) >> 14, -128, 127)"},
                 (_counted("uint8", 2, 5, 3, 3), NUMBERS)),
    OperatorCase("qterms", {"term": "(x0 - x1) * (x0 - x1)", "bias": 0, "mult": 50000, "shift": 27,
                            **CLAMP}, (_counted("int8", 2, 3, 19), _counted("int8", 5, 19))),
    OperatorCase("quantized_terms", {"term": "abs(x0 - x1)", "bias": 9, "mult": 40000, "shift": 21,
                                     **CLAMP},
                 (_counted("uint8", 4, 7), _counted("uint8", 3, 7)[:, ::-1])),
    OperatorCase("quantized_map", {"function": "clamp(max(x0, x1) - 5, -128, 127)"},
                 (_uint8(2, 3, 1), _uint8(3, 4))),
    OperatorCase("quantized_map", {"function": "clamp(x0 * x0 >> 9, -9, 32767)"},
                 (_rng.integers(-2**15, 2**15, (2, 7)).astype(np.int16),)),
    OperatorCase("to_uint8", {}, (np.arange(-128, 128).astype(np.int8),)),
]

RESHAPES = [OperatorCase("reshape", {"shape": made}, (_normal(*read),)) for read, made in [
    ((2, 3, 4), (2, 12)), ((2, 3, 4), (4, 6)), ((2, 12), (1, 2, 1, 4, 3)), ((2, 5, 1, 1), (2, 5)),
    ((6,), (2, 3)), ((), (1, 1)), ((1, 1), ()), ((3, 2), (3, 2)), ((4, 3, 5), (2, 6, 5)),
]]

MOVEMENTS = [
    OperatorCase("upsample", {"factors": (2, 3)}, (_int8(2, 3, 4, 5),)),
    OperatorCase("upsample", {"factors": (1, 4)}, (_normal(1, 2, 3, 1),)),
    OperatorCase("transpose", {"perm": (2, 0, 3, 1)}, (_int8(2, 3, 4, 5),)),
    OperatorCase("transpose", {"perm": (1, 0)}, (_normal(3, 4),)),
    OperatorCase("relayout", {"perm": (0, 2, 3, 1)}, (_int8(2, 3, 4, 5),)),
    OperatorCase("slice", {"begin": (0, 3, 1, 0), "end": (2, 7, 6, 5), "step": (1, 2, 1, 3)},
                 (_int8(2, 8, 6, 5),)),
    OperatorCase("slice", {"begin": (2,), "end": (3,), "step": (4,)}, (_of("int64", [1, 2, 3]),)),
    OperatorCase("concat", {"axis": 1}, (_normal(2, 3, 4), _normal(2, 1, 4), _normal(2, 5, 4))),
    OperatorCase("concat", {"axis": 0}, (_int8(2, 3), _int8(4, 3))),
    OperatorCase("concat", {"axis": 2}, (_uint8(2, 3, 1),)),
    OperatorCase("qconcat", {"bias": (3, -5, 128), "mult": (40000, 33000, 0),
                             "shift": (15, 16, 46), **CLAMP},
                 (_int8(2, 3, 4, 5), _int8(2, 8, 4, 5), _int8(2, 1, 4, 5))),
    OperatorCase("qconcat", {"bias": (3, -5), "mult": (40000, 33000), "shift": (16, 15), "axis": 3,
                             **CLAMP}, (_int8(2, 3, 4, 5), _int8(2, 3, 4, 2))),
    OperatorCase("qconcat", {"bias": (-9, 0), "mult": (65535, 32768), "shift": (17, 15), **CLAMP},
                 (_int8(3, 8), _int8(3, 5))),
]

WIDE = {"zp": -700, "lo": -30000, "hi": 31000}
_SIXTEEN = np.arange(-2**15, 2**15).astype(np.int16)

OF_16_BITS = [
    case for size, kernel, strides, pads in WINDOWS[:2] for attrs in [_window(strides, pads)]
    for case in (
        OperatorCase("qconv2d", {**attrs, "pad_value": -777, **WIDE},
                     (_int16(2, 3, *size), _int8(5, 3, *kernel), *_parameters(5, 21))),
        OperatorCase("qmaxpool", {**attrs, "kernel": kernel}, (_int16(2, 3, *size),)),
        OperatorCase("maxpool", {**attrs, "kernel": kernel}, (_int16(2, 3, *size),)),
        OperatorCase("maxpool", {**attrs, "kernel": kernel},
                     (_int16(2, 3, *size).view(np.uint16),)),
        OperatorCase("qavgpool", {**attrs, "kernel": kernel, "pad_value": 333, "bias": -44,
                                  **WIDE},
                     (_int16(2, 3, *size), *_multipliers(1, 1))))
] + [
    OperatorCase("qconvtranspose2d", {"strides": (2, 2), "pads": (0, 1, 0, 0), "dilations": (1, 1),
                                      "output_padding": (0, 0), "group": 1, "pad_value": -5100,
                                      **WIDE},
                 (_int16(2, 3, 3, 4), _int8(4, 3, 2, 2), *_parameters(4, 20))),
    OperatorCase("qglobalavgpool", {"bias": 91, "mult": 40000, "shift": 20, **WIDE},
                 (_int16(3, 5, 7, 3),)),
    OperatorCase("qdense", WIDE, (_int16(3, 37), _int16(5, 37), *_parameters(5, 28))),
    OperatorCase("qdense", WIDE, (_int8(3, 37).astype(np.int16), _int8(5, 37),
                                  *_parameters(5, 14))),
    OperatorCase("qleakyrelu", {"bias": 5, "mult": 50000, "shift": 15, "mult_below": 40000,
                                "shift_below": 18, **WIDE}, (_SIXTEEN,)),
    OperatorCase("qadd", {"ma": 45942, "mb": 21987, "c": 2584626, "shift": 16, **WIDE},
                 (_int16(40, 50), _int16(40, 50))),
    OperatorCase("qrescale", {"bias": 5, "mult": 50000, "shift": 15, **WIDE}, (_SIXTEEN,)),
    OperatorCase("qconcat", {"bias": (3, -5), "mult": (40000, 33000), "shift": (16, 15), **WIDE},
                 (_int16(2, 3, 4, 5), _int16(2, 8, 4, 5))),
    OperatorCase("quantize", {"scale": 0.25, "zp": 3000, "dtype": "int16"}, (512 * _normal(9, 9),)),
    OperatorCase("dequantize", {"scale": 0.037, "zp": -12800}, (_SIXTEEN,)),
    OperatorCase("quantizelinear", {"axis": 1},
                 (_halves(0.1), _of("float32", 0.001), _of("uint16", 13000))),
    OperatorCase("dequantizelinear", {"axis": 0},
                 (_int16(3, 4, 2), _of("float32", [0.1, 0.2, 0.3]),
                  _of("int16", [3, -32768, 32767]))),
    OperatorCase("to_int16", {}, (_SIXTEEN.view(np.uint16),)),
    OperatorCase("to_uint16", {}, (_SIXTEEN,)),
]
"""Activations of int16; weights are int8 or int16."""

# size, kernel, strides, pads; with dilations and groups of blocks
BLOCKS = [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("conv2d_blocks", _window(strides, pads),
                     (_normal(1, 2, *size, 16), _normal(3, 2, *kernel, 16, 16), _normal(3, 16))),
        OperatorCase("depthwise_blocks", _window(strides, pads),
                     (_normal(2, 3, *size, 16), _normal(3, *kernel, 16), _normal(3, 16))),
        OperatorCase("conv2d_into_blocks", _window(strides, pads),
                     (_normal(2, 3, *size), _normal(2, 3, *kernel, 16), _normal(2, 16))))
] + [
    OperatorCase("conv2d_blocks", _window((1, 2), (1, 0, 2, 1), dilations=(2, 1), group=2),
                 (_normal(1, 2, 5, 6, 16), _normal(4, 1, 3, 2, 16, 16))),
    OperatorCase("depthwise_blocks", _window((2, 1), (1, 2, 0, 1), dilations=(1, 2)),
                 (_normal(1, 2, 5, 6, 16), _normal(2, 3, 2, 16))),
    *(OperatorCase("packed_matmul", {"columns": columns},
                   (_normal(*rows, 5), _normal(*blocks, 5, 16)))
      for rows, blocks, columns in (((1,), (3,), 48), ((2, 7), (1,), 16), ((2, 1, 3), (2,), 17),
                                    ((2, 3, 4), (2, 3, 2), 31))),
    *(OperatorCase("winograd_tiles", {"size": size, "pads": pads}, (_normal(2, 2, 5, 6, 16),))
      for size, pads in ((2, (1, 1, 1, 1)), (4, (0, 2, 1, 0)))),
    *(OperatorCase("winograd_image", {"size": size, "shape": shape},
                   (_normal(2, reach, reach, 2, *tiles, 16), *bias))
      for size, reach, shape, tiles, bias in (
          (2, 4, (4, 3), (2, 2), (_normal(2, 16),)), (4, 6, (5, 8), (2, 2), ()))),
    *(OperatorCase("block_columns", {}, (_normal(*shape),))
      for shape in ((5, 32), (2, 1, 3, 19), (4, 1))),
    OperatorCase("conv2d_into_blocks", _window((1, 1), (2, 2, 2, 2), dilations=(2, 2)),
                 (_normal(1, 1, 5, 6), _normal(1, 1, 3, 3, 16))),
]



def _for_blocks(count: int, terms: int) -> tuple[Array, Array]:
    """Biases and scales that make int8 of most sums of so many products."""
    return (_rng.integers(-2**20, 2**20, (count, 16)).astype(np.int32),
            np.ldexp(_rng.integers(2**15, 2**16, (count, 16)), -27) / terms**0.5)


def _int8_window(*args, **attrs) -> dict:
    return {**_window(*args, **attrs), "pad_value": -5, **CLAMP}


INT8_BLOCKS = [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("qconv2d_blocks", _int8_window(strides, pads),
                     (_int8(1, 2, *size, 16), _int8(3, kernel[0], 1, 8 * kernel[1], 16, 4),
                      *_for_blocks(3, 99))),
        OperatorCase("qdepthwise_blocks", _int8_window(strides, pads),
                     (_int8(2, 3, *size, 16), _int8(3, *kernel, 16), *_for_blocks(3, 9))),
        OperatorCase("qconv2d_into_blocks", _int8_window(strides, pads),
                     (_int8(2, 3, *size), _int8(2, kernel[0], 1, kernel[1], 16, 4)
                      * np.int8([1, 1, 1, 0]), *_for_blocks(2, 30))))
] + [
    OperatorCase("qconv2d_blocks", _int8_window((1, 2), (1, 0, 2, 1), dilations=(2, 1), group=2),
                 (_int8(1, 2, 5, 6, 16), _int8(4, 3, 2, 4, 16, 4), *_for_blocks(4, 99))),
    OperatorCase("qdepthwise_blocks", _int8_window((2, 1), (1, 2, 0, 1), dilations=(1, 2)),
                 (_int8(1, 2, 5, 6, 16), _int8(2, 3, 2, 16), *_for_blocks(2, 9))),
    OperatorCase("qconv2d_into_blocks", _int8_window((1, 1), (2, 2, 2, 2), dilations=(2, 2)),
                 (_int8(1, 4, 5, 6), _int8(1, 3, 3, 1, 16, 4), *_for_blocks(1, 30))),
    *(OperatorCase("qpacked_matmul", CLAMP,
                   (_int8(*rows, depth), _int8(blocks, -(-depth // 4), 16, 4),
                    *(array.reshape(-1) for array in _for_blocks(blocks, depth))))
      for rows, blocks, depth in (((1,), 3, 5), ((2, 7), 1, 8), ((2, 1, 3), 2, 70))),
    *(OperatorCase("grouped_matmul", {}, (_int8(*leading, rows, depth),
                                          _int8(*leading, blocks, -(-depth // 4), 16, 4)))
      for leading, rows, depth, blocks in (((), 3, 8, 2), ((2, 3), 9, 10, 1))),
    *(OperatorCase("group_columns", {"trans_b": turned}, (_int8(*shape),))
      for shape, turned in (((6, 20), 0), ((2, 3, 32, 8), 1), ((2, 5, 7), 1))),
    OperatorCase("qproducts", {"a_zp": -128, "bias": 77, "mult": 40000, "shift": 30, **CLAMP},
                 (_rng.integers(-2**20, 2**20, (2, 5, 32)).astype(np.int32),
                  _rng.integers(-2**16, 2**16, (2, 1, 32)).astype(np.int32))),
    OperatorCase("qproducts", {"a_zp": 5, "bias": 0, "mult": 50000, "shift": 39, **CLAMP},
                 (_rng.integers(-2**31, 2**31, (3, 16)).astype(np.int32),
                  _rng.integers(-2**31, 2**31, (1, 16)).astype(np.int32))),
]
"""Blocks of channels of int8."""

AFFINE = [
    OperatorCase("qaffine", {"axis": 1, **CLAMP}, (_int8(2, 7, 4, 5), *_parameters(7, 20))),
    OperatorCase("qaffine", {"axis": 2, **CLAMP}, (_int8(2, 3, 7), *_parameters(7, 20), _int8(7))),
    OperatorCase("qaffine", {"axis": 1, **WIDE}, (_int16(2, 5, 3), *_parameters(5, 20), _int8(5))),
    OperatorCase("qaffine", {"axis": 1, **CLAMP}, (_int8(2, 3, 5, 4, 16), *(
        vector.reshape(3, 16) for vector in (*_parameters(48, 20), _int8(48))))),
]

LAST = [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("conv2d_last", _window(strides, pads),
                     (_normal(2, *size, 5), _normal(9, *kernel, 5), _normal(9))),
        OperatorCase("depthwise_last", _window(strides, pads),
                     (_normal(2, *size, 9), _normal(*kernel, 9), _normal(9))),
        OperatorCase("qconv2d_last", _int8_window(strides, pads),
                     (_int8(2, *size, 20), _int8(9, *kernel, 20), *_parameters(9, 21))),
        OperatorCase("qdepthwise_last", _int8_window(strides, pads),
                     (_int8(2, *size, 9), _int8(*kernel, 9), *_parameters(9, 20))))
] + [
    OperatorCase("conv2d_last", _window((2, 1), (1, 2, 0, 1), dilations=(1, 2)),
                 (_normal(1, 5, 6, 16), _normal(8, 3, 2, 16))),
    OperatorCase("conv2d_last", _window((2, 1), (1, 2, 0, 1)),
                 (_normal(1, 5, 6, 4), _normal(8, 3, 3 * 4))),
    OperatorCase("qconv2d_last", _int8_window((1, 2), (1, 0, 2, 1), dilations=(1, 2)),
                 (_int8(2, 5, 6, 3), _int8(8, 3, 2 * 3), *_parameters(8, 23))),
    OperatorCase("depthwise_last", _window((2, 1), (1, 2, 0, 1), dilations=(1, 2)),
                 (_normal(1, 5, 6, 16), _normal(3, 2, 16))),
    OperatorCase("qconv2d_last", {**_int8_window((1, 2), (1, 0, 2, 1), dilations=(2, 1)),
                                  "sums": "int64"},
                 (_int16(1, 5, 6, 3), _int16(8, 3, 2, 3), *_parameters(8, 38))),
] + [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("conv2d_direct", {**_window(strides, pads), "channels": 7},
                     (_normal(2, *size, 5), _normal(2, *kernel, 5, 4), _normal(7))),
        OperatorCase("qconv2d_direct", {**_int8_window(strides, pads), "channels": 10},
                     (_int8(2, *size, 6), _int8(3, *kernel, 6, 4), *_parameters(10, 20))))
] + [
    *(OperatorCase("qavgpool_lanes", _window((2, 1), (1, 0, 1, 1), kernel=(3, 2), pad_value=-9,
                                             bias=54, **CLAMP),
                   (_int8(2, 3, 6, 7, 5), *_multipliers(*counts))) for counts in ((1, 1), (3, 7))),
]
"""Images with channels last."""

def _scales(*shape: int, terms: int) -> tuple[Array, Array]:
    """Biases, and scales in float32 that make int8 of most sums of so many products; one channel
    has sums that float32 does not hold, one is 0.
    """
    bias = _rng.integers(-2**16, 2**16, shape).astype(np.int32)
    scale = (_rng.uniform(0.5, 1, shape) / 2**11 / terms**0.5).astype(np.float32)
    bias[..., -1], scale[..., -1], scale[..., 0] = 2**24 + 1, 2**-18, 0
    return bias, scale


def _sixtieths(count: int) -> tuple[Array, Array]:
    """A scale whose products with multiples of 30 are ties in float32 alone."""
    return np.zeros(count, np.int32), np.full(count, np.float32(1) / np.float32(60))


TWICE = {"mult": 2**30 + 12345679, "shift": 45, "twice": 1, **CLAMP}

SCALE = {"scale": float(np.float32(1) / np.float32(60)), **CLAMP}

EXACT = [
    OperatorCase("qconv2d", _window((1, 2), (0, 1, 2, 1), pad_value=-7, **CLAMP),
                 (_int8(2, 3, 6, 7), _int8(5, 3, 3, 2), *_scales(5, terms=18))),
    OperatorCase("qconvtranspose2d", {**_window((2, 2), (0, 1, 1, 0), output_padding=(0, 1)),
                                      "pad_value": 9, **CLAMP},
                 (_int8(1, 3, 4, 5), _int8(4, 3, 3, 3), *_scales(4, terms=27))),
    OperatorCase("qdense", CLAMP, (_int8(3, 37), _int8(5, 37), *_scales(5, terms=37))),
    OperatorCase("qdense", CLAMP, (_int8(64, 9), _rng.integers(-3, 4, (8, 9)).astype(np.int8),
                                   *_sixtieths(8))),
    OperatorCase("qpacked_matmul", CLAMP,
                 (_int8(64, 8), _rng.integers(-3, 4, (1, 2, 16, 4)).astype(np.int8),
                  *_sixtieths(16))),
    OperatorCase("qmatmul", {"trans_b": 0, "a_zp": -128, "b_zp": 7, "bias": 0, **TWICE},
                 (_int8(3, 4, 17), _int8(17, 6))),
    OperatorCase("qproducts", {"a_zp": 5, "bias": -3, **TWICE, "shift": 52},
                 (_rng.integers(-2**30, 2**30, (3, 16)).astype(np.int32),
                  _rng.integers(-2**10, 2**10, (1, 16)).astype(np.int32))),
    OperatorCase("qproducts", {"a_zp": 0, "bias": 0, **TWICE, "shift": 31},
                 (_rng.integers(-300, 300, (3, 16)).astype(np.int32),
                  np.zeros((1, 16), np.int32))),
    OperatorCase("qproducts", {"a_zp": 0, "bias": 0, **TWICE, "mult": 2**30, "shift": 34},  # ties
                 (np.arange(-400, 400).astype(np.int32).reshape(50, 16),
                  np.zeros((1, 16), np.int32))),
    OperatorCase("qconv2d_blocks", _int8_window((1, 2), (1, 0, 2, 1)),
                 (_int8(1, 2, 5, 6, 16), _int8(3, 3, 1, 16, 16, 4), *_scales(3, 16, terms=192))),
    OperatorCase("qdepthwise_blocks", _int8_window((2, 1), (1, 2, 0, 1)),
                 (_int8(1, 2, 5, 6, 16), _int8(2, 3, 2, 16), *_scales(2, 16, terms=6))),
    OperatorCase("qconv2d_into_blocks", _int8_window((1, 1), (2, 2, 2, 2)),
                 (_int8(1, 4, 5, 6), _int8(2, 3, 1, 3, 16, 4), *_scales(2, 16, terms=36))),
    OperatorCase("qpacked_matmul", CLAMP,
                 (_int8(2, 7, 8), _int8(2, 2, 16, 4), *_scales(32, terms=8))),
    OperatorCase("qconv2d_last", _int8_window((1, 2), (1, 0, 2, 1)),
                 (_int8(2, 5, 6, 4), _int8(8, 3, 2, 4), *_scales(8, terms=24))),
    OperatorCase("qdepthwise_last", _int8_window((1, 1), (1, 1, 1, 1)),
                 (_int8(2, 5, 6, 9), _int8(3, 3, 9), *_scales(9, terms=9))),
    OperatorCase("qmatmul", {"trans_b": 1, "a_zp": -128, "b_zp": 0, "bias": 0, **SCALE},
                 (_int8(2, 9, 17), _rng.integers(-3, 4, (2, 20, 17)).astype(np.int8))),
    OperatorCase("qproducts", {"a_zp": 0, "bias": 30, **SCALE},
                 (np.arange(-400, 400).astype(np.int32).reshape(50, 16) * 30,
                  np.zeros((1, 16), np.int32))),
]
"""What LiteRT computes: a scale in float32, or two roundings."""


def _differences(*shape: int) -> Array:
    """Differences of bytes."""
    return _rng.integers(-255, 256, shape).astype(np.int16)


def _factors(channels: int) -> Array:
    return _rng.integers(0, 400, channels).astype(np.int16)


TERMS = [
    OperatorCase("qconv2d", _window((1, 2), (1, 0, 2, 1), pad_value=77, **CLAMP),
                 (_int8(2, 3, 5, 6), _differences(5, 3, 3, 2), *_parameters(5, 21))),
    OperatorCase("qconvtranspose2d", {**_window((2, 2), (0, 1, 1, 0)), "output_padding": (0, 1),
                                      "pad_value": 9, **CLAMP},
                 (_int8(1, 3, 4, 5), _differences(4, 3, 3, 3), *_parameters(4, 21))),
    OperatorCase("qdense", CLAMP, (_int8(3, 37), _differences(5, 37), *_parameters(5, 21))),
    OperatorCase("qconv2d_add", _window((1, 2), (1, 0, 2, 1), pad_value=-7, **CLAMP),
                 (_int8(2, 3, 5, 6), _int8(2, 5, 6, 3), _int8(5, 3, 3, 2), *_parameters(5, 20),
                  _factors(5))),
    OperatorCase("qconv2d_add", _window((1, 1), (1, 1, 1, 1), group=2, pad_value=3, **CLAMP),
                 (_int8(1, 4, 5, 6), _int8(1, 6, 5, 6), _int8(6, 2, 3, 3), *_parameters(6, 20),
                  _factors(6))),
    OperatorCase("qconv2d_add_blocks", _int8_window((1, 2), (1, 0, 2, 1)),
                 (_int8(1, 2, 5, 6, 16), _int8(1, 3, 6, 3, 16), _int8(3, 3, 1, 16, 16, 4),
                  *_scales(3, 16, terms=192), _factors(48).reshape(3, 16))),
    OperatorCase("qpacked_matmul_add", CLAMP,
                 (_int8(2, 7, 8), _int8(2, 7, 21), _int8(2, 2, 16, 4), *_scales(32, terms=8),
                  _factors(32))),
    OperatorCase("qdense_add", CLAMP, (_int8(2, 3, 37), _int8(2, 3, 5), _differences(5, 37),
                                       *_parameters(5, 21), _factors(5))),
]
"""Sums with more terms than a product of bytes."""

SUMS_IN_PLANES = [
    *(OperatorCase("qdense", {"planes": planes}, (_int8(2, 3, 37), _int8(5, 37)))
      for planes in (1, 3, 4)),
    OperatorCase("qdense", {"planes": 2}, (_int16(3, 37), _int8(5, 37))),
    OperatorCase("qmatmul", {"trans_b": 1, "a_zp": -128, "b_zp": 7, "planes": 3},
                 (_int8(2, 1, 4, 9), _int8(3, 5, 9))),
    OperatorCase("cut_planes", {"axis": 1, "planes": 4, "dtype": "int8"},
                 (_rng.integers(-2**31, 2**31, (2, 3, 5, 2)).astype(np.int32),)),
    OperatorCase("cut_planes", {"axis": 2, "planes": 2, "dtype": "int16"},
                 (_rng.integers(-2**31, 2**31, (1, 2, 4)).astype(np.int32),)),
    OperatorCase("joined_planes", {"axis": 1, "planes": 3}, (_int8(2, 6, 3, 1),)),
    OperatorCase("joined_planes", {"axis": 2, "planes": 4}, (_int8(1, 2, 8),)),
    OperatorCase("joined_planes", {"axis": 0, "planes": 2}, (_int16(4, 5),)),
    OperatorCase("qconv2d", _window((2, 1), (1, 0, 2, 1), group=2, pad_value=77, planes=3),
                 (_int8(2, 4, 5, 6), _int8(6, 2, 3, 2))),
]
"""Sums that nothing quantizes."""

CASES = [*CONVOLUTIONS, *TRANSPOSED_CASES, *POOLS, *MATRICES, *ELEMENTWISE, *RESHAPES,
         *MOVEMENTS, *OF_16_BITS, *BLOCKS, *INT8_BLOCKS, *AFFINE, *LAST, *EXACT, *TERMS,
         *SUMS_IN_PLANES]
