"""Products of matrices and tensors."""

from math import prod, sqrt

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.operators import matrix as onnx
from compiler.frontend.onnx.operators.matrix import product
from compiler.frontend.onnx.operators.normalization import plain_softmax
from compiler.frontend.pytorch.aten.registry import aten


@aten("linear")
def linear(t, x, weight, bias=None):
    """Reshapes the operand to two dimensions, so that the weight stays [outputs, inputs]."""
    operands = [operand for operand in (x, weight, bias) if operand is not None]
    if any(operand.dtype != "float32" for operand in operands) or x.rank < 2 or weight.rank != 2:
        result = product(t, x, weight.transpose(*reversed(range(weight.rank))))
        return result if bias is None else result + bias
    flat = x.reshape(prod(x.shape[:-1]), x.shape[-1])
    result = t.emit("dense", flat, *operands[1:], trans_b=1)
    return result.reshape(*x.shape[:-1], weight.shape[0])


@aten("addmm")
def addmm(t, x, a, b, *, beta=1, alpha=1):
    return onnx.gemm(t, a, b, x, alpha=alpha, beta=beta, transA=0, transB=0)


@aten("mm", "bmm", "matmul", "mv", "dot")
def matmul(t, a, b):
    return product(t, a, b)


@aten("baddbmm")
def baddbmm(t, x, a, b, *, beta=1, alpha=1):
    result = product(t, a, b)
    result = result if alpha == 1 else result * alpha
    return result + (x if beta == 1 else x * beta)


@aten("einsum")
def einsum(t, equation, tensors, *, path=None):
    return onnx.einsum(t, *tensors, equation=equation)


@aten("scaled_dot_product_attention")
def attention(t, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
              enable_gqa=False):
    """Softmax(q k^T scale + mask) v; a bool mask selects the scores that take part. The scores are
    scaled, not the query, so that the product reads the previous layer's result directly.
    """
    if dropout_p:
        raise NodeRefused("it drops attention at random in training mode; call eval() before "
                          "export")
    if enable_gqa:
        key, value = (_repeated(heads, query) for heads in (key, value))
    factor = 1 / sqrt(query.shape[-1]) if scale is None else scale
    scores = product(t, query, key.transpose(*range(key.rank - 2), key.rank - 1, key.rank - 2))
    scores = scores * factor
    if is_causal:
        attn_mask = t.constant(np.tril(np.ones(scores.shape[-2:], bool)))
    if attn_mask is None:
        return product(t, plain_softmax(scores, scores.rank - 1), value)
    if attn_mask.dtype != "bool":
        return product(t, plain_softmax(scores + attn_mask, scores.rank - 1), value)
    shown = plain_softmax(attn_mask.where(scores, -np.inf), scores.rank - 1)
    # a row that is masked entirely is 0 / 0 in torch, and zero here
    return product(t, attn_mask.expand(*shown.shape).where(shown, 0), value)


def _repeated(x: Value, query: Value) -> Value:
    """Repeats each head for all heads of the query that share it."""
    *outer, heads, length, width = x.shape
    times = query.shape[-3] // heads
    wide = x.reshape(*outer, heads, 1, length, width).expand(*outer, heads, times, length, width)
    return wide.reshape(*outer, heads * times, length, width)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(t, query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None,
                    scale=None):
    return attention(t, query, key, value, attn_mask, dropout_p, is_causal, scale=scale), None
