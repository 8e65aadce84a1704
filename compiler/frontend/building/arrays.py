"""Files of arrays, .npz and .npy, judged by their headers before anything large is read.

A header is at most `LARGEST_HEADER` bytes; what it promises counts against the memory that a
network may take. Zip archives may be stored or deflated, as NumPy writes them.
"""

import ast
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from os import PathLike, fspath
from typing import IO, Any

import numpy as np

from compiler.errors import Error
from compiler.graph.graph import MOST_DIMENSIONS
from compiler.graph.room import require_bytes

LARGEST_HEADER = 10_000
MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK"
ENCRYPTED = 0x41                # flags of a zip member
CHUNK = 1 << 20


class ArraysRefused(Error, ValueError):
    """A file that holds no arrays, or not what it says; the message is one line."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of an array in a file. says of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran_order: bool

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


class ArrayFile(Mapping[str, np.ndarray]):
    """The arrays of an .npz archive by name, each read when it is asked for; `headers` says what
    they are. Raises ArraysRefused, and RoomRefused where they are too large together.
    """

    def __init__(self, path: str | PathLike[str]):
        self.path = fspath(path)
        self.headers: dict[str, Header] = {}
        with _refusing(self.path), zipfile.ZipFile(self.path) as archive:
            for info in archive.infolist():
                name = _name(info)
                if name in self.headers:
                    raise ValueError(f"{name[:50]!r} is there twice")
                with archive.open(info) as file:
                    self.headers[name] = _header(file)
        require_bytes(sum(header.size_bytes for header in self.headers.values()),
                      f"{self.path!r}, all arrays together,")

    def __iter__(self) -> Iterator[str]:
        return iter(self.headers)

    def __len__(self) -> int:
        return len(self.headers)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.headers:
            raise KeyError(name)
        with _refusing(self.path), zipfile.ZipFile(self.path) as archive, \
                archive.open(f"{name}.npy") as file:
            return _array(file)


def array_shapes(arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each array; those of a file are not read for that."""
    if isinstance(arrays, ArrayFile):
        return {name: header.shape for name, header in arrays.headers.items()}
    return {name: np.shape(array) for name, array in arrays.items()}


def read_arrays(path: str | PathLike[str]) -> ArrayFile | np.ndarray:
    """Reads an .npz archive, or the array of an .npy file. Raises what ArrayFile raises."""
    with _refusing(fspath(path)), open(path, "rb") as file:
        start = file.read(len(MAGIC))
        if start == MAGIC:
            file.seek(0)
            header = _header(file)
            require_bytes(header.size_bytes, f"{fspath(path)!r}")
            file.seek(0)
            return _array(file)
        if not start.startswith(ZIP_MAGIC):
            raise ValueError("it begins as neither")
    return ArrayFile(path)


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Error:
        raise
    # The later ones are what zipfile lets through for headers that make no sense.
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError,
            RuntimeError, struct.error, LookupError, OverflowError, MemoryError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ArraysRefused(f"{path!r} must be an .npz archive or an .npy array of numbers: "
                            f"{' '.join((reason or type(error).__name__).split())[:200]}"
                            ) from None


def _name(info: zipfile.ZipInfo) -> str:
    name, suffix = os.path.splitext(info.filename)
    if suffix != ".npy":
        raise ValueError(f"its member {info.filename[:50]!r} is no array")
    if info.flag_bits & ENCRYPTED:
        raise ValueError(f"{name[:50]!r} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name[:50]!r} is compressed by method {info.compress_type}, which NumPy "
                         "does not write")
    return name


def _header(file: IO[bytes]) -> Header:
    start = file.read(8)
    if start[:6] != MAGIC or start[6:] not in (b"\1\0", b"\2\0"):
        raise ValueError("it has no array of format 1 or 2 of NumPy")
    form = "<H" if start[6] == 1 else "<I"
    length, = struct.unpack(form, file.read(struct.calcsize(form)))
    if length > LARGEST_HEADER:
        raise ValueError(f"a header must have {LARGEST_HEADER:,} bytes at most, not {length:,}")
    try:
        told = ast.literal_eval(file.read(length).decode("latin1"))
        return _checked(told)
    except (SyntaxError, TypeError, KeyError, RecursionError, MemoryError, OverflowError,
            AttributeError):
        raise ValueError("a header makes no sense") from None


def _checked(told: Mapping[str, Any]) -> Header:
    shape, order = told["shape"], told["fortran_order"]
    dtype = np.dtype(told["descr"]) if isinstance(told["descr"], str) else None
    if dtype is None or dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"an array must hold numbers, not {str(told['descr'])[:50]}")
    if not isinstance(shape, tuple) or len(shape) > MOST_DIMENSIONS or any(
            type(extent) is not int or extent < 0 for extent in shape):
        raise ValueError(f"a shape must be at most {MOST_DIMENSIONS} extents of at least 0, "
                         f"not {str(shape)[:50]}")
    return Header(shape, dtype, bool(order))


def _array(file: IO[bytes]) -> np.ndarray:
    header = _header(file)
    data, filled = np.empty(header.size_bytes, np.uint8), 0
    while part := file.read(CHUNK):
        end = filled + len(part)
        if end > data.size:
            break
        data[filled:end] = np.frombuffer(part, np.uint8)
        filled = end
    if part or filled < data.size:
        raise ValueError("an array has more or less than its header says")
    order = "F" if header.fortran_order else "C"
    return data.view(header.dtype).reshape(header.shape, order=order)
