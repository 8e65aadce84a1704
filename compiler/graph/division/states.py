"""States of networks of one step: inputs that remember what outputs gave in the steps before.

A state is a *cache*, an input with places along one axis, and a *row*, the output that a step puts
at one of them. `with_stored_states` leaves the quantization of caches out of the step: between
steps they are kept as the integers that they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.errors import ArgumentError
from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.rewrite import Builder

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class State:
    """An input `cache` with `places` along an axis, and the output that is one of them.

    What is stored as q stands for ``(q - zp) * scale`` if it is quantized (`scale` is not 0); else
    numbers are stored as they are.
    """

    cache: str
    row: str
    axis: int
    places: int
    type: TensorType
    scale: float = 0.0
    zp: int = 0

    def stored(self, real: Array) -> Array:
        """Numbers as the cache has them."""
        if not self.scale:
            return real
        steps = np.rint(real.astype(np.float32) / np.float32(self.scale)) + self.zp
        return np.clip(steps, -128, 127).astype(np.int8)

    def put(self, array: Array, rows: Array, position: int) -> None:
        """Puts stored rows, as many as they have places, into a cache from a position on; those
        beyond its last place fall away.
        """
        target, source = (np.moveaxis(one, self.axis, 0) for one in (array, rows))
        count = min(len(source), max(0, self.places - position))
        target[position:position + count] = source[:count]

    def empty(self) -> Array:
        """A cache that nothing was put into."""
        return np.full(self.type.shape, self.zp, np.dtype(self.type.dtype))


def with_stored_states(graph: Graph, rows: Mapping[str, str]) -> tuple[Graph, tuple[State, ...]]:
    """The graph with states as they are stored, and these; `rows` names, for each cache, the output
    with its new row.

    Before: an integer graph. After: a cache that was only quantized to int8 is int8, and so is its
    row, which was dequantized, if both have one scale and zero point; others are as they were.
    Raises ArgumentError for what is no cache or no row of it.
    """
    states = [_state(graph, cache, row) for cache, row in rows.items()]
    names: dict[str, str] = {}
    dropped: set[str] = set()
    types = {value: graph.values[value] for value in graph.inputs}
    for place, state in enumerate(states):
        ends = _ends(graph, state)
        if ends is not None:
            quantize, dequantize = ends
            dropped |= {quantize.name, dequantize.name}
            names |= {quantize.outputs[0]: state.cache, dequantize.inputs[0]: state.row}
            types[state.cache] = stored = replace(state.type, dtype="int8")
            states[place] = replace(state, type=stored, scale=quantize.attrs["scale"],
                                    zp=quantize.attrs["zp"])
    builder = Builder(graph.name)
    for value, type_ in types.items():
        builder.add_input(value, type_)
    for value, array in graph.constants.items():
        builder.add_constant(value, array)
    for node in graph.nodes:
        if node.name not in dropped:
            builder.add(replace(node, inputs=tuple(names.get(one, one) for one in node.inputs),
                                outputs=tuple(names.get(one, one) for one in node.outputs)))
    builder.notes.extend(graph.notes)
    return builder.finish(graph.outputs), tuple(states)


def _state(graph: Graph, cache: str, row: str) -> State:
    if cache not in graph.inputs:
        raise ArgumentError(f"a cache must be one of the inputs {', '.join(graph.inputs)}, not "
                            f"{cache!r}")
    if row not in graph.outputs:
        raise ArgumentError(f"the row of {cache} must be one of the outputs "
                            f"{', '.join(graph.outputs)}, not {row!r}")
    whole, one = graph.values[cache], graph.values[row]
    axes = [axis for axis, (many, few) in enumerate(zip(whole.shape, one.shape, strict=False))
            if many != few]
    if (len(whole.shape) != len(one.shape) or len(axes) != 1 or one.shape[axes[0]] != 1
            or whole.dtype != one.dtype):
        raise ArgumentError(f"{row} must be one place of {cache}, which is {whole}, not {one}")
    return State(cache, row, axes[0], whole.shape[axes[0]], whole)


def _ends(graph: Graph, state: State) -> tuple[Node, Node] | None:
    """The quantization of the cache and the dequantization of the row, where these may be left out.
    """
    readers, maker = graph.consumers()[state.cache], graph.producers().get(state.row)
    if (len(readers) != 1 or maker is None or (readers[0].op, maker.op) != (
            "quantize", "dequantize") or graph.consumers()[state.row]
            or state.cache in graph.outputs):
        return None
    (quantize,), source = readers, maker.inputs[0]
    alike = all(quantize.attrs[name] == maker.attrs[name] for name in ("scale", "zp"))
    whole = graph.values[quantize.outputs[0]].dtype == graph.values[source].dtype == "int8"
    computed = source in graph.producers() and source not in graph.outputs
    return (quantize, maker) if alike and whole and computed else None
