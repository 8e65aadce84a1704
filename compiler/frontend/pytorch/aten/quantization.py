"""Operators that quantize: `quantized_decomposed` of pt2e, `fake_quantize` of training, torchao's.

What they become is said in `quantizing.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.onnx.operators.matrix import product
from compiler.frontend.pytorch.aten.movement import to
from compiler.frontend.pytorch.aten.quantizing import (STEPS, Blocks, along, dequantized, extrema,
                                                       quantized)
from compiler.frontend.pytorch.aten.registry import aten, refuse
from compiler.te import is_float

PT2E = "quantized_decomposed::"


def _integer(number: Any) -> int:
    """A bound, which some overloads have as a tensor."""
    return number.tracer.integer(number, "bound") if isinstance(number, Value) else number


def _slices(x: Value, axis: int) -> tuple[int, ...]:
    return along(x, axes_of((axis,), x.rank)[0])


def _rows(x: Value) -> tuple[int, ...]:
    return (*(1,) * (x.rank - 1), x.shape[-1])


def _groups(x: Value, size: int, scales: Value) -> tuple[int, int]:
    """A group that is longer than a row is the row."""
    if x.rank != 2:
        raise NodeRefused(f"its input must have 2 dimensions, not {x.rank}")
    return 1, min(size, x.shape[-1]) if scales.shape[-1] == 1 else size


# quantized_decomposed

@aten(f"{PT2E}quantize_per_tensor")
def quantize_per_tensor(t, x, scale, zero_point, quant_min, quant_max, dtype):
    return quantized(t, x.astype("float32"), scale, zero_point,
                     (_integer(quant_min), _integer(quant_max)), dtype)


@aten(f"{PT2E}dequantize_per_tensor")
def dequantize_per_tensor(t, q, scale, zero_point, quant_min, quant_max, dtype, *,
                          out_dtype="float32"):
    return dequantized(t, q, scale, zero_point, dtype=out_dtype)


@aten(f"{PT2E}quantize_per_channel")
def quantize_per_channel(t, x, scales, zero_points, axis, quant_min, quant_max, dtype):
    return quantized(t, x.astype("float32"), scales, zero_points, (quant_min, quant_max), dtype,
                     _slices(x, axis))


@aten(f"{PT2E}dequantize_per_channel")
def dequantize_per_channel(t, q, scales, zero_points, axis, quant_min, quant_max, dtype, *,
                           out_dtype="float32"):
    return dequantized(t, q, scales, _given(zero_points), _slices(q, axis), out_dtype)


@aten(f"{PT2E}quantize_per_token")
def quantize_per_token(t, x, scales, zero_points, quant_min, quant_max, dtype):
    return quantized(t, x, scales, zero_points, (quant_min, quant_max), dtype, _rows(x),
                     zero_is_rounded=True)


@aten(f"{PT2E}dequantize_per_token")
def dequantize_per_token(t, q, scales, zero_points, quant_min, quant_max, dtype, output_dtype):
    return dequantized(t, q, scales, zero_points, _rows(q), output_dtype)


@aten(f"{PT2E}quantize_per_channel_group")
def quantize_per_channel_group(t, x, scales, zero_points, quant_min, quant_max, dtype,
                               group_size=128):
    return quantized(t, x, scales, zero_points, (quant_min, quant_max), dtype,
                     _groups(x, group_size, scales), zero_is_rounded=True)


@aten(f"{PT2E}dequantize_per_channel_group")
def dequantize_per_channel_group(t, q, scales, zero_points, quant_min, quant_max, dtype,
                                 group_size=128, output_dtype="float32"):
    return dequantized(t, q, scales, _given(zero_points), _groups(q, group_size, scales),
                       output_dtype)


@aten(f"{PT2E}fake_quant_per_channel")
def fake_quant_per_channel(t, x, scales, zero_points, axis, quant_min, quant_max):
    return _quantized_and_back(t, x, scales.astype("float32"), zero_points.astype("int32"),
                               (quant_min, quant_max), _slices(x, axis))


@aten(f"{PT2E}convert_element_type", "prims::convert_element_type")
def convert_element_type(t, x, dtype):
    return to(t, x, dtype)


@aten(f"{PT2E}choose_qparams")
def choose_qparams(t, x, quant_min, quant_max, eps, dtype):
    low, high = extrema(t, x, None)
    scale = ((high - low) / (quant_max - quant_min)).maximum(eps)
    zero = (quant_min - t.emit("rint", low / scale)).maximum(quant_min).minimum(quant_max)
    return scale.reshape(1).astype("float64"), zero.reshape(1).astype("int64")


@aten(f"{PT2E}choose_qparams_symmetric")
def choose_qparams_symmetric(t, x, quant_min, quant_max, eps, dtype):
    low, high = extrema(t, x, None)
    scale = ((-low).maximum(high) / ((quant_max - quant_min) / 2)).maximum(eps)
    zero = t.constant(np.full(1, 128 if dtype == "uint8" else 0, np.int64))
    return scale.reshape(1).astype("float64"), zero


@aten(f"{PT2E}choose_qparams_per_token")
def choose_qparams_per_token(t, x, dtype):
    low, high = extrema(t, x, _rows(x))
    scales = (-low).maximum(high).maximum(1e-5) / 127
    return scales.astype("float64"), t.constant(np.zeros(scales.shape, np.int64))


@aten(f"{PT2E}choose_qparams_per_token_asymmetric",
      f"{PT2E}_choose_qparams_per_token_asymmetric_impl")
def choose_qparams_per_token_asymmetric(t, x, dtype):
    low, high = extrema(t, x, _rows(x))
    scale = ((high - low) / 255).maximum(float(np.finfo(np.float32).eps))
    below, above = low / scale, high / scale
    zero = ((below - 128) + (above + 127) > 0).where(-128 - below, 127 - above)
    zero = t.emit("rint", zero.maximum(-128).minimum(127))
    return scale.astype("float64"), zero.astype("int64")


# Fake quantization

@aten("fake_quantize_per_tensor_affine")
def fake_quantize(t, x, scale, zero_point, quant_min, quant_max):
    return _quantized_and_back(t, x, scale, zero_point, (quant_min, quant_max))


@aten("fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_with_mask(t, x, scale, zero_point, quant_min, quant_max):
    return fake_quantize(t, x, scale, zero_point, quant_min, quant_max), None


@aten("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_if_enabled(t, x, scale, zero_point, fake_quant_enabled, quant_min, quant_max):
    enabled = t.integer(fake_quant_enabled, "fake_quant_enabled")
    return fake_quantize(t, x, scale, zero_point, quant_min, quant_max) if enabled else x, None


@aten("_fake_quantize_learnable_per_tensor_affine")
def fake_quantize_learned(t, x, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    return fake_quantize(t, x, scale, _learned(t, zero_point, quant_min, quant_max), quant_min,
                         quant_max)


@aten("fake_quantize_per_channel_affine")
def fake_quantize_channels(t, x, scale, zero_point, axis, quant_min, quant_max):
    return _quantized_and_back(t, x, scale, zero_point, (quant_min, quant_max), _slices(x, axis))


@aten("fake_quantize_per_channel_affine_cachemask")
def fake_quantize_channels_with_mask(t, x, scale, zero_point, axis, quant_min, quant_max):
    return fake_quantize_channels(t, x, scale, zero_point, axis, quant_min, quant_max), None


@aten("_fake_quantize_learnable_per_channel_affine")
def fake_quantize_channels_learned(t, x, scale, zero_point, axis, quant_min, quant_max,
                                   grad_factor=1.0):
    return fake_quantize_channels(t, x, scale, _learned(t, zero_point, quant_min, quant_max), axis,
                                  quant_min, quant_max)


@aten("fused_moving_avg_obs_fake_quant")
def fake_quantize_observed(t, x, observer_on, fake_quant_on, running_min, running_max, scale,
                           zero_point, averaging_const, quant_min, quant_max, ch_axis,
                           per_row_fake_quant=False, symmetric_quant=False):
    if t.integer(observer_on, "observer_on"):
        raise NodeRefused("it observes the range of its input; call module.apply(torch.ao."
                          "quantization.disable_observer) before export")
    if not t.integer(fake_quant_on, "fake_quant_on"):
        return x
    return _quantized_and_back(t, x, scale, zero_point, (quant_min, quant_max),
                               _slices(x, ch_axis) if per_row_fake_quant else None)


def _learned(t, zero: Value, low: int, high: int) -> Value:
    return t.emit("rint", zero).maximum(low).minimum(high).astype("int32")


def _quantized_and_back(t, x: Value, scale: Any, zero: Any, bounds: tuple[int, int],
                        blocks: Blocks = None) -> Value:
    if not isinstance(scale, Value):
        scale = t.constant(np.float32(scale))
    limits = {dtype: np.iinfo(dtype) for dtype in STEPS}
    dtype = next((dtype for dtype, every in limits.items()
                  if every.min <= bounds[0] and bounds[1] <= every.max), "int32")
    steps = quantized(t, x, scale, zero, bounds, dtype, blocks,
                      zero_is_rounded=isinstance(zero, Value) and is_float(zero.dtype))
    return dequantized(t, steps, scale, zero, blocks, x.dtype)


# Tensors of quantized types, between a quantization and the way back

@dataclass(frozen=True, slots=True)
class QuantizedTensor:
    """A tensor of torch.quint8 or torch.qint8: its steps, and what they stand for."""

    steps: Value
    scale: Any
    zero: Any


@aten("quantize_per_tensor.default", "quantize_per_tensor.tensor_qparams")
def quantize_tensor(t, x, scale, zero_point, dtype):
    bounds, kind = _bounds(dtype.removeprefix("q"), None, None)
    return QuantizedTensor(quantized(t, x, scale, zero_point, bounds, kind), scale, zero_point)


@aten("dequantize.self")
def dequantize(t, x):
    if isinstance(x, Value):
        return x.astype("float32")
    return dequantized(t, x.steps, x.scale, x.zero)


# torchao

@aten("torchao::quantize_affine")
def quantize_affine(t, x, block_size, scale, zero_point, output_dtype, quant_min=None,
                    quant_max=None):
    bounds, dtype = _bounds(output_dtype, quant_min, quant_max)
    return quantized(t, x, scale, _given(zero_point), bounds, dtype, block_size)


@aten("torchao::dequantize_affine")
def dequantize_affine(t, q, block_size, scale, zero_point, input_dtype, quant_min=None,
                      quant_max=None, output_dtype="float32"):
    return dequantized(t, q, scale, _given(zero_point), block_size, output_dtype)


@aten("torchao::choose_qparams_affine")
def choose_qparams_affine(t, x, mapping_type, block_size, target_dtype, quant_min=None,
                          quant_max=None, eps=None, scale_dtype=None, zero_point_dtype=None,
                          keepdim=False):
    (low, high), _ = _bounds(target_dtype, quant_min, quant_max)
    least, greatest = extrema(t, x, block_size)
    scale, zero = _affine(t, mapping_type, least, greatest, low, high, eps)
    counts = [extent // size for extent, size in zip(x.shape, block_size, strict=True)]
    shape = counts if keepdim else [count for count, size in zip(counts, block_size, strict=True)
                                    if size == 1 or count > 1]
    return (scale.reshape(*shape).astype(scale_dtype or x.dtype),
            zero.reshape(*shape).astype(zero_point_dtype or "int32"))


def _affine(t, mapping: str, least: Value, greatest: Value, low: int, high: int,
            eps: float | None) -> tuple[Value, Value]:
    smallest = float(np.finfo(np.float32).tiny) if eps is None else eps
    if mapping == "ASYMMETRIC":
        scale = ((greatest - least) / (high - low)).maximum(smallest)
        return scale, (low - t.emit("rint", least / scale)).maximum(low).minimum(high)
    scale = (-least).maximum(greatest) / ((high - low) / 2) if mapping == "SYMMETRIC" else (
        least / low).maximum(greatest / high)
    scale = scale.maximum(smallest)
    return scale, t.constant(np.full(scale.shape, int((high + low + 1) / 2), np.float32))


def _given(zero: Value | None) -> Any:
    return zero if zero is not None and zero.size else 0


BITS = {**{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in range(1, 9)},
        **{f"uint{bits}": (0, (1 << bits) - 1) for bits in range(1, 9)}}


def _bounds(dtype: str, low: Any, high: Any) -> tuple[tuple[int, int], str]:
    """The bounds, and the type in bytes that has them."""
    every = BITS.get(dtype) or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    kind = dtype if dtype not in BITS else "uint8" if dtype.startswith("u") else "int8"
    return (int(every[0] if low is None else low), int(every[1] if high is None else high)), kind


# Products

@aten("_int_mm")
def integer_product(t, a, b):
    return product(t, a.astype("int32"), b.astype("int32"))


@aten("_weight_int8pack_mm")
def product_with_scales(t, x, weight, scales):
    return product(t, x, weight.astype(x.dtype).transpose(1, 0)) * scales.astype(x.dtype)


refuse("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu",
       "_weight_int4pack_mm_with_scales_and_zeros",
       why="its weight is packed for one kind of processor; export the module with weights that "
           "are not packed, such as those of torchao's IntxWeightOnlyConfig")
