"""Cases of images in blocks of channels, and with channels last."""

import numpy as np

from tests.support.operators.draws import (CLAMP, WINDOWS, Array, Draws, OperatorCase, int8_window,
                                           window)

_draws = Draws(20262)
_rng = _draws.rng
_int8 = _draws.int8
_int16 = _draws.int16
_parameters = _draws.parameters
_multipliers = _draws.multipliers


def _normal(*shape: int) -> Array:
    """Numbers in sixteenths, of which float32 holds sums of products in any order."""
    return np.rint(16 * _draws.normal(*shape)) / np.float32(16)


def _for_blocks(count: int, terms: int) -> tuple[Array, Array]:
    """Biases and scales that make int8 of most sums of so many products."""
    return (_rng.integers(-2**20, 2**20, (count, 16)).astype(np.int32),
            np.ldexp(_rng.integers(2**15, 2**16, (count, 16)), -27) / terms**0.5)


def _words(*shape: int) -> Array:
    """Weights of int8 in words."""
    return _int8(*shape).astype(np.int16)


# size, kernel, strides, pads; with dilations and groups of blocks
BLOCKS = [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("conv2d_blocks", window(strides, pads),
                     (_normal(1, 2, *size, 16), _normal(3, 2, *kernel, 16, 16), _normal(3, 16))),
        OperatorCase("depthwise_blocks", window(strides, pads),
                     (_normal(2, 3, *size, 16), _normal(3, *kernel, 16), _normal(3, 16))),
        OperatorCase("conv2d_into_blocks", window(strides, pads),
                     (_normal(2, 3, *size), _normal(2, 3, *kernel, 16), _normal(2, 16))))
] + [
    OperatorCase("conv2d_blocks", window((1, 2), (1, 0, 2, 1), dilations=(2, 1), group=2),
                 (_normal(1, 2, 5, 6, 16), _normal(4, 1, 3, 2, 16, 16))),
    OperatorCase("depthwise_blocks", window((2, 1), (1, 2, 0, 1), dilations=(1, 2)),
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
    OperatorCase("conv2d_into_blocks", window((1, 1), (2, 2, 2, 2), dilations=(2, 2)),
                 (_normal(1, 1, 5, 6), _normal(1, 1, 3, 3, 16))),
]

INT8_BLOCKS = [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("qconv2d_blocks", int8_window(strides, pads),
                     (_int8(1, 2, *size, 16), _int8(3, kernel[0], 1, 8 * kernel[1], 16, 4),
                      *_for_blocks(3, 99))),
        OperatorCase("qdepthwise_blocks", int8_window(strides, pads),
                     (_int8(2, 3, *size, 16), _int8(3, *kernel, 16), *_for_blocks(3, 9))),
        OperatorCase("qconv2d_into_blocks", int8_window(strides, pads),
                     (_int8(2, 3, *size), _int8(2, kernel[0], 1, kernel[1], 16, 4)
                      * np.int8([1, 1, 1, 0]), *_for_blocks(2, 30))))
] + [
    OperatorCase("qconv2d_blocks", int8_window((1, 2), (1, 0, 2, 1), dilations=(2, 1), group=2),
                 (_int8(1, 2, 5, 6, 16), _int8(4, 3, 2, 4, 16, 4), *_for_blocks(4, 99))),
    OperatorCase("qdepthwise_blocks", int8_window((2, 1), (1, 2, 0, 1), dilations=(1, 2)),
                 (_int8(1, 2, 5, 6, 16), _int8(2, 3, 2, 16), *_for_blocks(2, 9))),
    OperatorCase("qconv2d_into_blocks", int8_window((1, 1), (2, 2, 2, 2), dilations=(2, 2)),
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
] + [
    OperatorCase("qconv2d_blocks", int8_window((1, 2), (1, 0, 2, 1), dilations=(2, 1), group=2),
                 (_int8(1, 2, 5, 6, 16), _words(4, 3, 2, 8, 16, 2), *_for_blocks(4, 99))),
    OperatorCase("qpacked_matmul", CLAMP, (_int8(3, 5), _words(2, 3, 16, 2), *(
        array.reshape(-1) for array in _for_blocks(2, 5)))),
    OperatorCase("grouped_matmul", {}, (_int16(2, 9, 10), _int16(2, 1, 5, 16, 2))),
    *(OperatorCase("qwinograd_tiles", {"size": size, "pads": pads, "pad_value": -9},
                   (_int8(2, 2, 5, 6, 16),))
      for size, pads in ((2, (1, 1, 1, 1)), (4, (0, 2, 1, 0)))),
    *(OperatorCase(f"qwinograd_image{'_add' * met}", {
        "size": size, "shape": shape, **CLAMP, **({"fine": 3} if met else {})}, (
        _rng.integers(-2**31, 2**31, (reach, reach, 2, *tiles, 2, 16)).astype(np.int32),
        *([_int8(2, 2, *shape, 16)] if met else []),
        _rng.integers(-2**20, 2**20, (2, 16)).astype(np.int32),
        np.ldexp(_rng.integers(2**15, 2**16, (2, 16)), -38),
        *([_int16(2, 16)] if met else [])))
      for size, reach, shape, tiles, met in (
          (2, 4, (4, 3), (2, 2), False), (4, 6, (5, 8), (2, 2), False),
          (4, 6, (3, 5), (1, 2), True))),
]
"""Blocks of channels of int8; of the last ones, weights are words."""

LAST = [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("conv2d_last", window(strides, pads),
                     (_normal(2, *size, 5), _normal(9, *kernel, 5), _normal(9))),
        OperatorCase("depthwise_last", window(strides, pads),
                     (_normal(2, *size, 9), _normal(*kernel, 9), _normal(9))),
        OperatorCase("qconv2d_last", int8_window(strides, pads),
                     (_int8(2, *size, 20), _int8(9, *kernel, 20), *_parameters(9, 21))),
        OperatorCase("qdepthwise_last", int8_window(strides, pads),
                     (_int8(2, *size, 9), _int8(*kernel, 9), *_parameters(9, 20))))
] + [
    OperatorCase("conv2d_last", window((2, 1), (1, 2, 0, 1), dilations=(1, 2)),
                 (_normal(1, 5, 6, 16), _normal(8, 3, 2, 16))),
    OperatorCase("conv2d_last", window((2, 1), (1, 2, 0, 1)),
                 (_normal(1, 5, 6, 4), _normal(8, 3, 3 * 4))),
    OperatorCase("qconv2d_last", int8_window((1, 2), (1, 0, 2, 1), dilations=(1, 2)),
                 (_int8(2, 5, 6, 3), _int8(8, 3, 2 * 3), *_parameters(8, 23))),
    OperatorCase("depthwise_last", window((2, 1), (1, 2, 0, 1), dilations=(1, 2)),
                 (_normal(1, 5, 6, 16), _normal(3, 2, 16))),
    OperatorCase("qconv2d_last", {**int8_window((1, 2), (1, 0, 2, 1), dilations=(2, 1)),
                                  "sums": "int64"},
                 (_int16(1, 5, 6, 3), _int16(8, 3, 2, 3), *_parameters(8, 38))),
] + [
    case for size, kernel, strides, pads in WINDOWS for case in (
        OperatorCase("conv2d_direct", {**window(strides, pads), "channels": 7},
                     (_normal(2, *size, 5), _normal(2, *kernel, 5, 4), _normal(7))),
        OperatorCase("qconv2d_direct", {**int8_window(strides, pads), "channels": 10},
                     (_int8(2, *size, 6), _int8(3, *kernel, 6, 4), *_parameters(10, 20))))
] + [
    *(OperatorCase("qavgpool_lanes", window((2, 1), (1, 0, 1, 1), kernel=(3, 2), pad_value=-9,
                                             bias=54, **CLAMP),
                   (_int8(2, 3, 6, 7, 5), *_multipliers(*counts))) for counts in ((1, 1), (3, 7))),
]
"""Images with channels last."""
