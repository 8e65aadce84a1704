"""Names of networks in the place of files: ``digits``, ``resnet18``, ``resnet18@64``.

All commands that take a network take these names, and mean the same by them: the networks of
`lockstep.testing`, in int8 unless said otherwise, for 32 pixels, frames or tokens unless the name
ends in another number.
"""

import os
import re
from pathlib import Path

from compiler.errors import RequestError

SIZE = 32
"""Pixels, frames or tokens where a name says none."""

_NAME = re.compile(r"([A-Za-z]\w*)(?:@(\d+))?")


def may_be_name(text: str) -> bool:
    """A text without suffix or folder that is no file; `network_file` knows the names."""
    return _NAME.fullmatch(text) is not None and not os.path.lexists(text)


def network_file(text: str, size: int = SIZE, int8: bool = True) -> Path:
    """The file of a network by its name, which is built once and kept in the cache. `size` is that
    of names without a number. Raises RequestError for a name that no network has.
    """
    from lockstep.testing.models import DIGITS, DIGITS_FLOAT
    from lockstep.testing.zoo import NETWORKS

    name, extent = _parts(text)
    if name not in ("digits", *NETWORKS):
        raise RequestError(f"{text!r} must be a file that exists, or a network of "
                           f"lockstep.testing: digits, {', '.join(NETWORKS)}")
    if name != "digits":
        return _built(text, name, int(extent or size), int8)
    if extent:
        raise RequestError(f"{text!r} must be digits, whose images have one size")
    return DIGITS if int8 else DIGITS_FLOAT


def _parts(text: str) -> tuple[str, str | None]:
    found = _NAME.fullmatch(text)
    return (found[1], found[2]) if found else (text, None)


def _built(text: str, name: str, size: int, int8: bool) -> Path:
    from compiler.native import build_once, digest
    from compiler.tune.record import versions

    sources = versions(("compiler", "lockstep/testing"), ("numpy", "onnx"))
    file = f"{name}.onnx"
    key = digest([name, str(size), sources, *(() if int8 else ("float",))])
    return build_once("zoo", key, None,
                      lambda folder: _build(text, name, size, int8, folder / file)) / file


def _build(text: str, name: str, size: int, int8: bool, path: Path) -> None:
    from lockstep.testing.zoo import build

    try:
        model = build(name, size, int8=int8)
    except RequestError as error:
        raise RequestError(f"{text!r}: {error}") from None
    path.write_bytes(model.SerializeToString(deterministic=True))
