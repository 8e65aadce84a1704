"""Layouts of tensors in memory; docs/machine.md, Layouts. NumPy only."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accel.machine.config import AccelConfig
from accel.mapping.operators.blocked import Activation, Blocks
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import numpy_dtype

PLAIN, BLOCKED = "NHWC", "N/b H W b C"
PLAIN_ROWS, BLOCKED_ROWS = "rows, C", "rows/b, b, C"
"""Layouts of tensors that a host sees: images, and the rows of tensors whose last dimension is the
channels.
"""
BLOCKED_LAST = "N/b H W b C, NHWC"
LAST = {PLAIN: PLAIN_ROWS, BLOCKED: BLOCKED_LAST}
"""The layouts of these images for a host with channels last: as rows, pixel by pixel."""


def blocks_of(config: AccelConfig) -> Blocks:
    return Blocks(config.batch, config.block_in, config.block_out, config.output, config.weight,
                  accumulator=config.accumulator)


def to_plain(tensor: np.ndarray) -> np.ndarray:
    """Convert NCHW (or NC) to NHWC."""
    if tensor.ndim == 2:
        tensor = tensor[:, :, None, None]
    return np.ascontiguousarray(tensor.transpose(0, 2, 3, 1))


def to_memory(tensor: np.ndarray, layout: str) -> np.ndarray:
    """Convert a tensor to `layout`, one of the plain ones."""
    if layout == PLAIN_ROWS:
        return np.ascontiguousarray(tensor).reshape(-1, 1, 1, tensor.shape[-1])
    return to_plain(tensor)


def from_memory(stored: np.ndarray, layout: str, logical: tuple[int, ...]) -> np.ndarray:
    """Convert a stored tensor in any of the layouts to the tensor of shape `logical`."""
    if layout == BLOCKED:
        return from_blocked(stored, logical)
    if layout == BLOCKED_LAST:
        images = stored.transpose(0, 3, 1, 2, 4).reshape(-1, *stored.shape[1:3], stored.shape[4])
        return np.ascontiguousarray(images[:logical[0], ..., :logical[3]])
    if layout == PLAIN:
        return np.ascontiguousarray(stored.transpose(0, 3, 1, 2)).reshape(logical)
    width = stored.shape[-1]
    matrix = stored.reshape(-1, width)[:math.prod(logical[:-1]), :logical[-1]]
    return np.ascontiguousarray(matrix).reshape(logical)


def from_blocked(stored: np.ndarray, logical: tuple[int, ...]) -> np.ndarray:
    """Convert ``[N/batch][H][W][batch][Cpad]`` to `logical`: NCHW, or N and its flattened CHW."""
    groups, height, width, batch, padded = stored.shape
    nchw = stored.transpose(0, 3, 4, 1, 2).reshape(groups * batch, padded, height, width)
    channels = math.prod(logical[1:]) // (height * width)
    return np.ascontiguousarray(nchw[:logical[0], :channels]).reshape(logical)


def pack_weights(weights: np.ndarray, x: Activation, blocks: Blocks, pad: int = 0) -> np.ndarray:
    """Pack [Co][Ci][kh][kw] as [co][kh][kw][ci][block_out][block_in], padded with a number."""
    outputs, inputs, kh, kw = weights.shape
    padded = np.full((blocks.padded(outputs), blocks.read(x.c), kh, kw), pad, weights.dtype)
    padded[:outputs, :inputs] = weights
    cut = padded.reshape(-1, blocks.block_out, padded.shape[1] // blocks.block_in,
                         blocks.block_in, kh, kw)
    return np.ascontiguousarray(cut.transpose(0, 4, 5, 2, 1, 3))


def pack_windows(weights: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Pack [Co][Ci][kh][kw] as [co][1][1][block of the window][block_out][block_in], where a
    window is [kh][kw][Ci] without gaps, padded with zeros.
    """
    windows = weights.transpose(0, 2, 3, 1).reshape(len(weights), -1)
    size = blocks.block_in
    padded = np.zeros((blocks.padded(len(weights)), -(-windows.shape[1] // size) * size),
                      weights.dtype)
    padded[:len(windows), :windows.shape[1]] = windows
    cut = padded.reshape(-1, blocks.block_out, padded.shape[1] // size, size)
    return np.ascontiguousarray(cut.transpose(0, 2, 1, 3))[:, None, None]


def least_bits(array: np.ndarray, allowed: Sequence[int]) -> int:
    """The fewest of the allowed bits that hold every int8 element of an array, 8 among them."""
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    return min(bits for bits in allowed if -(1 << bits - 1) <= low and high < 1 << bits - 1)


def pack_elements(array: np.ndarray, bits: int) -> np.ndarray:
    """The bytes of int8 elements in so many bits each, the first in the lowest bits of a byte."""
    groups = array.reshape(-1, 8 // bits).view(np.uint8) & (1 << bits) - 1
    return np.bitwise_or.reduce(groups << np.arange(0, 8, bits, dtype=np.uint8), axis=1)


def pack_params(bias, mult, shift, channels: int, blocks: Blocks) -> np.ndarray:
    """Pack records of bias, multiplier and shift."""
    return pack_records(PARAM, {"bias": bias, "mult": mult, "shift": shift}, channels, blocks)


def pack_records(record: str, fields: Mapping[str, Any], channels: int, blocks: Blocks
                 ) -> np.ndarray:
    """Pack records [co][block_out]. Scalars apply to every channel; padding channels are zero."""
    packed = np.zeros(blocks.padded(channels), numpy_dtype(record))
    for name, values in fields.items():
        packed[name][:channels] = values
    return packed.reshape(-1, blocks.block_out)


def pack_pixel_params(bias, mult, shift, blocks: Blocks) -> np.ndarray:
    """Pack records [H][W][block_out] from multipliers and shifts [H][W]."""
    packed = np.zeros((*mult.shape, blocks.block_out), numpy_dtype(PARAM))
    for name, values in (("bias", bias), ("mult", mult), ("shift", shift)):
        packed[name] = np.asarray(values)[..., None]
    return packed


def stored_bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of an array in memory (uint8); the padding of records is zero.

    NumPy copies only the fields of a record: its padding would be whatever memory held before.
    """
    if array.dtype.names is None:
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    clean = np.zeros(array.shape, array.dtype)
    for name in array.dtype.names:
        clean[name] = array[name]
    return clean.reshape(-1).view(np.uint8)
