"""A command as it was asked: its words, its options as parsed, the files that it reads."""

import argparse
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accel.machine.machine import Machine
from compiler.errors import RequestError
from lockstep.options.paths import ModelFile, OutputFile, OutputFolder, PictureFolder, files_read
from lockstep.provenance.made import made

NO_OPTIONS = ("run", "perform", "parse", "words", "files_then", "no_cache", "db", "waves")
"""What the command line leaves among the arguments for itself, and what no result depends on."""

MADE = "provenance/made"


@dataclass(frozen=True)
class Asked:
    """A request, as it was when the command began.

    Parameters
    ----------
    words : the command line behind ``lockstep``.
    options : all options that have a value, by default too, without files that are written.
    files : SHA-256 of each file that is read, by the name that it was given; weights beside a
        network and all parts of a machine's package included. None for what is no regular file.
    """

    words: Sequence[str]
    options: Mapping[str, Any]
    files: Mapping[str, str | None]

    @classmethod
    def of(cls, args: argparse.Namespace, networks: Mapping[str, Path] | None = None) -> "Asked":
        """The request of parsed arguments; `networks` are those that they name as texts.

        Raises RequestError where a file is not as ``args.files_then`` says, which `reproduce` sets.
        """
        given = {name: value for name, value in vars(args).items()
                 if name not in NO_OPTIONS and value is not None
                 and not isinstance(value, OutputFile | OutputFolder | PictureFolder)}
        read = [*files_read(given), *files_read(_models(networks or {}))]
        files = {title: _digest(path) for title, path in read if not os.path.isdir(path)}
        _require_same(files, getattr(args, "files_then", {}))
        return cls([*args.words], {name: _plain(value) for name, value in given.items()}, files)

    def provenance(self, machines: Mapping[str, Machine | None], measured: Iterable[str] = ()
                   ) -> dict[str, Any]:
        """All that results follow from; JSON-serializable.

        `measured` names what the next run may find otherwise: paths of keys with ``/`` between
        them, ``*`` for any key or place, to which `made` is added.
        """
        return {
            "command": [*self.words], "options": {**self.options}, "files": {**self.files},
            "seeds": {name: value for name, value in self.options.items()
                      if name.endswith("seed") and value is not None},
            "machines": {name: _machine(machine) for name, machine in machines.items() if machine},
            "made": made(), "measured": [*measured, MADE]}


def _models(networks: Mapping[str, Path]) -> dict[str, ModelFile]:
    models = {name: ModelFile(path) for name, path in networks.items()}
    for name, model in models.items():
        model.name_given = name
    return models


def _require_same(files: Mapping[str, str | None], then: Mapping[str, str | None]) -> None:
    for name, digest in then.items():
        if digest is None:
            raise RequestError(f"{name!r} must be a regular file, which can be read again")
        if files.get(name) != digest:
            raise RequestError(f"{name!r} must have the SHA-256 {digest}, as when the results were "
                               f"made, not {files.get(name)}")


def _digest(path: str | os.PathLike[str]) -> str | None:
    """The SHA-256 of a file; None for a pipe or the like, which can be read once, and for what the
    command will refuse.
    """
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _machine(machine: Machine) -> dict[str, Any]:
    return {"hash": machine.hash, "clock_mhz": machine.config.clock_mhz,
            "memory": asdict(machine.config.memory)}


def _plain(value: Any) -> Any:
    """An option as JSON has it; a network is what the user has called it."""
    if isinstance(value, ModelFile):
        return value.title
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    return value if isinstance(value, bool | int | float | None) else str(value)
