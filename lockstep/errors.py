"""Arguments that name files: what is asked of them before a command begins."""

import os
from pathlib import Path

from compiler.errors import RequestError

__all__ = ["input_file", "output_file"]


def input_file(text: str) -> Path:
    """An argument that names a file to read. Raises RequestError if there is none."""
    path = Path(text)
    if not os.path.isfile(path):                                # pathlib's raise for some names
        raise RequestError(f"{text!r} must be a file that exists")
    return path


def output_file(text: str) -> Path:
    """An argument that names a file to write. Raises RequestError if its folder is missing."""
    path = Path(text)
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        raise RequestError(f"{text!r} must name a file in a folder that exists")
    return path
