"""One operator applied to named values, and what a value is: names, element types, shapes.

Nothing here knows what an operator means: `compiler.ops.registry` has the operators.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any

import numpy as np

from compiler.te import SMALL

DTYPES = ("float32", "int8", "uint8", "int32", "int64", "bool", "float16", "bfloat16", "float64",
          "int16", "uint16", "uint32", "uint64")
"""Types that operators compute with. Inputs and outputs of networks may also have those of `SMALL`,
which `bitcast` alone reads and makes.
"""
MOST_DIMENSIONS = 64
"""NumPy's limit."""


@cache
def _name(dtype: np.dtype) -> str:
    """NumPy makes the name anew each time."""
    return dtype.name


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type; a scalar has shape (). The text form is `int8[1,16,8,8]`."""

    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self):
        if self.dtype not in DTYPES and self.dtype not in SMALL:
            raise ValueError(f"dtype must be one of {', '.join((*DTYPES, *SMALL))}, not "
                             f"{self.dtype!r}")
        if any(type(extent) is not int or extent < 1 for extent in self.shape):
            raise ValueError(f"shape must hold integers of at least 1, not {self.shape!r}")
        if len(self.shape) > MOST_DIMENSIONS:
            raise ValueError(f"shape must have {MOST_DIMENSIONS} dimensions at most, not "
                             f"{len(self.shape)}")
        if prod(self.shape) >= 1 << 63:
            raise ValueError(f"shape must hold less than 2^63 elements, not {self.shape!r}")

    @classmethod
    def of(cls, array: np.ndarray) -> "TensorType":
        return cls(tuple(array.shape), _name(array.dtype))

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class Attrs(Mapping[str, object]):
    """An immutable, hashable mapping of attribute names to int, float, str or tuple of int."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, object] | None = None):
        if isinstance(items, Attrs):
            self._items = items._items
            return
        frozen = ((name, _frozen(name, value)) for name, value in (items or {}).items())
        self._items: dict[str, object] = dict(sorted(frozen))

    def __getitem__(self, name: str):
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return self._items == (other._items if isinstance(other, Attrs) else other)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __repr__(self) -> str:
        return f"Attrs({self._items!r})"

    def __str__(self) -> str:
        return ", ".join(f"{name}={_attr_text(value)}" for name, value in self._items.items())

    def json(self) -> dict[str, Any]:
        """As JSON, which has no tuples and no infinities."""
        return {name: _attr_json(value) for name, value in self._items.items()}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> "Attrs":
        return cls({name: _attr_from(value) for name, value in entry.items()})


def _attr_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_attr_json(element) for element in value]
    return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _attr_from(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_attr_from, value))
    return float(value["float"]) if isinstance(value, Mapping) else value


def _frozen(name: str, value: object) -> object:
    match value:
        case str():
            return value
        case bool():
            pass
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            return float(value)
        case tuple() | list() if all(isinstance(v, int | np.integer) for v in value):
            return tuple(map(int, value))
    raise ValueError(
        f"attribute {name!r} must be an int, float, str or tuple of ints, not {value!r}")


def _attr_text(value: object) -> str:
    return f"({','.join(map(str, value))})" if isinstance(value, tuple) else repr(value)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator: reads the values `inputs`, defines the values `outputs`.

    `name` identifies the node in reports and is unique in its graph; it is the name of the layer
    in the source model wherever there is one.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping = field(default_factory=Attrs)

    def __post_init__(self):
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "outputs", tuple(self.outputs))
        object.__setattr__(self, "attrs", Attrs(self.attrs))

    def __str__(self) -> str:
        attrs = f" {{{self.attrs}}}" if self.attrs else ""
        return f"{self.op}({', '.join(self.inputs)}){attrs}  # {self.name}"
