"""Cases of integers: of 16 bits, by the scales of LiteRT, with more terms, in planes."""

import numpy as np

from tests.support.operators.draws import (CLAMP, WIDE, WINDOWS, Array, Draws, OperatorCase, halves,
                                           int8_window, of, window)

_draws = Draws(20263)
_rng = _draws.rng
_normal = _draws.normal
_int8 = _draws.int8
_int16 = _draws.int16
_parameters = _draws.parameters
_multipliers = _draws.multipliers
_scales = _draws.scales

_SIXTEEN = np.arange(-2**15, 2**15).astype(np.int16)

OF_16_BITS = [
    case for size, kernel, strides, pads in WINDOWS[:2] for attrs in [window(strides, pads)]
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
                 (halves(0.1), of("float32", 0.001), of("uint16", 13000))),
    OperatorCase("dequantizelinear", {"axis": 0},
                 (_int16(3, 4, 2), of("float32", [0.1, 0.2, 0.3]),
                  of("int16", [3, -32768, 32767]))),
    OperatorCase("to_int16", {}, (_SIXTEEN.view(np.uint16),)),
    OperatorCase("to_uint16", {}, (_SIXTEEN,)),
]
"""Activations of int16; weights are int8 or int16."""

AFFINE = [
    OperatorCase("qaffine", {"axis": 1, **CLAMP}, (_int8(2, 7, 4, 5), *_parameters(7, 20))),
    OperatorCase("qaffine", {"axis": 2, **CLAMP}, (_int8(2, 3, 7), *_parameters(7, 20), _int8(7))),
    OperatorCase("qaffine", {"axis": 1, **WIDE}, (_int16(2, 5, 3), *_parameters(5, 20), _int8(5))),
    OperatorCase("qaffine", {"axis": 1, **CLAMP}, (_int8(2, 3, 5, 4, 16), *(
        vector.reshape(3, 16) for vector in (*_parameters(48, 20), _int8(48))))),
]


def _sixtieths(count: int) -> tuple[Array, Array]:
    """A scale whose products with multiples of 30 are ties in float32 alone."""
    return np.zeros(count, np.int32), np.full(count, np.float32(1) / np.float32(60))


TWICE = {"mult": 2**30 + 12345679, "shift": 45, "twice": 1, **CLAMP}

SCALE = {"scale": float(np.float32(1) / np.float32(60)), **CLAMP}

EXACT = [
    OperatorCase("qconv2d", window((1, 2), (0, 1, 2, 1), pad_value=-7, **CLAMP),
                 (_int8(2, 3, 6, 7), _int8(5, 3, 3, 2), *_scales(5, terms=18))),
    OperatorCase("qconvtranspose2d", {**window((2, 2), (0, 1, 1, 0), output_padding=(0, 1)),
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
    OperatorCase("qconv2d_blocks", int8_window((1, 2), (1, 0, 2, 1)),
                 (_int8(1, 2, 5, 6, 16), _int8(3, 3, 1, 16, 16, 4), *_scales(3, 16, terms=192))),
    OperatorCase("qdepthwise_blocks", int8_window((2, 1), (1, 2, 0, 1)),
                 (_int8(1, 2, 5, 6, 16), _int8(2, 3, 2, 16), *_scales(2, 16, terms=6))),
    OperatorCase("qconv2d_into_blocks", int8_window((1, 1), (2, 2, 2, 2)),
                 (_int8(1, 4, 5, 6), _int8(2, 3, 1, 3, 16, 4), *_scales(2, 16, terms=36))),
    OperatorCase("qpacked_matmul", CLAMP,
                 (_int8(2, 7, 8), _int8(2, 2, 16, 4), *_scales(32, terms=8))),
    OperatorCase("qconv2d_last", int8_window((1, 2), (1, 0, 2, 1)),
                 (_int8(2, 5, 6, 4), _int8(8, 3, 2, 4), *_scales(8, terms=24))),
    OperatorCase("qdepthwise_last", int8_window((1, 1), (1, 1, 1, 1)),
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
    OperatorCase("qconv2d", window((1, 2), (1, 0, 2, 1), pad_value=77, **CLAMP),
                 (_int8(2, 3, 5, 6), _differences(5, 3, 3, 2), *_parameters(5, 21))),
    OperatorCase("qconvtranspose2d", {**window((2, 2), (0, 1, 1, 0)), "output_padding": (0, 1),
                                      "pad_value": 9, **CLAMP},
                 (_int8(1, 3, 4, 5), _differences(4, 3, 3, 3), *_parameters(4, 21))),
    OperatorCase("qdense", CLAMP, (_int8(3, 37), _differences(5, 37), *_parameters(5, 21))),
    OperatorCase("qconv2d_add", window((1, 2), (1, 0, 2, 1), pad_value=-7, **CLAMP),
                 (_int8(2, 3, 5, 6), _int8(2, 5, 6, 3), _int8(5, 3, 3, 2), *_parameters(5, 20),
                  _factors(5))),
    OperatorCase("qconv2d_add", window((1, 1), (1, 1, 1, 1), group=2, pad_value=3, **CLAMP),
                 (_int8(1, 4, 5, 6), _int8(1, 6, 5, 6), _int8(6, 2, 3, 3), *_parameters(6, 20),
                  _factors(6))),
    OperatorCase("qconv2d_add_blocks", int8_window((1, 2), (1, 0, 2, 1)),
                 (_int8(1, 2, 5, 6, 16), _int8(1, 3, 6, 3, 16), _int8(3, 3, 1, 16, 16, 4),
                  *_scales(3, 16, terms=192), _factors(48).reshape(3, 16))),
    OperatorCase("qpacked_matmul_add", CLAMP,
                 (_int8(2, 7, 8), _int8(2, 7, 21), _int8(2, 2, 16, 4), *_scales(32, terms=8),
                  _factors(32))),
    OperatorCase("qdense_add", CLAMP, (_int8(2, 3, 37), _int8(2, 3, 5), _differences(5, 37),
                                       *_parameters(5, 21), _factors(5))),
    OperatorCase("qconv2d_add", window((1, 1), (1, 1, 1, 1), pad_value=3, fine=5, **CLAMP),
                 (_int8(1, 4, 5, 6), _int8(1, 6, 5, 6), _int8(6, 4, 3, 3), *_parameters(6, 20),
                  50 * _factors(6))),
    OperatorCase("qconv2d_add_blocks", int8_window((1, 2), (1, 0, 2, 1)) | {"fine": 3},
                 (_int8(1, 2, 5, 6, 16), _int8(1, 3, 6, 3, 16), _int8(3, 3, 1, 16, 16, 4),
                  *_scales(3, 16, terms=192), 8 * _factors(48).reshape(3, 16))),
    OperatorCase("qdense_add", {**CLAMP, "fine": 7},
                 (_int8(2, 3, 37), _int8(2, 3, 5), _int8(5, 37), *_parameters(5, 21),
                  -8 * _factors(5))),
    OperatorCase("qpacked_matmul_add", {**CLAMP, "fine": 4},
                 (_int8(2, 7, 8), _int8(2, 7, 21), _int8(2, 2, 16, 4), *_scales(32, terms=8),
                  10 * _factors(32))),
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
    OperatorCase("qconv2d", window((2, 1), (1, 0, 2, 1), group=2, pad_value=77, planes=3),
                 (_int8(2, 4, 5, 6), _int8(6, 2, 3, 2))),
]
"""Sums that nothing quantizes."""
