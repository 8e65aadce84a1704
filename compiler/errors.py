"""The errors that Lockstep raises on purpose, of one base class, under every part of the house."""

from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import ClassVar, ParamSpec, TypeVar

DEFECT = 3
"""The exit status of a defect of Lockstep."""

P = ParamSpec("P")
R = TypeVar("R")


class Error(Exception):
    """Base of everything that Lockstep raises on purpose; whatever else it raises is a defect.

    Subclasses also derive from ValueError, RuntimeError or OSError where that fits. `exit_status`
    is that of the command which the error ends: 2 where the request was wrong, 1 where the run
    found something wrong, 3 (`DEFECT`) where no request leads there: a defect of Lockstep.
    """

    exit_status: ClassVar[int] = 2


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


def called_by_name(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a public function raise ArgumentError, not TypeError, for a call that does not fit it.

    One with ``**options`` checks them itself; only names like a missing argument are refused here.
    """
    fits = signature(function)
    parameters = [parameter for parameter in fits.parameters.values()
                  if parameter.kind != Parameter.VAR_KEYWORD]
    names = [parameter.name for parameter in parameters]
    required = [parameter.name for parameter in parameters
                if parameter.default is Parameter.empty]
    takes_options = len(parameters) < len(fits.parameters)

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        missing = [name for name in required[len(args):] if name not in options]
        require_names(function.__name__, [
            name for name in options
            if not takes_options or get_close_matches(name, missing, 1)], names)
        try:
            fits.bind(*args, **options)
        except TypeError as error:
            raise ArgumentError(f"{function.__name__}: {error}") from None
        return function(*args, **options)
    return checked
