"""The archive: its members, and checks that they are complete."""

import hashlib
import json
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from compiler.errors import Error
from compiler.te import numpy_dtype

from .schema import MANIFEST as MANIFEST_FIELDS
from .schema import require

FORMAT = "lockstep module"
VERSION = 4
MANIFEST, SEAL = "manifest.json", "manifest.sha256"
LARGEST_MANIFEST = 1 << 26
LONGEST_REASON = 120            # characters of what the module zipfile says
EPOCH = (1980, 1, 1, 0, 0, 0)
MAGIC = b"PK\x03\x04"


class ArtifactError(Error, ValueError):
    """A file that is no compiled module, is incomplete, or is for another version of Lockstep; the
    message is one line.
    """

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))


class Members:
    """Collects the members of an archive besides the manifest."""

    def __init__(self):
        self.data: dict[str, memoryview] = {}

    def add(self, name: str, data: bytes) -> str:
        self.data[name] = memoryview(data)
        return name

    def array(self, name: str, array: np.ndarray) -> dict[str, Any]:
        """Adds an array; returns the description by which `Container.array` finds it."""
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        self.data[name] = little.reshape(-1).view(np.uint8).data
        return {"member": name, "dtype": array.dtype.name, "shape": list(array.shape)}

    def table(self) -> dict[str, Any]:
        """The size and SHA-256 of each member."""
        return {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                for name, data in sorted(self.data.items())}


def write_archive(file: IO[bytes], manifest: Mapping[str, Any], members: Members) -> None:
    text = json.dumps({"format": FORMAT, "version": VERSION, **manifest,
                       "members": members.table()}, indent=1, allow_nan=False).encode()
    seal = f"{hashlib.sha256(text).hexdigest()}  {MANIFEST}\n".encode()
    everything = {**members.data, MANIFEST: memoryview(text), SEAL: memoryview(seal)}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(everything):
            info = zipfile.ZipInfo(name, EPOCH)
            info.create_system, info.external_attr = 3, 0o644 << 16
            with archive.open(info, "w", force_zip64=len(everything[name]) > 1 << 30) as member:
                member.write(everything[name])


class Container:
    """The manifest and the members of an archive, verified by their hashes."""

    def __init__(self, manifest: Mapping[str, Any], members: Mapping[str, bytes]):
        self.manifest, self._members = manifest, members

    def data(self, name: str) -> bytes:
        return self._members[name]

    def array(self, reference: Mapping[str, Any]) -> np.ndarray:
        """The array of this member, read-only."""
        raw, shape = self._members[reference["member"]], tuple(reference["shape"])
        dtype = numpy_dtype(reference["dtype"]).newbyteorder("<")
        if any(type(extent) is not int or extent < 0 for extent in shape) \
                or prod(shape) * dtype.itemsize != len(raw):
            raise ValueError(f"{reference['member']} has {len(raw)} bytes, not "
                             f"{reference['dtype']}{list(shape)}")
        array = np.frombuffer(raw, dtype).reshape(shape)
        return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def is_archive(path: Path) -> bool:
    """True if the file exists, is readable and begins like a zip archive."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


@contextmanager
def opened(path: Path) -> Iterator[Container]:
    """Yields the content of the file. Exceptions that wrong data causes in the body become an
    ArtifactError, as do errors of the archive.
    """
    try:
        yield _opened(path)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from None
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
            RecursionError) as error:
        raise ArtifactError(f"{path}: contradicts itself ({type(error).__name__}: {error}); "
                            "save it again") from error


def _opened(path: Path) -> Container:
    try:
        with zipfile.ZipFile(path) as archive:
            return _content(archive, os.stat(path).st_size)
    # The last three are what the module zipfile lets through for headers that make no sense.
    except (zipfile.BadZipFile, NotImplementedError, struct.error, EOFError) as error:
        reason = str(error)[:LONGEST_REASON]        # it may quote the file
        raise ArtifactError(f"is not a compiled module, or not all of one: {reason}; give a file "
                            "that `lockstep compile` has written") from None


def _content(archive: zipfile.ZipFile, size: int) -> Container:
    """Reads the members. Sizes are checked first: members are not compressed, so together they are
    no larger than the file.
    """
    infos = archive.infolist()
    known = {info.filename: info for info in infos}
    if MANIFEST not in known or SEAL not in known:
        raise ArtifactError("is a zip archive, but not a compiled module; give a file that "
                            "`lockstep compile` has written")
    if len(known) != len(infos) or sum(info.file_size for info in infos) > size or any(
            info.compress_type or info.flag_bits & 1 or info.file_size != info.compress_size
            for info in infos):
        raise ArtifactError("was altered: it has members that Lockstep does not write")
    if known[MANIFEST].file_size > LARGEST_MANIFEST:
        raise ArtifactError(f"was altered: its manifest has {known[MANIFEST].file_size} bytes")
    manifest = _manifest(archive)
    members = {name: archive.read(name) for name in known if name not in (MANIFEST, SEAL)}
    _compare(manifest["members"], members)
    return Container(manifest, members)


def _manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    text = archive.read(MANIFEST)
    manifest = json.loads(text)
    if manifest["format"] != FORMAT:
        raise ArtifactError(f"is not a compiled module but a {manifest['format']!r}")
    if manifest["version"] != VERSION:
        raise ArtifactError(f"has version {manifest['version']!r} of the format, and this Lockstep "
                            f"reads {VERSION}; compile the network again")
    if archive.read(SEAL).split()[:1] != [hashlib.sha256(text).hexdigest().encode()]:
        raise ArtifactError("was altered: its manifest is not the one that was written")
    require(manifest, MANIFEST_FIELDS)
    return manifest


def _compare(wanted: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    for name in sorted({*wanted, *members}):
        if name not in members:
            raise ArtifactError(f"was altered: it lacks its member {name}")
        if name not in wanted:
            raise ArtifactError(f"was altered: {name} is no member of it")
        if hashlib.sha256(members[name]).hexdigest() != wanted[name]["sha256"]:
            raise ArtifactError(f"was altered: {name} is not what was written")
