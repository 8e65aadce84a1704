"""OpenVINO's FakeQuantize, which quantizes floats to so many numbers between two."""

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.quantized.linear import (dequantize_linear, positive,
                                                               quantize_linear)
from compiler.frontend.onnx.operators.quantized.qonnx import constant_of, type_of

NEAR = 1e-3
"""How far from an integer the step at 0 may be, in steps: ends are written in float32."""


@operator("FakeQuantize", domain="org.openvinotoolkit")
def fake_quantize(t, x, low, high, out_low, out_high, *, auto_broadcast="numpy", levels):
    """With one range, which has 0 among its steps, the integers from 0 to `levels` - 1."""
    if auto_broadcast != "numpy" or levels < 2:
        raise NodeRefused("auto_broadcast must be numpy and levels 2 or more, not "
                          f"{auto_broadcast} and {levels}")
    last, into, out = levels - 1, _steps(low, high, levels), _steps(out_low, out_high, levels)
    dtype = type_of(0, last) if into and out and not x.constant else None
    if into and out and dtype:
        bounded = t.emit("clip", x, lo=-into[1] * into[0], hi=(last - into[1]) * into[0])
        parameters = [(t.constant(np.float32(scale)), t.constant(np.array(zero, dtype)))
                      for scale, zero in (into, out)]
        return dequantize_linear(t, quantize_linear(t, bounded, *parameters[0]), *parameters[1])
    steps = t.emit("rint", ((x - low) / (high - low) * float(last)).maximum(0.0).minimum(
        float(last)))
    scale = (out_high - out_low) / float(last)
    zero = _zeros(out_low, scale)
    if steps.constant and zero is not None:
        return constant_of(t, t.demand(steps, "data"), scale, t.constant(zero), x.role)
    return steps * scale + out_low


def _steps(low: Value, high: Value, levels: int) -> tuple[float, int] | None:
    """The scale of a range and the number of its step at 0; None where it has none."""
    if not (low.constant and high.constant and low.size == high.size == 1):
        return None
    first, scale = low.reshape(), (high.reshape() - low.reshape()) / float(levels - 1)
    zero = _zeros(first, scale)
    if zero is None or not 0 <= zero < levels:
        return None
    return float(scale.tracer.demand(scale, "scale")), int(zero)


def _zeros(low: Value, scale: Value) -> np.ndarray | None:
    """The number of the step at 0 of each range; None where one has none."""
    if not low.constant or not positive(scale):
        return None
    t = low.tracer
    steps = -t.demand(low, "lower end").astype(np.float64) / t.demand(scale, "scale")
    zeros = np.rint(steps)
    return zeros.astype(np.float32) if np.all(np.abs(zeros - steps) < NEAR) else None
