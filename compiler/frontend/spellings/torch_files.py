"""The signs of torch.export's files: the operators that their text names, read without torch."""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler.frontend import kinds
from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.pytorch.files import tensors_of_torchao
from compiler.frontend.spellings.signs import FileSigns, Sign

TEXT = re.compile(r"(.*/)?(models/.*\.json|serialized_exported_program\.json)")
PREFIX = "torch.ops."


def read(path: Path) -> FileSigns:
    try:
        with zipfile.ZipFile(path) as archive:
            texts = [json.loads(archive.read(name)) for name in archive.namelist()
                     if TEXT.fullmatch(name)]
        tensors = [Sign(f"torchao.{name}", "constant") for name in tensors_of_torchao(path)]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ImportRefused(f"{path}: cannot be read: {error}") from None
    programs = [text for text in texts if isinstance(text, Mapping)]
    return FileSigns.of(kinds.TORCH,
                        [f"torch {program.get('torch_version', '')}" for program in programs],
                        [*tensors, *(Sign(target) for program in programs
                                     for target in _targets(program))])


def _targets(part: Any) -> Iterator[str]:
    """The operators' names wherever a node stands, those of bodies included."""
    if isinstance(part, Mapping):
        target = part.get("target")
        if isinstance(target, str) and "inputs" in part:
            yield target.removeprefix(PREFIX)
        for below in part.values():
            yield from _targets(below)
    elif isinstance(part, list):
        for below in part:
            yield from _targets(below)
