"""The memory that the values of a network may take: asked before any of it is taken.

A shape is a few bytes in a file and may stand for more memory than there is. `LOCKSTEP_MEMORY`, a
number of GiB, says how much a network may use for its values (2 unless set).
"""

import os
from collections.abc import Iterable
from math import prod

from compiler.errors import Error
from compiler.graph.graph import Graph, TensorType
from compiler.te import numpy_dtype

VARIABLE = "LOCKSTEP_MEMORY"
DEFAULT_GIB = 2.0


class RoomRefused(Error, ValueError):
    """A network whose values take more memory than they may; the message is one line."""


def most_bytes() -> int:
    """The most bytes that the values of a network may take."""
    text = os.environ.get(VARIABLE, str(DEFAULT_GIB))
    try:
        gib = float(text)
    except ValueError:
        gib = 0.0
    if not 0 < gib < 1 << 20:
        raise RoomRefused(f"{VARIABLE} must be a number of GiB above 0, not {text!r}")
    return int(gib * (1 << 30))


def bytes_of(type_: TensorType) -> int:
    """The bytes of a dense tensor."""
    return prod(type_.shape) * numpy_dtype(type_.dtype).itemsize


def require_bytes(count: int, place: str) -> None:
    """Refuses with RoomRefused what takes more than `most_bytes`."""
    most = most_bytes()
    if count > most:
        raise RoomRefused(
            f"{place} takes {count / (1 << 30):,.1f} GiB of memory, and it may take "
            f"{most / (1 << 30):,g}; make its shapes smaller or set {VARIABLE}, in GiB")


def require_room(graph: Graph) -> None:
    """Refuses a graph whose inputs and outputs, or what one node reads and makes, are too large."""
    def together(values: Iterable[str]) -> int:
        return sum(bytes_of(graph.values[value]) for value in dict.fromkeys(values))

    require_bytes(together((*graph.inputs, *graph.outputs)),
                  f"{graph.name}: all inputs and outputs, {_types(graph, graph.inputs)},")
    for node in graph.nodes:
        require_bytes(together((*node.inputs, *node.outputs)),
                      f"{graph.name}: {node.name} ({node.op}), {_types(graph, node.inputs)} -> "
                      f"{_types(graph, node.outputs)},")


def _types(graph: Graph, values: Iterable[str]) -> str:
    return ", ".join(str(graph.values[value]) for value in values)
