"""Checkpoints: all that a training continues from, in one file that is whole or not there.

A file begins with a line, ``lockstep checkpoint 1 SHA256``, with the hash of all that follows: an
archive of NumPy's (.npz) with the arrays, and under `FACTS` all else, as JSON.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import Error
from compiler.files import whole_file

HEAD = b"lockstep checkpoint 1 "
FACTS = "facts of the training"


class CheckpointError(Error, ValueError):
    """A file that is no checkpoint, is not whole, or belongs to another training."""


def write_checkpoint(path: str | PathLike[str], arrays: Mapping[str, np.ndarray],
                     facts: Mapping[str, Any]) -> None:
    """Writes a checkpoint in the place of the one that is there. Whenever this is killed, or power
    fails, one of the two is whole. Raises FileError.
    """
    written = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    data = io.BytesIO()
    np.savez(data, **{_member(place): array for place, array in enumerate(arrays.values())},
             **{FACTS: np.concatenate([written]), "names": np.array([*arrays])})
    content = data.getbuffer()
    with whole_file(path, durable=True) as file:
        file.write(HEAD + hashlib.sha256(content).hexdigest().encode() + b"\n")
        file.write(content)


def read_checkpoint(path: str | PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the facts of a checkpoint. Raises CheckpointError."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    head, _, content = data.partition(b"\n")
    if not head.startswith(HEAD):
        raise CheckpointError(f"{str(path)!r} must be a checkpoint of lockstep train")
    if hashlib.sha256(content).hexdigest().encode() != head.removeprefix(HEAD):
        raise CheckpointError(f"{str(path)!r} is not whole: its content has another SHA-256 than "
                              "its first line says; begin from another checkpoint")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            names = stored["names"].tolist()
            arrays = {name: stored[_member(place)] for place, name in enumerate(names)}
            return arrays, json.loads(stored[FACTS].tobytes())
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{str(path)!r} must be a checkpoint of lockstep train: "
                              f"{error}") from None


def _member(place: int) -> str:
    return f"array {place}"
