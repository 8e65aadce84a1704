"""Archives of arrays (.npz) with wrong or impossible content."""

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.support.spoiled.text import damage

__all__ = ["save_arrays", "spoiled_archive", "zeros_archive"]

Rng = np.random.Generator
Members = dict[str, bytes]
METHODS = (*(zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) * 4, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def spoiled_archive(rng: Rng, path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Writes an archive of the arrays with an error; returns its description."""
    action = int(rng.integers(8))
    name = str(rng.choice(list(arrays)))
    if action == 0:
        return _bomb(rng, path, name, arrays[name])
    members = {f"{one}.npy": _npy(array) for one, array in arrays.items()}
    what = ""
    if action <= 3:
        header, what = _header(rng, arrays[name])
        members[f"{name}.npy"] = header + arrays[name].tobytes()
    elif action == 4:
        other, what = _array(rng, arrays[name])
        members[f"{name}.npy"] = _npy(other)
    elif action == 5:
        what = _names(rng, members, f"{name}.npy")
    method = METHODS[int(rng.integers(len(METHODS)))]
    with zipfile.ZipFile(path, "w", method) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    if action == 6:
        return _of_zip(rng, path)
    if action == 7:
        data, what = damage(rng, path.read_bytes())
        path.write_bytes(data)
    return what


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def _npy_header(text: bytes, version: int = 1, length: int | None = None) -> bytes:
    length = len(text) if length is None else length
    if version == 1:
        length = min(length, 0xFFFF)        # as many as the field holds
    return (b"\x93NUMPY" + bytes([version, 0])
            + struct.pack("<H" if version == 1 else "<I", length) + text)


def _header(rng: Rng, array: np.ndarray) -> tuple[bytes, str]:
    """Replaces the header of the elements."""
    descr, order, shape = repr(array.dtype.str), "False", repr(array.shape)
    version, length = int(rng.choice([1, 1, 1, 2, 3, 9])), None
    action = int(rng.integers(6))
    if action <= 1:
        shape = str(rng.choice(SHAPES))
    elif action == 2:
        descr = str(rng.choice(TYPES))
    elif action == 3:
        order = str(rng.choice(["True", "1", "None", "'C'"]))
    elif action == 4:
        length = int(rng.choice([0, 1, 10, 65535]))
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if action == 5:
        text = str(rng.choice(TEXTS))
    what = f"header {text[:100]} version {version} length {length}"
    return _npy_header(text.encode() + b"\n", version, length), what


SHAPES = ("()", "(0,)", "(-1,)", "(1, 3, 256)", "(768,)", "(1 << 40,)", "(1099511627776,)",
          "(9223372036854775807, 9)", "(1" + "0" * 30 + ",)", "(1.0,)", "(True, 3, 16, 16)",
          "('a',)", "[1, 3, 16, 16]", "(" + "1," * 70 + ")", "(" * 200 + ")" * 200, "None",
          "(0, 9223372036854775807, 9223372036854775807)", "(1, 3, 16, 17)", "(2, 3, 16, 16)",
          "(1, 3, 16, 16, 1)", "(65536, 65536)", "(1, 3, 2147483648, 4)")
TYPES = ("'>f4'", "'<f8'", "'<f2'", "'|O'", "'|V4'", "'<U1'", "'|S4'", "'<M8[s]'", "'<c8'",
         "'|b1'", "'<i8'", "'<u4'", "'x'", "''", "None", "7", "[('a', '<f4')]", "[('a', '|O')]",
         "('<f4', 2)", "'<f4,<f4'", "('<f4', (2147483647,))", "'|V2147483647'", "'|S0'", "[]",
         "'<f4' * 10000")
TEXTS = ("", "{", "{}", "[]", "1", "(" * 5000, "[" * 5000 + "]" * 5000, "-" * 20000 + "1",
         "{'descr': '<f4'}", "__import__('os')", "{'shape': (1,), 'descr': '<f4', 'fortran_order': "
         "False, 'x': 1}", "{1: 2, 'a': 3}", "\x00" * 64, "é" * 100, "'" + "a" * 70000)


def _array(rng: Rng, array: np.ndarray) -> tuple[np.ndarray, str]:
    """Replaces elements, the type or the shape."""
    others = (array.astype(np.float64), array.astype(">f4"), array.astype(np.float16),
              array.astype(np.int64), array.astype(str), array[..., :0], array[None], array[0],
              np.asfortranarray(array), array * np.float32(np.nan), array * np.float32(1e38),
              np.repeat(array, 2, axis=0), array.reshape(-1), array.astype(np.complex64),
              np.zeros((1,) * 60, np.float32), array.astype("V4"), array > 0.5)
    with np.errstate(all="ignore"):
        other = others[int(rng.integers(len(others)))]
    return other, f"{other.dtype}{list(other.shape)}"


def _names(rng: Rng, members: Members, name: str) -> str:
    """Adds, removes or renames an array."""
    new = str(rng.choice(["other.npy", "x", "/x.npy", "../x.npy", "x.npy.npy", "é.npy", ".npy",
                          "a" * 1000 + ".npy", "x.npy/", "X.npy"]))
    action = int(rng.integers(3))
    if action == 0:
        del members[name]
    elif action == 1:
        members[new] = members.pop(name)
    else:
        members[new] = members[name]
    return f"{('without', 'renamed to', 'and also')[action]} {new[:40]!r}"


def _of_zip(rng: Rng, path: Path) -> str:
    """Changes a field in the zip's headers: the local ones, those of the directory, or both."""
    data = bytearray(path.read_bytes())
    field, offsets, numbers = FIELDS[int(rng.integers(len(FIELDS)))]
    number = int(rng.choice(numbers))
    for magic, offset in zip((b"PK\x03\x04", b"PK\x01\x02"), offsets, strict=True):
        place = data.find(magic)
        if place >= 0 and rng.random() < 0.8:
            struct.pack_into("<I" if field in LARGE else "<H", data, place + offset, number)
    path.write_bytes(data)
    return f"zip {field} {number}"


LARGE = ("crc", "compressed", "size")
FIELDS = (("version", (4, 6), (0, 63, 255, 65535)),
          ("flags", (6, 8), (1, 8, 9, 0x41, 0x800, 0xffff)),
          ("method", (8, 10), (0, 1, 8, 9, 12, 14, 93, 97, 99, 65535)), ("crc", (14, 16), (0, 1)),
          ("compressed", (18, 20), (0, 1, 0x7fffffff, 0xffffffff)),
          ("size", (22, 24), (0, 1, 0x7fffffff, 0xffffffff)),
          ("name length", (26, 28), (0, 1, 65535)), ("extra length", (28, 30), (1, 4, 65535)))


def _bomb(rng: Rng, path: Path, name: str, array: np.ndarray) -> str:
    """A small member of zeros that expands enormously; its header gives its size or not."""
    mebibytes = int(rng.choice([1, 300, 2000, 6000]))
    shape = [(mebibytes << 18,), array.shape, (1, 3, mebibytes << 10, 256)][int(rng.integers(3))]
    member = f"{name}.npy" if rng.random() < 0.7 else "other.npy"
    zeros_archive(path, member, shape, mebibytes)
    return f"{mebibytes} MiB of zeros as {member}{list(shape)}"


def zeros_archive(path: Path, member: str, shape: tuple[int, ...], mebibytes: int) -> None:
    """Writes an archive of one float32 member of zeros, a thousand times smaller than its content.
    """
    header = _npy_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n"
                         .encode())
    parts = []
    for data in (header, bytes(1 << 20)):
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        parts.append(deflate.compress(data) + deflate.flush(zlib.Z_FULL_FLUSH))
    _write_deflated(path, member.encode(), parts[0] + parts[1] * mebibytes + b"\x03\x00",
                    len(header) + (mebibytes << 20))


def _write_deflated(path: Path, name: bytes, body: bytes, size: int) -> None:
    """A zip archive of one member, without compressing gigabytes."""
    most = 0xffffffff
    extra = struct.pack("<HHQQ", 1, 16, size, len(body))
    common = struct.pack("<HHHHHIII", 45, 0, 8, 0, 33, 0, most, most)
    local = b"PK\x03\x04" + common + struct.pack("<HH", len(name), len(extra)) + name + extra
    entry = (b"PK\x01\x02" + struct.pack("<H", 45) + common
             + struct.pack("<HHHHHII", len(name), len(extra), 0, 0, 0, 0, 0) + name + extra)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry),
                                      len(local) + len(body), 0)
    path.write_bytes(local + body + entry + end)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Saves arrays as np.savez does, but with any name."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
