"""Checks the arguments of `lockstep.compile` and similar functions, by name, before anything is
computed.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import index
from os import PathLike
from types import UnionType
from typing import Any

from accel.mapping.plans.search import EFFORTS
from compiler.errors import ArgumentError
from compiler.graph.division.protocols import ACCEL, HOST
from runtime.pricing.link import Link

THREADS = (1, 2)


def require_kind(name: str, value: object, kind: type | UnionType, expected: str) -> None:
    if not isinstance(value, kind):
        raise ArgumentError(f"{name} must be {expected}, not {value!r}")


def require_path(path: object) -> None:
    require_kind("Path", path, str | PathLike, "text or a path")


def require_settings(*, integerize: Any, threads: Any, after: Any, cache: Any, pins: Any,
                     link: Any, strict: Any = False) -> None:
    """Checks the options of `runtime.compile_for` that are the same for every network."""
    for name, value in (("integerize", integerize), ("cache", cache), ("strict", strict)):
        require_kind(name, value, bool, "True or False")
    if type(threads) is not int or threads not in THREADS:
        raise ArgumentError(f"threads must be 1 or 2, not {threads!r}")
    if after is not None and not callable(after):
        raise ArgumentError(f"after must be a function of number, name and result, not {after!r}")
    require_kind("link", link, Link | None, "a runtime.Link")
    require_kind("pins", pins, Mapping | None, f"a mapping of names to {HOST!r} or {ACCEL!r}")


def require_effort(effort: Any) -> None:
    if type(effort) is not int or not 0 <= effort < len(EFFORTS):
        raise ArgumentError(f"effort must be 0 to {len(EFFORTS) - 1}, not {effort!r}")


def require_targets(pins: Mapping[str, Any] | None, targets: Collection[str]) -> None:
    """Raise ArgumentError for a pin to what is no target; the host and the accelerator always are.
    """
    known = tuple(dict.fromkeys((HOST, ACCEL, *targets)))
    for name, target in (pins or {}).items():
        if target not in known:
            raise ArgumentError(f"pins must be {' or '.join(map(repr, known))} by name, not "
                                f"{name!r}: {target!r}")


def archs_of(arch: Any) -> tuple[str, ...]:
    """The architectures of a text with commas, or of a sequence, each once."""
    names = arch.split(",") if isinstance(arch, str) else arch
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"arch must be a text such as 'sm_80,sm_90', or a list, not {arch!r}")
    return tuple(dict.fromkeys(name for name in names if name))


def shapes_of(shapes: Any) -> dict[str, int] | None:
    """The extents by name of symbolic dimension; None where there are none."""
    require_kind("shapes", shapes, Mapping | None, "a mapping of names to integers")
    try:
        extents = {name: index(extent) for name, extent in (shapes or {}).items()}
    except TypeError:
        raise ArgumentError(f"shapes must be integers by name, not {shapes!r}") from None
    return extents or None
