"""Arguments that are one name of a registry, which is imported only when it is asked."""

import argparse
import importlib
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from compiler.errors import RequestError
from compiler.lazy import cached_property


class OneOf:
    """A type of arguments: one of the names in a registry.

    Parameters
    ----------
    homes : registries, ``module:NAME`` each, whose names are all allowed.
    first : names that come before those.
    names : the names in a registry, as its iteration has them by default.
    convert : what an argument's text becomes before it is looked for.
    """

    def __init__(self, *homes: str, first: Iterable[str] = (),
                 names: Callable[[Any], Iterable[Any]] = tuple,
                 convert: Callable[[str], Any] = str):
        self._homes, self._first, self._of, self._convert = homes, first, names, convert

    @cached_property
    def names(self) -> tuple[Any, ...]:
        registries = (getattr(importlib.import_module(module), name)
                      for module, name in (home.split(":") for home in self._homes))
        return (*self._first, *(name for registry in registries for name in self._of(registry)))

    def __call__(self, text: str) -> Any:
        try:
            value = self._convert(text)
        except ValueError:
            value = text
        if value not in self.names:
            raise argparse.ArgumentTypeError(
                f"invalid choice: {value!r} (choose from {', '.join(map(repr, self.names))})")
        return value

    def __str__(self) -> str:
        return f"{{{','.join(map(str, self.names))}}}"


class Parser(argparse.ArgumentParser):
    """An argument parser whose refusals are one sentence that says where to look.

    It asks registries for the names that its help shows.
    """

    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message} (see {self.prog} --help)")

    def format_help(self) -> str:
        for action in self._actions:
            if isinstance(action.type, OneOf) and action.metavar is None:
                action.metavar = str(action.type)
        return super().format_help()
