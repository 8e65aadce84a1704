"""Weights of Core ML's files: in a package's own files, or in the messages of a network."""

import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.building.values import NodeRefused

BLOB, SENTINEL = struct.Struct("<IIQQ"), 0xDEADBEEF
MODEL_PATH = "@model_path/"


class PackagedWeights:
    """The files of weights in a package, each read when it is first asked for.

    A file has a header of 64 bytes. Each array has 64 bytes of its own, at the place that the
    program names: a sentinel, a type, a size in bytes, and the place of its elements.
    """

    def __init__(self, folder: Path):
        self.folder, self.files = folder, {}

    def array(self, name: str, offset: int, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
        data = self._file(name)
        sentinel, _, size, place = BLOB.unpack_from(data, offset)
        if sentinel != SENTINEL or size != prod(shape) * dtype.itemsize:
            raise ValueError(f"weights at {offset} of {name} are not of {dtype} and {tuple(shape)}")
        return np.frombuffer(data, dtype, prod(shape), place).reshape(shape)

    def _file(self, name: str) -> bytes:
        if name not in self.files:
            path = (self.folder / name.removeprefix(MODEL_PATH)).resolve()
            if not path.is_relative_to(self.folder.resolve()) or not path.is_file():
                raise ImportRefused(f"its weights {name!r} must lie beside it")
            self.files[name] = path.read_bytes()
        return self.files[name]


def decoded(weights: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Weights of the file in this shape: float32, float16, or 8 bits with scales."""
    if len(weights.floatValue):
        return np.array(weights.floatValue, np.float32).reshape(shape)
    if weights.float16Value:
        return np.frombuffer(weights.float16Value, np.float16).astype(np.float32).reshape(shape)
    quantized = weights.quantization
    if weights.rawValue and quantized.numberOfBits == 8 and quantized.HasField(
            "linearQuantization"):
        raw = np.frombuffer(weights.rawValue, np.uint8).astype(np.float32).reshape(shape)
        scale, bias = (np.array(numbers or [default], np.float32).reshape(
            -1, *[1] * (len(shape) - 1)) for numbers, default in (
                (list(quantized.linearQuantization.scale), 1),
                (list(quantized.linearQuantization.bias), 0)))
        return raw * scale + bias
    raise NodeRefused("its weights must be float32, float16, or 8 bits with scales")
