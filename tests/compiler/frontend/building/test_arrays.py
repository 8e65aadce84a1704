"""Files of arrays: their headers are judged before anything large is read."""

import io
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.spoiled.arrays import zeros_archive
from compiler.frontend.building.arrays import ArrayFile, ArraysRefused, read_arrays
from compiler.graph.room import RoomRefused

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def archive(path: Path, method: int = zipfile.ZIP_DEFLATED, /, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


def described(descr: str = "'<f4'", shape: str = "(3, 4)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


def saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("array", [
    X, X.T, X.astype(">f8"), X.astype(np.int8), X > 3, np.float32(3), X[:0], X.astype("S3"),
    X.astype(np.complex64)], ids=["plain", "fortran", "big endian", "int8", "bool", "scalar",
                                    "empty", "text", "complex"])
def test_what_numpy_writes_is_read(array: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=array, other=X)
    np.savez_compressed(tmp_path / "b.npz", x=array, other=X)
    np.save(tmp_path / "c.npy", array)
    for name in ("a.npz", "b.npz"):
        found = ArrayFile(tmp_path / name)
        assert list(found) == ["x", "other"] and len(found) == 2
        assert (found.headers["x"].shape, found.headers["x"].dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(found["x"], array)
    found = read_arrays(tmp_path / "c.npy")
    assert isinstance(found, np.ndarray) and found.flags.writeable
    np.testing.assert_array_equal(found, array)


def encrypted(path: Path) -> Path:
    """Says that it is, in the directory."""
    data = bytearray(path.read_bytes())
    data[data.find(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    return path


REFUSED = {
    "encrypted": (lambda path: encrypted(archive(path, **{"x.npy": saved(X)})),
                  "'x' is encrypted"),
    "method": (lambda path: archive(path, zipfile.ZIP_LZMA, **{"x.npy": saved(X)}),
               "'x' is compressed by method 14, which NumPy does not write"),
    "no array": (lambda path: archive(path, x=b"1"), "its member 'x' is no array"),
    "pickle": (lambda path: archive(path, **{"x.npy": npy(described("'|O'"))}),
               "an array must hold numbers, not |O"),
    "record": (lambda path: archive(path, **{"x.npy": npy(described("[('a', '<f4')]"))}),
               "an array must hold numbers, not [('a', '<f4')]"),
    "axes": (lambda path: archive(path, **{"x.npy": npy(described(shape=str((1,) * 70)))}),
             f"a shape must be at most 64 extents of at least 0, not {str((1,) * 70)[:50]}"),
    "negative": (lambda path: archive(path, **{"x.npy": npy(described(shape="(-1, 4)"))}),
                 "a shape must be at most 64 extents of at least 0, not (-1, 4)"),
    "sense": (lambda path: archive(path, **{"x.npy": npy("(" * 5000)}), "a header makes no sense"),
    "depth": (lambda path: archive(path, **{"x.npy": npy("-" * 9000 + "1")}),
              "a header makes no sense"),
    "long": (lambda path: archive(path, **{"x.npy": npy(" " * 20000)}),
             "a header must have 10,000 bytes at most, not 20,000"),
    "huge header": (lambda path: archive(path, **{"x.npy": npy("")[:8] + b"\xff\xff"}),
                    "a header must have 10,000 bytes at most, not 65,535"),
    "format": (lambda path: archive(path, **{"x.npy": b"1"}),
               "it has no array of format 1 or 2 of NumPy"),
    "little": (lambda path: archive(path, **{"x.npy": npy(described(), b"123")}),
               "an array has more or less than its header says"),
    "much": (lambda path: archive(path, **{"x.npy": npy(described(), b"1" * 49)}),
             "an array has more or less than its header says"),
    "no zip": (lambda path: path.write_bytes(b"PK1") and path, "File is not a zip file"),
    "other": (lambda path: path.write_bytes(b"no arrays") and path, "it begins as neither"),
    "folder": (lambda path: path.mkdir() or path, "Is a directory"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    make, reason = REFUSED[name]
    path = make(tmp_path / "a.npz")
    with pytest.raises(ArraysRefused) as refused:
        found = read_arrays(path)
        assert isinstance(found, ArrayFile) and found["x"] is not None
    assert str(refused.value) == (
        f"{str(path)!r} must be an .npz archive or an .npy array of numbers: {reason}")


@pytest.mark.parametrize(("shape", "size"), [("(1099511627776,)", "4,096.0"),
                                             ("(65536, 65536)", "16.0")])
def test_a_header_that_promises_too_much(shape: str, size: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", **{"x.npy": npy(described(shape=shape))})
    with pytest.raises(RoomRefused) as refused:
        read_arrays(path)
    assert str(refused.value) == (
        f"{str(path)!r}, all arrays together, takes {size} GiB of memory, and it may take 2; make "
        "its shapes smaller or set LOCKSTEP_MEMORY, in GiB")


@pytest.mark.parametrize("mebibytes", [1500, pytest.param(6000, marks=pytest.mark.slow)])
def test_a_bomb_takes_nothing(mebibytes: int, tmp_path: Path) -> None:
    """Zeros without end behind a header that is true, or is for twelve numbers."""
    code = ("import sys; from compiler.frontend.building.arrays import read_arrays\n"
            "from compiler.errors import Error\n"
            "from tests.support.memory import peak_bytes\n"
            "try: read_arrays(sys.argv[1])['x']\n"
            "except Error as error: print(error)\n"
            "print(peak_bytes() >> 20)")
    for shape in ((mebibytes << 18,), (3, 4)):
        path = tmp_path / "a.npz"
        zeros_archive(path, "x.npy", shape, mebibytes)
        if (shape[0], mebibytes) == (1500 << 18, 1500):
            continue                    # it is as large as it may be
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True,
                              text=True, check=True, preexec_fn=lambda: resource.setrlimit(
                                  resource.RLIMIT_AS, (3 << 30, 3 << 30)))
        said, peak = done.stdout.rsplit(maxsplit=1)
        assert said and int(peak) < 300
