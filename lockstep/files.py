"""Files that are whole or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from compiler.errors import RequestError

__all__ = ["require_writable", "whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the body is through, and otherwise leaves
    no trace. What is no regular file, say ``/dev/stdout``, is written to as it is.

    Raises RequestError where it cannot be written.
    """
    special = _is_special(path)
    scratch = path if special else _scratch(path)
    try:
        with scratch.open("wb") as file:
            yield file
        if not special:
            scratch.replace(path)
    except OSError as error:
        raise _refusal(path, error) from None
    finally:
        if not special:
            scratch.unlink(missing_ok=True)


def require_writable(path: Path) -> None:
    """Raise RequestError where `whole_file` could not begin; `path` stays as it is."""
    if _is_special(path):
        return                          # opening it might already say something to somebody
    try:
        scratch = _scratch(path)
        scratch.open("wb").close()
        scratch.unlink()
    except OSError as error:
        raise _refusal(path, error) from None


def _is_special(path: Path) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)    # pathlib's raise for some names


def _scratch(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _refusal(path: Path, error: OSError) -> RequestError:
    return RequestError(f"{str(path)!r} cannot be written: {error.strerror or error}")
