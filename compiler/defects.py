"""Defects of Lockstep that a network meets: what is said of them, and which nodes are to blame.

A layer whose mapping fails inside goes to another target, and one line says so. Where defects are
errors (`strictly`, or LOCKSTEP_STRICT in the environment, as in tests) it is raised instead.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from compiler.errors import DEFECT, Error

SAID = "this is a defect, please report it"

_log = logging.getLogger(__name__)
_strict: ContextVar[bool] = ContextVar("strict", default=False)


class DefectError(Error, RuntimeError):
    """A defect of Lockstep where defects are errors."""

    exit_status = DEFECT


@contextmanager
def strictly(strict: bool = True) -> Iterator[None]:
    """Makes defects errors in the block; without `strict` they are what they were."""
    token = _strict.set(strict or _strict.get())
    try:
        yield
    finally:
        _strict.reset(token)


def are_errors() -> bool:
    return _strict.get() or bool(os.environ.get("LOCKSTEP_STRICT"))


def is_defect(error: Exception) -> bool:
    """True if no request and no state of the computer leads to an error."""
    if isinstance(error, Error):
        return error.exit_status == DEFECT
    return not isinstance(error, OSError | MemoryError)


def first_line(error: BaseException) -> str:
    """The kind of an error, and what it says without the program that it shows."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def told(what: str, error: Exception) -> str:
    """The reason why a layer is elsewhere, after a line that says so of `what`. Raises DefectError
    where defects are errors.
    """
    reason = f"{SAID}: {first_line(error)}"
    if are_errors():
        raise DefectError(f"{what}: {reason}") from error
    _log.warning("%s: %s", what, reason)
    return reason


def blame(error: Exception, nodes: Iterable[str]) -> None:
    """Says by which nodes an error came about, unless that is known."""
    error.__dict__.setdefault("nodes", tuple(nodes))


def blamed(error: Exception) -> tuple[str, ...]:
    """The nodes by which an error came about, where that is known."""
    return error.__dict__.get("nodes", ())


@contextmanager
def blaming(nodes: Iterable[str]) -> Iterator[None]:
    """Blames nodes for what goes wrong in the block."""
    try:
        yield
    except Exception as error:
        blame(error, nodes)
        raise
