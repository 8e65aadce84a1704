"""Sums of any term of an input and a weight: products of one's own on int8.

`qterms` sums ``term``, a text of `compiler/ops/integers/integer_text.py` over ``x0``, an element of
x, and ``x1``, one of a row of w: squares of differences, say. `quantized_terms` is the same between
quantizations: what the quantizer puts where a machine's instruction computes such sums
(docs/quantize.md).
"""

from typing import Any

import numpy as np

from compiler import te
from compiler.ops.families.integer_maps import HALVES
from compiler.ops.families.requantization import check_requantized, requantized, rescaled_array
from compiler.ops.integers.integer_text import INT8, computed, expression, operands, range_of
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator
from compiler.ops.records.rules import TypeRefused, Types, need, need_arity
from compiler.te import Expr, Tensor


def _type(node: Node, types: Types) -> TensorType:
    return _summed(node, types, "int8")


def _quantized_type(node: Node, types: Types) -> TensorType:
    return _summed(node, types, "uint8 int8")


def _summed(node: Node, types: Types, allowed: str) -> TensorType:
    need_arity(node, types, 2)
    x, w = types
    for name, type_, known in zip(node.inputs, types, (allowed.split(), [x.dtype]), strict=True):
        need(type_.dtype in known, node,
             f"input {name!r} must be {' or '.join(known)}, not {type_.dtype}")
    need(len(x.shape) >= 2 and len(w.shape) == 2 and x.shape[-1] == w.shape[1], node,
         f"inputs must be [...,K] and [N,K], not {x} and {w}")
    check_requantized(node)
    _check_term(node, w.shape[1])
    return TensorType((*x.shape[:-1], w.shape[0]), x.dtype)


def _check_term(node: Node, depth: int) -> None:
    term = node.attrs["term"]
    try:
        if operands(term) != {"x0", "x1"}:
            raise ValueError(f"term must read x0 and x1, not {term!r}")
        low, high = range_of(term, [INT8, INT8])
    except ValueError as reason:
        raise TypeRefused(f"{node.name}: {reason}") from None
    most = max(-low, high) * depth
    need(most < 2**31, node, f"sums of {depth} terms must fit int32, not reach {most}")


def _sums(attrs: Attributes, x: Tensor, w: Tensor, name: str) -> Tensor:
    k = te.reduce_axis(x.shape[-1], f"{name}_k")

    def terms(*indices: Expr) -> Expr:
        pair = (x[*indices[:-1], k.var], w[indices[-1], k.var])
        return te.sum(expression(attrs["term"], [
            each.astype("int32") - HALVES[each.dtype] for each in pair]).astype("int32"), k)

    return te.compute((*x.shape[:-1], w.shape[0]), terms, f"{name}_acc")


def _qterms(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` [...,K], ``w`` [N,K]; numbers without a sign are less half their range."""
    x, w = inputs
    acc, half = _sums(attrs, x, w, name), HALVES[x.dtype]
    return te.compute(acc.shape, lambda *indices: (
        requantized(attrs, acc[indices]).astype("int32") + half).astype(x.dtype), name)


def _meaning(attrs: Attributes, x: Array, w: Array) -> Array:
    half, rows = HALVES[x.dtype.name], np.empty((*x.shape[:-1], len(w)), np.int64)
    for place, row in enumerate(w):             # an array of all terms may be large
        rows[..., place] = computed(attrs["term"], [
            x.astype(np.int64) - half, row.astype(np.int64) - half]).sum(axis=-1)
    made = rescaled_array(attrs, rows.astype(np.float64)).astype(np.int64)
    return (made + half).astype(x.dtype)


_COMMON: dict[str, Any] = {
    "inputs": "x [...,K], w [N,K]", "attributes": "term: its text over x0, of x, and x1, of w; as "
                                                  "qrescale",
    "define": _qterms, "meaning": _meaning}

OPERATORS = (
    Operator(name="qterms", summary="sums of a term of int8 along the last axis", type=_type,
             numbers=Numbers.INTEGER, kind=Kind.COMPLEX, data_inputs=1,
             parameters=lambda parameters: (), **_COMMON),
    Operator(name="quantized_terms", summary="qterms of quantized tensors, which uint8 are as they "
                                             "are stored", type=_quantized_type,
             numbers=Numbers.CONVERSION, kind=Kind.COMPLEX, **_COMMON),
)
