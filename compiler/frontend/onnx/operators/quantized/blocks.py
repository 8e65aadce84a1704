"""Weights with a scale for each block of a row, packed in bytes: com.microsoft's products and
lookups.

Where one scale for each row does as well, a weight is int8 with that scale; else it is a constant
of floats.
"""

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.onnx.nodes.registry import MICROSOFT, operator
from compiler.frontend.onnx.operators.matrix import product
from compiler.frontend.onnx.operators.quantized.linear import dequantize_linear
from compiler.frontend.onnx.operators.quantized.widening import widened


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(t, x, packed, scales, zero=None, groups=None, bias=None, *, K, N,
                  accuracy_level=0, bits=4, block_size, weight_prepacked=0):
    """`accuracy_level` says how inexact a runtime may be; the product is of floats."""
    if weight_prepacked:
        raise NodeRefused(f"weight_prepacked must be 0, not {weight_prepacked}: the weight must "
                          "be as the operator's documentation has it")
    count = -(-K // block_size)
    steps = unpacked(_bytes(t, packed, "weight").reshape(N, count, -1), bits)[..., :block_size]
    wide = steps.reshape(N, -1)[:, :K].astype(np.int16)
    points = _points(t, zero, N, count, bits)
    block = np.arange(K) // block_size if groups is None else t.demand(groups, "g_idx").reshape(-1)
    factors = t.demand(scales, "scales").reshape(N, count)
    weight = _by_blocks(t, wide, factors, points, block, packed.role)
    result = product(t, x, weight.astype(x.dtype))
    return result if bias is None else result + bias


def unpacked(array: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of so many bits in bytes, along the last axis; those in low bits come first."""
    if bits not in (2, 4, 8):
        raise NodeRefused(f"bits must be 2, 4 or 8, not {bits}")
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    each = array[..., None] >> shifts & np.uint8((1 << bits) - 1)
    return each.reshape(*array.shape[:-1], -1)


def _bytes(t, value: Value, role: str) -> np.ndarray:
    array = t.demand(value, role)
    if array.dtype != np.uint8:
        raise NodeRefused(f"its {role} must be uint8, not {array.dtype}")
    return array


def _points(t, zero: Value | None, rows: int, count: int, bits: int) -> np.ndarray:
    """The zero point of each block: the middle, packed numbers, or floats."""
    if zero is None:
        return np.full((rows, count), 1 << bits - 1, np.int16)
    array = t.demand(zero, "zero points")
    if array.dtype == np.uint8:
        return unpacked(array.reshape(rows, -1), bits)[:, :count].astype(np.int16)
    return array.reshape(rows, count)


def _by_blocks(t, steps: np.ndarray, scales: np.ndarray, points: np.ndarray, block: np.ndarray,
               role: str) -> Value:
    """The numbers [K,N], whose rows have the scales and the zero points of their block."""
    t.check_size(steps.shape, "float32")
    moved, factors = (steps - points[:, block]).T, scales[:, block].T
    whole = widened(moved, factors, 1)
    if whole is not None:
        return dequantize_linear(t, t.constant(whole[0], role), t.constant(whole[1]), axis=1)
    numbers = moved.astype(np.float32) * factors.astype(np.float32)
    return t.constant(numbers.astype(scales.dtype), role)


@operator("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(t, data, indices, scales, zero=None, *, bits=4, block_size=128,
                           gather_axis=0, quantize_axis=1):
    """Rows of the dequantized table; a place outside gives zeros."""
    table, points = t.demand(data, "data"), None if zero is None else t.demand(zero, "zero points")
    if table.dtype == np.uint8:
        table = unpacked(table, bits)
        points = np.array(1 << bits - 1) if points is None else unpacked(points, bits)
    factors = t.demand(scales, "scales")
    axis, = axes_of((quantize_axis,), table.ndim)
    t.check_size(table.shape, "float32")
    block = np.arange(table.shape[axis]) // (block_size or table.shape[axis])

    def spread(array: np.ndarray) -> np.ndarray:
        return np.take(array, block, axis).astype(np.float32) if array.ndim else array
    wide = table.astype(np.float32)
    if points is not None:
        wide = wide - spread(points)
    numbers = (wide * spread(factors)).astype(factors.dtype)
    place, = axes_of((gather_axis,), table.ndim)
    return _rows(t, numbers, indices, place, data.role)


def _rows(t, table: np.ndarray, indices: Value, axis: int, role: str) -> Value:
    """The slices at these places; one of zeros, behind them, is where places outside lead."""
    count = table.shape[axis]
    blank = np.zeros((*table.shape[:axis], 1, *table.shape[axis + 1:]), table.dtype)
    place = (indices < 0).where(indices + count, indices)
    inside = (place >= 0) & (place < count)
    filled = t.constant(np.concatenate([table, blank], axis), role)
    return t.emit("gather", filled, inside.where(place, count), axis=axis)
