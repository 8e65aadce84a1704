"""Weights of Core ML's files: in a package's own files, or in the messages of a network."""

import struct
from collections.abc import Sequence
from math import lcm, prod
from pathlib import Path
from typing import Any

import numpy as np

from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.building.values import NodeRefused

BLOB, SENTINEL = struct.Struct("<IIQQ"), 0xDEADBEEF
MODEL_PATH = "@model_path/"

DTYPES = {"FLOAT16": np.float16, "FLOAT32": np.float32, "FLOAT64": np.float64, "INT8": np.int8,
          "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8,
          "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "BOOL": np.bool_,
          "INT4": np.int8, "UINT1": np.uint8, "UINT2": np.uint8, "UINT3": np.uint8,
          "UINT4": np.uint8, "UINT6": np.uint8}
BITS = {"INT4": 4, "UINT1": 1, "UINT2": 2, "UINT3": 3, "UINT4": 4, "UINT6": 6}
"""Types whose elements are packed, each in a byte here."""


class PackagedWeights:
    """The files of weights in a package, each read when it is first asked for.

    A file has a header of 64 bytes. Each array has 64 bytes of its own, at the place that the
    program names: a sentinel, a type, a size in bytes, and the place of its elements.
    """

    def __init__(self, folder: Path):
        self.folder, self.files = folder, {}

    def array(self, name: str, offset: int, kind: str, shape: Sequence[int]) -> np.ndarray:
        data = self._file(name)
        sentinel, _, size, place = BLOB.unpack_from(data, offset)
        if sentinel != SENTINEL or size != _bytes(kind, shape):
            raise ValueError(f"weights at {offset} of {name} are not of {kind} and {tuple(shape)}")
        return elements(data[place:place + size], kind, shape)

    def _file(self, name: str) -> bytes:
        if name not in self.files:
            path = (self.folder / name.removeprefix(MODEL_PATH)).resolve()
            if not path.is_relative_to(self.folder.resolve()) or not path.is_file():
                raise ImportRefused(f"its weights {name!r} must lie beside it")
            self.files[name] = path.read_bytes()
        return self.files[name]


def elements(data: bytes, kind: str, shape: Sequence[int]) -> np.ndarray:
    """An array of these bytes of the file."""
    if kind not in BITS:
        return np.frombuffer(data, DTYPES[kind], prod(shape)).reshape(shape)
    array = unpacked(data, BITS[kind], prod(shape)).reshape(shape)
    return array if kind.startswith("U") else ((array ^ 8) - 8).view(np.int8)


def unpacked(data: bytes, bits: int, count: int, highest_first: bool = False) -> np.ndarray:
    """Unsigned numbers of up to 8 bits, packed in bytes from the lowest bit or the highest."""
    width = lcm(bits, 8) // 8           # bytes that whole numbers fill
    word = np.uint8 if width == 1 else np.uint64
    groups = np.frombuffer(data.ljust(-(-len(data) // width) * width, b"\0"), np.uint8).reshape(
        -1, width).astype(word)
    bytes_, numbers = (np.arange(0, 8 * width, step, dtype=word) for step in (8, bits))
    if highest_first:
        bytes_, numbers = bytes_[::-1], numbers[::-1]
    words = np.bitwise_or.reduce(groups << bytes_, axis=1)
    array = (words[:, None] >> numbers & word((1 << bits) - 1)).astype(np.uint8).reshape(-1)
    if array.size < count:
        raise ValueError(f"{len(data)} bytes hold no {count} numbers of {bits} bits")
    return array[:count]


def _bytes(kind: str, shape: Sequence[int]) -> int:
    bits = BITS.get(kind, 8 * np.dtype(DTYPES[kind]).itemsize)
    return -(-prod(shape) * bits // 8)


def decoded(weights: Any, shape: tuple[int, ...], outputs: int = 0) -> np.ndarray:
    """Weights of the file in this shape: float32, float16, or a few bits with a table, or with
    scales along the axis of outputs.
    """
    if len(weights.floatValue):
        return np.array(weights.floatValue, np.float32).reshape(shape)
    if weights.float16Value:
        return np.frombuffer(weights.float16Value, np.float16).astype(np.float32).reshape(shape)
    quantized = weights.quantization
    kind = quantized.WhichOneof("QuantizationType")
    if not weights.rawValue or kind is None or not 1 <= quantized.numberOfBits <= 8:
        raise NodeRefused("its weights must be float32, float16, or up to 8 bits with scales or a "
                          "table")
    steps = unpacked(weights.rawValue, quantized.numberOfBits, prod(shape),
                     highest_first=True).reshape(shape)
    if kind == "lookupTableQuantization":
        return np.array(quantized.lookupTableQuantization.floatValue, np.float32)[steps]
    along = [-1 if axis == outputs else 1 for axis in range(len(shape))]
    scale, bias = (np.array(numbers or [default], np.float32).reshape(along)
                   for numbers, default in ((list(quantized.linearQuantization.scale), 1),
                                            (list(quantized.linearQuantization.bias), 0)))
    return steps.astype(np.float32) * scale + bias
