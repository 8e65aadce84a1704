"""Quantized tensors of ML programs, and constants that are stored as fewer bits than they have.

Integers with one scale, or one for each slice along an axis, stay integers behind a dequantization,
so that layers of integers are found. All others become the constants that they stand for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.core_ml.registry import operation
from compiler.frontend.core_ml.weights import unpacked


@dataclass(frozen=True, slots=True)
class ScaledSteps:
    """A constant ``(steps - zero) * scale`` of bytes; parameters are one number, or one for each
    slice along the axis.
    """

    steps: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    axis: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.steps.shape

    @property
    def floats(self) -> np.ndarray:
        return (self.steps.astype(np.float32) - self._wide(self.zero)) * self._wide(self.scale)

    @property
    def turned(self) -> "ScaledSteps":
        """The transposed matrix."""
        return ScaledSteps(np.ascontiguousarray(self.steps.T), self.scale, self.zero, 1 - self.axis)

    def _wide(self, numbers: np.ndarray) -> np.ndarray:
        numbers = numbers.astype(np.float32)
        return numbers.reshape([-1 if place == self.axis else 1 for place in range(
            self.steps.ndim)]) if numbers.ndim else numbers


@operation("constexpr_affine_dequantize")
def affine_dequantize(op):
    data = np.asarray(op.known("quantized_data"))
    axis = op.integer("axis") % data.ndim
    counts = [data.shape[axis] if place == axis else 1 for place in range(data.ndim)]
    scale, zero = (np.asarray(op.known(name)) for name in ("scale", "zero_point"))
    scale, zero = (array.reshape(counts) if array.ndim else array.reshape([1] * data.ndim)
                   for array in (scale, zero))
    return shifted_and_scaled(data, scale, zero)


@operation("constexpr_blockwise_shift_scale")
def blockwise_shift_scale(op):
    return shifted_and_scaled(np.asarray(op.known("data")), *_parameters(op))


def _parameters(op) -> tuple[np.ndarray, np.ndarray]:
    scale = np.asarray(op.known("scale"))
    return scale, np.asarray(op.known("offset", np.zeros(scale.shape, np.int8)))


def shifted_and_scaled(data: np.ndarray, scale: np.ndarray, offset: np.ndarray
                       ) -> np.ndarray | ScaledSteps:
    """``(data - offset) * scale``, where parameters stand for blocks of the data."""
    offset = np.broadcast_to(offset, np.broadcast_shapes(offset.shape, scale.shape))
    scale = np.broadcast_to(scale, offset.shape)
    cut = [axis for axis, count in enumerate(scale.shape) if count > 1]
    slices = not cut or len(cut) == 1 and scale.shape[cut[0]] == data.shape[cut[0]]
    if slices and _in_bytes(data, scale, offset):
        shape = (-1,) if cut else ()
        return ScaledSteps(data, scale.astype(np.float32).reshape(shape),
                      offset.astype(data.dtype).reshape(shape), cut[0] if cut else 0)
    at = blocks_of(data.shape, scale.shape)
    return (data.astype(np.float32) - offset[at].astype(np.float32)) * scale[at].astype(np.float32)


def _in_bytes(data: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> bool:
    """True if a dequantization has such numbers."""
    if data.dtype not in (np.int8, np.uint8):
        return False
    every = np.iinfo(data.dtype)
    return bool(np.all((offset == np.rint(offset)) & (offset >= every.min) & (
        offset <= every.max) & (scale > 0) & np.isfinite(scale)))


def blocks_of(shape: Sequence[int], counts: Sequence[int]) -> tuple[np.ndarray, ...]:
    """The block of each element, as an index of one number for each block."""
    if len(shape) != len(counts) or any(
            count < 1 or extent % count for extent, count in zip(shape, counts, strict=True)):
        raise NodeRefused(f"its blocks {list(counts)} must divide the shape {list(shape)}")
    return np.ix_(*(np.arange(extent) // (extent // count)
                    for extent, count in zip(shape, counts, strict=True)))


# Tables

@operation("constexpr_lut_to_dense")
def table_to_dense(op):
    if op.has("shape"):                 # iOS 16: one table, packed indices
        table, shape = np.asarray(op.known("lut")), op.integers("shape")
        bits = max(table.size - 1, 1).bit_length()
        return table[unpacked(op.known("indices").tobytes(), bits, int(np.prod(shape)))].reshape(
            shape)
    return looked_up(np.asarray(op.known("indices")), np.asarray(op.known("lut")), _axis(op))


def _axis(op) -> int:
    return op.integer("vector_axis", 0)


def looked_up(indices: np.ndarray, tables: np.ndarray, axis: int) -> np.ndarray:
    """The vector of a table for each index, its elements side by side along the axis. Blocks of
    indices have tables of their own: ``[counts of blocks ..., entries, elements of a vector]``.
    """
    vectors = tables[(*blocks_of(indices.shape, tables.shape[:-2]), indices)]
    axis %= indices.ndim
    shape = list(indices.shape)
    shape[axis] *= tables.shape[-1]
    return np.moveaxis(vectors, -1, axis + 1).reshape(shape)


# Few elements that are not zero

@operation("constexpr_sparse_to_dense")
def sparse_to_dense(op):
    if not op.has("shape"):
        return dense(np.asarray(op.known("nonzero_data")), np.asarray(op.known("mask")))
    shape = op.integers("shape")        # iOS 16: a packed mask
    mask = unpacked(op.known("mask").tobytes(), 1, int(np.prod(shape)))
    return dense(np.asarray(op.known("nonzero_data")), mask.reshape(shape))


def dense(elements: np.ndarray, mask: np.ndarray) -> np.ndarray:
    whole = np.zeros(mask.shape, elements.dtype)
    whole[mask != 0] = elements
    return whole


@operation("constexpr_sparse_blockwise_shift_scale")
def sparse_blockwise_shift_scale(op):
    mask = np.asarray(op.known("data_mask"))
    scaled = shifted_and_scaled(dense(np.asarray(op.known("nonzero_data")), mask),
                                *_parameters(op))
    floats = scaled.floats if isinstance(scaled, ScaledSteps) else scaled
    return [mask, floats[mask != 0]]


@operation("constexpr_lut_to_sparse")
def table_to_sparse(op):
    mask, tables = (np.asarray(op.known(name)) for name in ("indices_mask", "lut"))
    indices = dense(np.asarray(op.known("indices_nonzero_data")), mask)
    wide = np.repeat(mask, tables.shape[-1], _axis(op))
    return [wide, looked_up(indices, tables, _axis(op))[wide != 0]]


@operation("constexpr_cast")
def constant_cast(op):
    return np.asarray(op.known("source_val")).astype(np.float32)


# Computed tensors

@operation("quantize", "dequantize")
def quantize(op):
    dtype = op.known("output_dtype") if op.type == "quantize" else op.dtype("input").name
    scale = np.asarray(op.known("scale"), np.float32)
    zero = np.asarray(op.known("zero_point", np.zeros(scale.shape)), dtype)
    name = "QuantizeLinear" if op.type == "quantize" else "DequantizeLinear"
    return op.node(name, [op.value("input"), op.write.constant(scale), op.write.constant(zero)],
                   axis=op.integer("axis", 0))
