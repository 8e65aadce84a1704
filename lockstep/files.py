"""Files that are whole or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lockstep.errors import RequestError

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the body is through, and otherwise leaves
    no trace. What is no regular file, say ``/dev/stdout``, is written to as it is.

    Raises RequestError where it cannot be written.
    """
    special = path.exists() and not path.is_file()
    scratch = path if special else path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with scratch.open("wb") as file:
            yield file
        if not special:
            scratch.replace(path)
    except OSError as error:
        raise RequestError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None
    finally:
        if not special:
            scratch.unlink(missing_ok=True)
