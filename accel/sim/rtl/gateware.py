"""The sources that a core is made from, besides its machine: where they lie, and what tells whether
they have changed.
"""

import ast
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from compiler.native import digest

ROOT = Path(__file__).parents[3]
_ROOMS = ("accel/machine", "accel/datapath", "accel/hw", "compiler/ir", "compiler/ops",
          "compiler/te", "compiler/tensorize")
_HARDWARE = "accel.hw"
_KNOWN = {"accel", "amaranth", "compiler", *sys.stdlib_module_names}
"""Packages from which modules of the hardware import."""

Patch = tuple[str, object]
"""A name of a module of the hardware, and what stands for it instead of what its file says."""


def gateware_files() -> list[Path]:
    """All files that a core is made from."""
    return files_in(*_ROOMS)


def files_in(*rooms: str) -> list[Path]:
    return [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]


@cache
def texts_of(*paths: Path) -> str:
    """A hash of files as they are."""
    return digest(f"{path.relative_to(ROOT)}\n{path.read_text()}" for path in paths)


def code_of(text: str) -> str:
    """A module without comments, docstrings and empty lines."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) \
                and isinstance(node.value.value, str):
            said = slice(node.lineno - 1, node.end_lineno)
            lines[said] = [""] * len(lines[said])
    for token in tokenize.generate_tokens(iter(text.splitlines(True)).__next__):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def patches() -> tuple[Patch, ...]:
    """Finds what was put in the place of functions and classes of the hardware in this process.

    It is asked before each run, so all is looked through again only if something there is not what
    it was.
    """
    modules = [sys.modules[name] for name in _loaded(len(sys.modules)) if sys.modules.get(name)]
    if not (_looks and _looks[0].stands(modules)):
        _looks[:] = [_Look.through(modules)]
    return _looks[0].found


@cache
def _loaded(count: int) -> tuple[str, ...]:
    """The names of modules of the hardware among so many that this process has."""
    return tuple(name for name in sorted(sys.modules) if f"{name}.".startswith(f"{_HARDWARE}."))


@dataclass(frozen=True, eq=False)
class _Look:
    """What modules had when they were looked through: their names' values, and those of their
    classes."""

    modules: list[ModuleType]
    spaces: Sequence[Mapping[str, Any]]
    values: list[object]
    found: tuple[Patch, ...]

    @classmethod
    def through(cls, modules: list[ModuleType]) -> "_Look":
        spaces: list[Mapping[str, Any]] = [vars(module) for module in modules]
        spaces += [vars(value) for module in modules for value in vars(module).values()
                   if isinstance(value, type) and value.__module__ == module.__name__]
        return cls(modules, spaces, _values(spaces),
                   tuple(found for module in modules for found in _patches(module)))

    def stands(self, modules: list[ModuleType]) -> bool:
        try:
            return modules == self.modules and _values(self.spaces) == self.values
        except Exception:       # noqa: BLE001 - whatever stands there now cannot be compared
            return False


_looks: list[_Look] = []
"""The last look, if there was one."""


def _values(spaces: Sequence[Mapping[str, Any]]) -> list[object]:
    return list(chain.from_iterable(space.values() for space in spaces))


def _patches(module: ModuleType) -> Iterator[Patch]:
    for name, value in vars(module).items():
        if isinstance(value, (FunctionType, type)):
            if value.__module__.partition(".")[0] not in _KNOWN:
                yield f"{module.__name__}.{name}", value
            elif value.__module__ == module.__name__:
                for place, code in _codes(value):
                    if code.co_filename not in (module.__file__, "<string>"):
                        yield f"{module.__name__}.{name}.{place}", code


def _codes(value: FunctionType | type) -> Iterator[tuple[str, CodeType]]:
    """The code of a function, or of those of a class."""
    members = {"": value} if isinstance(value, FunctionType) else vars(value)
    for name, member in members.items():
        inner = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if isinstance(inner, FunctionType):
            yield name, inner.__code__
