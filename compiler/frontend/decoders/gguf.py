"""GGUF files, version 2 and 3, little endian: metadata and tensors.

The format is that of ggml's docs/gguf.md: a header, keys with values, the names, extents, types and
places of tensors, and their data, aligned.
"""

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.decoders.blocks import READ, TYPES, BlockType
from compiler.frontend.decoders.sources import GPT, LLAMA, opened

Array = np.ndarray
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
TEXT, LIST = 8, 9
ALIGNMENT = 32
MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a file: `shape` with the last extent as the one whose numbers lie side by side,
    `start` from the beginning of the file."""

    shape: tuple[int, ...]
    kind: BlockType
    start: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A `WeightSource`: what a file holds. Data of tensors are read when they are asked for."""

    path: Path
    form: str
    data: mmap.mmap
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]
    pairs = True

    def told(self, key: str) -> Any:
        return self.metadata.get(self.titled(key))

    def titled(self, key: str) -> str:
        return f"{self.form}.{key}"

    def called(self, tensor: str) -> str:
        return tensor

    def read(self, tensor: str) -> Array:
        """A tensor as float32. Raises ImportRefused for a type that is not taken."""
        found = self.tensors[tensor]
        kind = found.kind
        if kind.read is None:
            taken = f"{', '.join(READ[:-1])} or {READ[-1]}"
            raise ImportRefused(f"{self.path}: tensor {tensor} must be of {taken}, not "
                                f"{kind.name}; quantize the file to one of these")
        if found.shape[-1] % kind.numbers:
            raise ImportRefused(f"{self.path}: rows of tensor {tensor} must be blocks of "
                                f"{kind.numbers} numbers, as {kind.name} has them, not "
                                f"{found.shape[-1]} numbers")
        size = prod(found.shape) // kind.numbers * kind.bytes
        if found.start + size > len(self.data):
            raise ImportRefused(f"{self.path}: ends before the data of tensor {tensor}; it is cut "
                                "off, fetch it again")
        blocks = np.frombuffer(self.data, np.uint8, size, found.start)
        return kind.read(blocks.reshape(-1, kind.bytes)).reshape(found.shape)


class _Reader:
    """Reads one thing after the other from `place` on."""

    def __init__(self, path: Path, data: mmap.mmap):
        self.path, self.data, self.place = path, data, 4

    def number(self, form: str) -> Any:
        (found,) = struct.unpack(f"<{form}", self.bytes(struct.calcsize(f"<{form}")))
        return found

    def bytes(self, count: int) -> bytes:
        if self.place + count > len(self.data):
            raise self.refused(f"ends within what is announced at byte {self.place}; it is cut "
                               "off, fetch it again")
        self.place += count
        return self.data[self.place - count:self.place]

    def text(self) -> str:
        return self.bytes(self.number("Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            inner, count = self.number("I"), self.number("Q")
            if inner == LIST:
                raise self.refused(f"must have no lists of lists, as before byte {self.place}")
            if inner in SCALARS:
                form = SCALARS[inner]
                return list(struct.unpack(f"<{count}{form}",
                                          self.bytes(count * struct.calcsize(f"<{form}"))))
            return [self.value(inner) for _ in range(count)]
        if kind not in SCALARS:
            raise self.refused(f"has a value of unknown type {kind} before byte {self.place}")
        return self.number(SCALARS[kind])

    def tensor(self) -> tuple[str, tuple[int, ...], BlockType, int]:
        name, rank = self.text(), self.number("I")
        if not 1 <= rank <= MOST_DIMENSIONS:
            raise self.refused(f"tensor {name} must have 1 to {MOST_DIMENSIONS} dimensions, not "
                               f"{rank}")
        extents = [self.number("Q") for _ in range(rank)]
        if min(extents) < 1:
            raise self.refused(f"tensor {name} must have extents of at least 1, not {extents}")
        code = self.number("I")
        kind = TYPES.get(code, BlockType(f"unknown type {code}"))
        return name, tuple(reversed(extents)), kind, self.number("Q")

    def refused(self, what: str) -> ImportRefused:
        return ImportRefused(f"{self.path}: {what}")


def read(path: Path) -> GgufFile:
    """The metadata of a file, and where its tensors lie. Raises ImportRefused for what is no such
    file, or one that is cut off.
    """
    data = opened(path)
    reader = _Reader(path, data)
    if data[:4] != b"GGUF":
        raise reader.refused("must be a GGUF file of little endian; convert it")
    version = reader.number("I")
    if version not in (2, 3):
        raise reader.refused(f"must be of version 2 or 3 of GGUF, not {version}; convert it")
    tensors, keys = reader.number("Q"), reader.number("Q")
    metadata = {}
    for _ in range(keys):
        name = reader.text()
        metadata[name] = reader.value(reader.number("I"))
    found = [reader.tensor() for _ in range(tensors)]
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise reader.refused(f"general.alignment must be at least 1, not {alignment!r}")
    form = metadata.get("general.architecture")
    if form not in (LLAMA, GPT):
        raise reader.refused(f"architecture must be {LLAMA} or {GPT}, not {form!r}; build the "
                             "network around the file's tensors, and export that to ONNX")
    begin = -(-reader.place // alignment) * alignment
    return GgufFile(path, form, data, metadata, {
        name: GgufTensor(shape, kind, begin + start) for name, shape, kind, start in found})
