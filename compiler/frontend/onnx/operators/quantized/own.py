"""Lockstep's own operators: quantizations of TensorFlow Lite, and what stands for instructions."""

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.onnx.nodes.maps import (OWN, QUANTIZED_MAP, QUANTIZED_TERMS,
                                               TERM_ATTRIBUTES)
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.quantized.linear import plain


@operator("QuantizeLinear", domain=OWN)
def quantize_linear_of_litert(t, x, scale, zero, *, litert):
    """The result of an operator of a TensorFlow Lite file
    (`compiler/graph/integerize/litert.py`)."""
    return plain(t, "quantizelinear", x, scale, zero, 1, zero.dtype, litert=litert)


@operator(QUANTIZED_MAP, domain=OWN)
def quantized_map(t, *inputs, function):
    if not isinstance(function, str):
        raise NodeRefused(f"function must be a text, not {function!r}")
    if not inputs or None in inputs:
        raise NodeRefused("must have inputs, none of them absent")
    return t.emit("quantized_map", *inputs, function=function)


@operator(QUANTIZED_TERMS, domain=OWN)
def quantized_terms(t, x, w, *, term, mult, shift, zp, lo, hi):
    if not isinstance(term, str) or not all(
            isinstance(number, int) for number in (mult, shift, zp, lo, hi)):
        raise NodeRefused(f"{', '.join(TERM_ATTRIBUTES)} must be a text and integers")
    return t.emit("quantized_terms", x, w, term=term, bias=0, mult=mult, shift=shift, zp=zp, lo=lo,
                  hi=hi)
