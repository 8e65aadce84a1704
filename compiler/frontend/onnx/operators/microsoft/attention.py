"""com.microsoft's attention, and that of an int8 projection to queries, keys and values."""

from collections.abc import Sequence

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import MICROSOFT, operator
from compiler.frontend.onnx.operators.normalization import plain_softmax
from compiler.frontend.onnx.operators.quantized.between import Codes


@operator("Attention", domain=MICROSOFT)
def attention(t, x, weight, bias=None, mask=None, past=None, added=None, past_length=None, *,
              do_rotary=0, mask_filter_value=-10000.0, num_heads, past_present_share_buffer=0,
              qkv_hidden_sizes=None, scale=0.0, unidirectional=0):
    """Attention of a sequence to itself; `added` comes to the scores."""
    if do_rotary or past_present_share_buffer or past_length is not None:
        raise NodeRefused("do_rotary and past_present_share_buffer must be 0")
    sizes = tuple(qkv_hidden_sizes or (weight.shape[-1] // 3,) * 3)
    if (x.rank, weight.rank, weight.shape[-1]) != (3, 2, sum(sizes)) or any(
            size % num_heads for size in sizes):
        raise NodeRefused("its input must be [B,S,I] and its weight [I,3*H], H of "
                          f"{num_heads} heads, not {x} and {weight}")
    projected = t.emit("matmul", x, weight)
    projected = projected if bias is None else projected + bias
    query, key, value = _heads(projected, num_heads, sizes)
    if past is not None:
        key, value = (t.emit("concat", past.cut(0, part, part + 1).reshape(*past.shape[1:]), new,
                             axis=2) for part, new in enumerate((key, value)))
    factor = scale or 1 / float(np.sqrt(query.shape[3]))
    scores = t.emit("matmul", query, key.transpose(0, 1, 3, 2)) * factor
    if mask is not None:
        scores = scores + _told(mask, x.shape[0], key.shape[2], mask_filter_value)
    if unidirectional:
        scores = scores + _later(t, *scores.shape[2:])
    scores = scores if added is None else scores + added
    joined = t.emit("matmul", plain_softmax(scores, 3), value).transpose(0, 2, 1, 3)
    result = joined.reshape(*x.shape[:2], sizes[2])
    if len(t.outputs) < 2:
        return result
    return result, t.emit("concat", key.unsqueeze(0), value.unsqueeze(0), axis=0)


@operator("QAttention", domain=MICROSOFT)
def qattention(t, x, weight, bias, x_scale, weight_scale, mask=None, x_zero=None, weight_zero=None,
               past=None, *, do_rotary=0, mask_filter_value=-10000.0, num_heads,
               past_present_share_buffer=0, scale=0.0, unidirectional=0):
    numbers = (Codes(x, x_scale, x_zero).numbers(t),
               Codes(weight, weight_scale, weight_zero, axis=weight.rank - 1).numbers(t))
    return attention(t, *numbers, bias, mask, past, do_rotary=do_rotary, num_heads=num_heads,
                     mask_filter_value=mask_filter_value, scale=scale,
                     past_present_share_buffer=past_present_share_buffer,
                     unidirectional=unidirectional)


def _heads(projected: Value, heads: int, sizes: Sequence[int]) -> list[Value]:
    """Queries, keys and values, [B,heads,S,size/heads] each."""
    batch, length, _ = projected.shape
    ends = [sum(sizes[:part + 1]) for part in range(3)]
    return [projected.cut(2, end - size, end).reshape(batch, length, heads, size // heads
                                                      ).transpose(0, 2, 1, 3)
            for end, size in zip(ends, sizes, strict=True)]


def _later(t, length: int, total: int) -> Value:
    """Keeps each token from those behind it, where it is added to the scores."""
    behind = np.triu(np.ones((length, total), bool), total - length + 1)
    return t.constant(np.where(behind, np.finfo(np.float32).min, 0).astype(np.float32))


def _told(mask: Value, batch: int, total: int, low: float) -> Value:
    """Comes to the scores: `low` where a mask of tokens, or of pairs of them, is 0; or
    outside of what the ends of sequences, and perhaps their beginnings behind them, say.
    """
    t = mask.tracer
    if mask.rank not in (1, 2, 3) or mask.rank == 1 and mask.size not in (batch, 2 * batch):
        raise NodeRefused("its mask must be [B] or [2*B] of ends, then beginnings, [B,T] or "
                          f"[B,S,T], not {mask}")
    inside = mask > 0
    if mask.rank == 1:
        places = t.constant(np.arange(total, dtype=np.int32))
        ends, *begins = (mask.cut(0, part, part + batch).reshape(batch, 1)
                         for part in range(0, mask.size, batch))
        inside = places < ends
        for begin in begins:
            inside = inside & (places >= begin)
    added = inside.where(t.constant(np.float32(0)), t.constant(np.float32(low)))
    return added.reshape(added.shape[0], 1, *(1,) * (3 - added.rank), *added.shape[1:])
