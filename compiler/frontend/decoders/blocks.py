"""Blocks of weights as GGUF files have them, as float32 numbers.

The formats are those of ggml (github.com/ggml-org/ggml, ggml-common.h and ggml-quants.c): a block
has scales of float16 and integers of few bits. A number is computed in float32 as ggml computes it:
scale times integer, less or more an offset.
"""

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class BlockType:
    """`numbers` lie in `bytes`; `read` gives the float32 [blocks, numbers] of uint8 [blocks,
    bytes]. Types without it are known by name and not read.
    """

    name: str
    numbers: int = 1
    bytes: int = 0
    read: Callable[[Array], Array] | None = None


def _half(blocks: Array, place: int) -> Array:
    """The float16 at this byte of each block, as float32 [blocks, 1]."""
    return blocks[:, place:place + 2].copy().view(np.float16).astype(np.float32)


def _nibbles(blocks: Array) -> Array:
    """The low halves of all bytes, then the high ones."""
    return np.concatenate([blocks & 15, blocks >> 4], axis=-1).astype(np.float32)


def _q4_0(blocks: Array) -> Array:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]) - 8)


def _q4_1(blocks: Array) -> Array:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]) + _half(blocks, 2)


def _q8_0(blocks: Array) -> Array:
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8)


def _q4_k(blocks: Array) -> Array:
    """Eight times 32 numbers; a pair of these shares 32 bytes. Their scales and offsets have six
    bits: those of the first four lie in eight bytes, of which the upper two bits are the upper ones
    of the last four.
    """
    first, second, third = (blocks[:, place:place + 4] for place in (4, 8, 12))
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    offsets = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    numbers = _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    whole = ((_half(blocks, 0) * scales)[..., None] * numbers
             - (_half(blocks, 2) * offsets)[..., None])
    return whole.reshape(len(blocks), -1)


def _q6_k(blocks: Array) -> Array:
    """Sixteen times 16 numbers, in halves of 128: lower halves of bytes, upper ones, two bits of
    each number in bytes of their own.
    """
    low = blocks[:, :128].reshape(-1, 2, 64)
    low = np.concatenate([low & 15, low >> 4], axis=2)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    numbers = (low | (high.reshape(-1, 2, 128) & 3) << 4).astype(np.float32) - 32
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8)
    return (scales[..., None] * numbers.reshape(-1, 16, 16)).reshape(len(blocks), -1)


def _as(dtype: type) -> Callable[[Array], Array]:
    return lambda blocks: blocks.view(dtype).astype(np.float32)


TYPES = {
    0: BlockType("F32", 1, 4, _as(np.float32)), 1: BlockType("F16", 1, 2, _as(np.float16)),
    2: BlockType("Q4_0", 32, 18, _q4_0), 3: BlockType("Q4_1", 32, 20, _q4_1),
    8: BlockType("Q8_0", 32, 34, _q8_0), 12: BlockType("Q4_K", 256, 144, _q4_k),
    14: BlockType("Q6_K", 256, 210, _q6_k), 30: BlockType("BF16", 1, 2, _as(ml_dtypes.bfloat16)),
    **{code: BlockType(name) for code, name in {
        6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 13: "Q5_K", 15: "Q8_K",
        16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
        22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
        29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"}.items()}}
"""By the number that files have for a type."""

READ = tuple(kind.name for kind in TYPES.values() if kind.read)
