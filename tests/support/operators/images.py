"""Cases of windows over images: convolutions, pools."""

import numpy as np

from compiler.ops.records.windows import window_shape
from tests.support.operators.draws import (CLAMP, WINDOWS, Draws, OperatorCase, window)

_draws = Draws(20260)
_normal = _draws.normal
_int8 = _draws.int8
_uint8 = _draws.uint8
_parameters = _draws.parameters
_multipliers = _draws.multipliers

CONVOLUTIONS = [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("conv2d", window(strides, pads),
                     (_normal(2, 3, *size), _normal(4, 3, *kernel), _normal(4))),
        OperatorCase("qconv2d", window(strides, pads, pad_value=77, **CLAMP),
                     (_int8(2, 3, *size), _int8(5, 3, *kernel), *_parameters(5, 21))))
] + [OperatorCase("conv2d", window((1, 2), (0, 0, 0, 0)),
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
        OperatorCase("conv2d", window(strides, pads, dilations=dilations, group=group),
                     (_normal(2, group * inward, *size), _normal(group * outward, inward, *kernel),
                      _normal(group * outward))),
        OperatorCase("qconv2d", window(strides, pads, dilations=dilations, group=group,
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
    for attrs in [window(strides, pads, dilations=dilations, output_padding=more, group=group)]
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
    OperatorCase(op, window(strides, pads, kernel=kernel), (make(2, 3, *size),))
    for size, kernel, strides, pads in WINDOWS
    for op, make in (("maxpool", _normal), ("maxpool", _int8), ("maxpool", _uint8),
                     ("qmaxpool", _int8))
] + [
    OperatorCase("qmaxpool", window((1, 1), (1, 1, 1, 1), kernel=(2, 2)),
                 (np.full((1, 1, 2, 2), -128, np.int8),)),
] + [
    OperatorCase("avgpool", window(strides, pads, kernel=kernel, include_pad=include),
                 (_normal(2, 3, *size),))
    for size, kernel, strides, pads in WINDOWS for include in (0, 1)
] + [
    OperatorCase("qavgpool", window(strides, pads, kernel=kernel, pad_value=33, bias=-440,
                                     **CLAMP),
                 (_int8(2, 3, *size), *_multipliers(*window_shape(size, kernel, strides, pads))))
    for size, kernel, strides, pads in WINDOWS
] + [
    *(OperatorCase(op, window((2, 1), (1, 0, 2, 1), kernel=(3, 2), dilations=(2, 3)), (x,))
      for op, x in (("maxpool", _normal(2, 3, 8, 7)), ("qmaxpool", _int8(2, 3, 8, 7)))),
    OperatorCase("qavgpool", window((2, 1), (1, 0, 1, 1), kernel=(3, 2), pad_value=-9, bias=54,
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
