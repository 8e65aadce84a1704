"""What Lockstep raises on purpose: one base class, under every part of the house."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import ClassVar

__all__ = ["ArgumentError", "Error", "RequestError", "require_names"]


class Error(Exception):
    """Base of everything that Lockstep raises on purpose; whatever else it raises is a defect.

    Subclasses also derive from ValueError, RuntimeError or OSError where that fits. `exit_status`
    is that of the command which the error ends: 2 where the request was wrong, 1 where the run
    found something wrong. None means that no request leads there: then it is a defect of Lockstep,
    and the command line keeps the traceback.
    """

    exit_status: ClassVar[int | None] = 2


class RequestError(Error):
    """The request was wrong. The message is one sentence: what, where, and what to do.

    Not a ValueError, because argparse would replace the message of one.
    """


class ArgumentError(Error, ValueError, TypeError):
    """An argument of a public function that is of the wrong type or value, or has no such name."""


def require_names(function: str, given: Collection[str], known: Collection[str]) -> None:
    """Raise ArgumentError for the first option that is not known, with those most like it."""
    for name in given:
        if name not in known:
            like = get_close_matches(name, known, 3, 0.5) or sorted(known)
            raise ArgumentError(f"{function} has no option {name!r}; the nearest are "
                                f"{', '.join(like)}" if like else
                                f"{function} has no option {name!r}")
