"""Arguments that name files, and checks of all of them before a command begins.

The classes below tell what a command does with a file; `require_files` finds them among its
arguments, so that no command lists its files a second time.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path, PosixPath
from typing import Any

from compiler.errors import RequestError
from compiler.files import is_stream, require_writable
from lockstep.options.network_files import may_be_name, network_file

DUMPED = re.compile(r"\d\d+-.*\.txt")
"""The files that `compiler.graph.passes.pipeline.dump_into` writes into its folder."""


class InputFile(PosixPath):
    """A file to read."""


class ModelFile(InputFile):
    """A network to read, with the files of its weights; or its name, which `find_networks` makes a
    file. `title` is what the user has called it.
    """

    name_given = ""

    @property
    def title(self) -> str:
        return self.name_given or str(self)


class FloatModelFile(ModelFile):
    """A network whose name stands for the one in float."""


class OutputFile(PosixPath):
    """A file to write. `title` is what the user has called it."""

    name_given = ""

    @property
    def title(self) -> str:
        return self.name_given or str(self)


class OutputFolder(PosixPath):
    """A folder for the network after each pass."""


class PictureFolder(PosixPath):
    """A folder to write pictures into, which is made if there is none."""


class FileName(str):
    """A text that names a file to read."""

    def files(self) -> list[str]:
        return [self]


class FunctionName(FileName):
    """A function of a file: ``FILE.py:NAME``."""

    def files(self) -> list[str]:
        return [self.rpartition(":")[0]] if ":" in self else []


class MachineName(FileName):
    """A machine's name or file, or a target, in which machines stand behind ``accel:`` or
    ``auto:``.
    """

    def files(self) -> list[str]:
        """The files that say what the machines are; of a folder, all Python files."""
        names = re.split(",(?=accel:|accel$|accel,|cpu$|cpu,)", self.removeprefix("auto:"))
        files = [name.removeprefix("accel:") for name in names]
        return [*(file for file in files if file.endswith((".toml", ".py"))),
                *(str(path) for file in files if os.path.isfile(os.path.join(file, "__init__.py"))
                  for path in Path(file).rglob("*.py"))]


def known_name(text: str) -> str:
    """An argument that names a technology or a host; one that ends in ``.toml`` is a file to read.
    """
    return FileName(input_file(text)) if text.endswith(".toml") else text


def machine_name(text: str) -> MachineName:
    """An argument that names a machine. Raises RequestError for an empty one."""
    if not text:
        raise RequestError("--machine must name a machine, not ''")
    return MachineName(text)


def input_file(text: str) -> InputFile:
    """An argument that names a file to read. Raises RequestError if there is none."""
    if not os.path.isfile(text):                                # pathlib's raise for some names
        raise RequestError(f"{text!r} must be a file that exists")
    return InputFile(text)


def model_file(text: str) -> ModelFile:
    """An argument that names a network, possibly a pipe. Raises RequestError for a device, which
    may never end. The reader of the file refuses the rest.
    """
    try:
        mode = os.stat(text).st_mode
    except (OSError, ValueError):
        mode = stat.S_IFREG
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise RequestError(f"{text!r} must be a file, not a device")
    return ModelFile(text)


def float_model_file(text: str) -> FloatModelFile:
    """As `model_file`, of a network in float."""
    return FloatModelFile(model_file(text))


def find_networks(arguments: dict[str, Any]) -> None:
    """Replaces names of networks by their files, in float where samples are given to quantize
    them, or the command asks for that. Raises RequestError for unknown names.
    """
    int8 = not arguments.get("calibration")
    for name, value in arguments.items():
        if isinstance(value, ModelFile) and may_be_name(str(value)):
            own = int8 and not isinstance(value, FloatModelFile)
            file = type(value)(network_file(str(value), int8=own))
            file.name_given = str(value)
            arguments[name] = file


def output_file(text: str) -> OutputFile:
    """An argument that names a file to write. Raises RequestError if its folder is missing."""
    if os.path.isdir(text) or not os.path.isdir(os.path.dirname(text) or "."):
        raise RequestError(f"{text!r} must name a file in a folder that exists")
    return OutputFile(text)


def picture_folder(text: str) -> PictureFolder:
    """An argument that names a folder for pictures. Raises RequestError for a file, and if the
    folder above is missing.
    """
    if not (os.path.isdir(text) or os.path.isdir(os.path.dirname(text) or ".")
            and not os.path.lexists(text)):
        raise RequestError(f"{text!r} must name a folder, in a folder that exists")
    return PictureFolder(text)


def require_files(arguments: Mapping[str, Any]) -> None:
    """Raises RequestError where an output would overwrite an input or another output, also through
    links, and FileError where one cannot be written. Devices, pipes and files that are already
    open, such as ``/dev/stdout``, accept any number of outputs.
    """
    outputs = [(f"--{name.replace('_', '-')}", path) for name, path in _flat(arguments)
               if isinstance(path, OutputFolder)
               or isinstance(path, OutputFile) and not is_stream(path)]
    for (first, path), (second, other) in combinations(outputs, 2):
        if _meet(path, other) or _meet(other, path):
            raise RequestError(f"{first} {str(path)!r} and {second} {str(other)!r} must be "
                               f"different files")
    there = [(option, path) for option, path in outputs if os.path.exists(path)]
    for _, source in files_read(arguments) if there else ():
        for option, path in there:
            if _meet(path, source):
                raise RequestError(f"{option} {str(path)!r} must be another file than "
                                   f"{os.fspath(source)!r}, which is read")
    for _, value in _flat(arguments):
        if isinstance(value, OutputFile):
            require_writable(value)


def _flat(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in arguments.items():
        several = value if isinstance(value, list | tuple) else [value]
        yield from ((name, element) for element in several)


def files_read(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str | os.PathLike[str]]]:
    """The files that these arguments read: what each is called, and its path."""
    for _, value in _flat(arguments):
        if isinstance(value, InputFile):
            yield value.title if isinstance(value, ModelFile) else str(value), value
        if isinstance(value, ModelFile) and (os.path.isfile(value) or os.path.isdir(value)):
            from compiler.frontend.onnx.nodes.external import external_files    # no pipe is read

            yield from ((str(path), path) for path in external_files(value))
        if isinstance(value, FileName):
            yield from ((file, file) for file in value.files())


def _meet(path: OutputFile | OutputFolder, other: str | os.PathLike[str]) -> bool:
    """True if writing `path` overwrites the file at `other`."""
    real, place = os.path.realpath(path), os.path.realpath(other)
    if real == place:
        return True
    if isinstance(path, OutputFolder):
        return os.path.dirname(place) == real and bool(DUMPED.fullmatch(os.path.basename(place)))
    try:
        return os.path.samefile(real, place)
    except (OSError, ValueError):       # one of them does not exist
        return False
