"""Streams as text, so that their plans can be measured and checked elsewhere.

The body of a stream's task is its graph without the data of large constants. Instead there is an
outline of each: its type, its least and greatest element, and whether most of the others are zero.
Layers depend on no more than that, but for some whose weights have a pattern. Whoever makes a body
compares the task that follows from it; so does whoever reads it.

A plan is the tiles of all layers (`accel.mapping.plans.text`), or of some as they stand in the
whole::

    layers from 3: rows=14 columns=14 channels=2 depth=4 stationary=w threads=2 ; rows=...
    of: rows=14 ... ; rows=...                  the tiles of all layers, which say where values lie
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from accel.mapping.plans.text import NEXT
from compiler.errors import Error
from compiler.graph.as_json import graph_from, graph_json
from compiler.graph.graph import Graph
from compiler.plans import PlanRefused
from compiler.te import numpy_dtype

MOST_WRITTEN = 16           # elements of a constant that stand in a body as they are


class PartPlan(NamedTuple):
    """The tiles of some layers, the number of the first one, and the tiles of all layers that say
    where values lie.
    """

    first: int
    tiles: str
    whole: str

    @property
    def length(self) -> int:
        """The number of layers."""
        return len(re.split(f"[{NEXT}/]", self.tiles))

    @property
    def text(self) -> str:
        return f"layers from {self.first}: {self.tiles}\nof: {self.whole}"


def part_of(plan: str) -> PartPlan | None:
    """Reads what `PartPlan.text` gives; None for the tiles of all layers."""
    found = re.fullmatch(r"layers from (\d{1,6}): (.*)\nof: (.*)", plan)
    return PartPlan(int(found[1]), found[2], found[3]) if found else None


def stream_body(graph: Graph) -> str:
    """A stream's graph as text, which `stream_graph` reads."""
    return json.dumps({"stream": graph_json(graph, {
        name: _outline(array) for name, array in graph.constants.items()})})


def stream_graph(body: str) -> Graph:
    """A graph whose layers are those of the graph that the text was made of, as far as the outlines
    of its constants say. Raises PlanRefused for any other text.
    """
    try:
        entry = json.loads(body)["stream"]
        types = entry["values"]
        return graph_from(entry, {name: _made(types[name], outline)
                                  for name, outline in entry["constants"].items()})
    except (Error, ValueError, TypeError, LookupError, AttributeError, RecursionError,
            OverflowError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        raise PlanRefused(f"Task must be a stream of layers as JSON: {reason}") from None


def _outline(array: np.ndarray) -> Any:
    if array.size <= MOST_WRITTEN:
        return array.tolist()
    low, high = array.min().item(), array.max().item()
    zeros = array.size - np.count_nonzero(array)
    most = 0 if low <= 0 <= high and 2 * zeros >= array.size else 1 if low <= 1 <= high else low
    return {"low": low, "high": high, "most": most}


def _made(type_: Mapping[str, Any], outline: Any) -> np.ndarray:
    dtype, shape = numpy_dtype(type_["dtype"]), tuple(type_["shape"])
    if not isinstance(outline, Mapping):
        return np.array(outline, dtype).reshape(shape)
    array = np.full(shape, outline["most"], dtype)
    array.reshape(-1)[:2] = outline["low"], outline["high"]
    return array
