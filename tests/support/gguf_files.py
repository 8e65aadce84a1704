"""GGUF files, written from the format's description."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CODES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30}
BLOCKS = {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34), "Q4_K": (256, 144),
          "Q6_K": (256, 210)}
"""Numbers and bytes."""
HALVES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q8_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}
"""Where a block has float16."""


def blocks(kind: str, count: int, rng) -> np.ndarray:
    """Random bytes of so many blocks, whose scales are small numbers."""
    found = rng.integers(0, 256, (count, BLOCKS[kind][1])).astype(np.uint8)
    for place in HALVES[kind]:
        found[:, place:place + 2] = rng.uniform(0.001, 0.01, (count, 1)).astype(
            np.float16).view(np.uint8)
    return found


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(given: Any) -> bytes:
    """A value behind its type."""
    if isinstance(given, str):
        return struct.pack("<I", 8) + text(given)
    if isinstance(given, float):
        return struct.pack("<If", 6, given)
    if isinstance(given, list):
        return struct.pack("<IIQ", 9, 8, len(given)) + b"".join(map(text, given))
    return struct.pack("<II", 4, given)


def write(path: Path, metadata: Mapping[str, Any],
          tensors: Mapping[str, tuple[tuple[int, ...], int, bytes]], version: int = 3) -> Path:
    """Writes tensors, each its shape, the code of its type, and its data."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(text(name) + value(given) for name, given in metadata.items())
    data = b""
    for name, (shape, code, bytes_) in tensors.items():
        data += bytes(-len(data) % 32)
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), code,
                                         len(data))
        data += bytes_
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def tensor(array: np.ndarray, kind: str = "F32") -> tuple[tuple[int, ...], int, bytes]:
    """An array stored as float32, or rounded by hand to Q4_0 or Q8_0."""
    if kind == "F32":
        return array.shape, CODES[kind], array.astype(np.float32).tobytes()
    cut = array.reshape(-1, 32)
    if kind == "Q8_0":
        scale = (np.abs(cut).max(axis=1, keepdims=True) / 127).astype(np.float16)
        stored = np.rint(cut / scale).astype(np.int8).view(np.uint8)
    else:
        scale = (np.abs(cut).max(axis=1, keepdims=True) / 8).astype(np.float16)
        steps = np.clip(np.rint(cut / scale), -8, 7).astype(np.int8) + 8
        stored = (steps[:, :16] | steps[:, 16:] << 4).astype(np.uint8)
    whole = np.concatenate([scale.view(np.uint8), stored], axis=1)
    return array.shape, CODES[kind], whole.tobytes()


LLAMA = {"general.architecture": "llama", "general.name": "little", "llama.context_length": 16,
         "llama.embedding_length": 64, "llama.block_count": 2, "llama.feed_forward_length": 96,
         "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
         "llama.rope.dimension_count": 16, "llama.rope.freq_base": 500.0,
         "llama.attention.layer_norm_rms_epsilon": 1e-3,
         "tokenizer.ggml.tokens": ["a", "b"]}
GPT = {"general.architecture": "gpt2", "gpt2.context_length": 16, "gpt2.embedding_length": 64,
       "gpt2.block_count": 2, "gpt2.feed_forward_length": 96, "gpt2.attention.head_count": 4,
       "gpt2.attention.layer_norm_epsilon": 1e-3}
