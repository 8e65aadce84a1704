"""Graphs that read only the first places of a cache.

A cache has places along an axis, and a step has a position: what lies behind it is masked. While
the position is small, a graph that cuts caches and masks off behind a few places gives the same,
to the bit. That is followed from the expressions of operators, so none of attention is known by
name::

    mask = -128 behind the position      a value of the position alone; found by its numbers
    scores [.., places]                  an axis of places; nothing is known of what is behind
    min(scores, mask)                    -128 behind the position
    max over places                      -128 is never greater: one number a row, the same
    softmax: its table gives 0           0 behind the position, and added to sums
    weights x values                     a sum over places, to which 0 adds nothing
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.reference import evaluate
from compiler.graph.rewrite import Builder
from compiler.ops.records.rules import TypeRefused
from compiler.ops.registry import expression
from compiler.te import (Binary, Buffer, Cast, Computed, Const, Expr, Extent, Read, Scan, Tensor,
                         Var, is_integer, numpy_dtype, placeholder, rewrite, walk)
from compiler.tensorize.normal import normal

STEP = 16
"""Prefixes are multiples of so many places."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The axis of a tensor that has places, and what its integers are behind the position, where
    that is known.
    """

    axis: int
    beyond: int | None = None

    def shape(self, whole: Sequence[int], count: int) -> tuple[int, ...]:
        return (*whole[:self.axis], count, *whole[self.axis + 1:])


def counts_of(places: int) -> Iterator[int]:
    """The numbers of places of prefixes, in order: two for each doubling, so that a step reads at
    most half as much again as it needs, beside a `STEP`.
    """
    count = STEP
    while count < places:
        yield count
        count += max(STEP, 1 << (count.bit_length() - 2))


def masks_of(graph: Graph, part: Graph) -> dict[str, Tail]:
    """The inputs of a part of the graph that say which places are behind the position."""
    known = _places(part)
    if known is None or known[0] not in graph.inputs:
        return {}
    found = {value: _mask(graph, value, *known) for value in part.inputs}
    return {value: tail for value, tail in found.items() if tail is not None}


def shorter_forms(part: Graph, masks: Mapping[str, Tail]) -> dict[int, Graph]:
    """Forms of a graph for positions below these counts of places, which read no more places than
    that: same inputs, outputs, and names of nodes. None where some value depends on what is cut
    off, or on how much that is.
    """
    known = _places(part)
    try:
        return {} if known is None else {count: _shortened(part, masks, known[1], count)
                                         for count in counts_of(known[1])}
    except _Whole:
        return {}


def _places(part: Graph) -> tuple[str, int] | None:
    """The position of all puts, and the places of their caches; None where these differ."""
    puts = [node for node in part.nodes if node.op == "qput"]
    found = {(node.inputs[2], part.values[node.inputs[0]].shape[node.attrs["axis"]])
             for node in puts}
    return found.pop() if len(found) == 1 else None


class _Whole(Exception):
    """All places are needed."""


def _mask(graph: Graph, value: str, position: str, places: int) -> Tail | None:
    """The value that follows from the position alone: evaluated for every position."""
    made, needed = graph.values[value], {value}
    nodes = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    axes = [axis for axis, extent in enumerate(made.shape) if extent == places]
    if not nodes or made.dtype != "int8" or len(axes) != 1 or (
            needed & {*graph.inputs}) != {position}:
        return None
    alone = Graph(value, (position,), (value,), tuple(reversed(nodes)), graph.values,
                  {name: array for name, array in graph.constants.items() if name in needed})
    beyond: set[int] = set()
    for at in range(places - 1):
        array = evaluate(alone, {position: np.array([at])})[value]
        beyond.update(np.unique(np.moveaxis(array, axes[0], 0)[at + 1:]).tolist())
        if len(beyond) > 1:
            return None
    return Tail(axes[0], *beyond)


def _shortened(part: Graph, masks: Mapping[str, Tail], places: int, count: int) -> Graph:
    builder, tails, names = Builder.like(part), dict[str, Tail](), dict[str, str]()

    def cut(value: str, tail: Tail) -> None:
        shape = part.values[value].shape
        names[value], tails[value] = builder.fresh(f"{value}:prefix"), tail
        builder.emit("slice", builder.fresh_node(f"{value}:prefix"), [value], names[value],
                     begin=(0,) * len(shape), end=tail.shape(shape, count), step=(1,) * len(shape))

    for value, tail in masks.items():
        cut(value, tail)
    for node in part.nodes:
        known = {value: tails[value] for value in node.inputs if value in tails}
        tail, new = _followed(part, node, known, count) if known else (None, node)
        new = replace(new, inputs=tuple(names.get(value, value) for value in new.inputs))
        (value,), whole = node.outputs, part.values[node.outputs[0]]
        try:
            builder.add(new)
        except TypeRefused:
            raise _Whole from None
        if tail is not None:
            tails[value] = tail
        wanted = tail.shape(whole.shape, count) if tail else whole.shape
        if builder.values[value] != TensorType(wanted, whole.dtype) or (
                tail and (value in part.outputs or whole.shape[tail.axis] != places)):
            raise _Whole
        if node.op == "qput":
            cut(value, Tail(node.attrs["axis"]))
    return builder.finish(part.outputs)


def _followed(part: Graph, node: Node, tails: Mapping[str, Tail], count: int
              ) -> tuple[Tail | None, Node]:
    """The tail of the result, None where it has none and is the same; and the node for so
    many places.
    """
    if node.op == "qput":
        raise _Whole
    types = [part.values[value] for value in node.inputs]
    shorter = [replace(type_, shape=tails[value].shape(type_.shape, count))
               if value in tails else type_ for value, type_ in zip(node.inputs, types)]
    if node.op == "reshape":
        return _reshaped(node, types[0].shape, tails[node.inputs[0]], count)
    try:
        stages, others = _stages(node, types), _stages(node, shorter)
    except (TypeError, ValueError):
        raise _Whole from None
    if [*map(_bare, stages)] != [*map(_bare, others)]:
        raise _Whole                            # the count of places is a number in it
    names = [f"x{place}" for place in range(len(types))]
    known = {name: tails[value] for name, value in zip(names, node.inputs) if value in tails}
    arrays = {name: part.constants[value] for name, value in zip(names, node.inputs)
              if value in part.constants}
    for stage, other in zip(stages, others):
        tail = _of_stage(stage, other, known, arrays)
        if tail is not None:
            known[stage.names[0]] = tail
    return known.get(stages[-1].names[0]), node


def _reshaped(node: Node, before: tuple[int, ...], tail: Tail, count: int) -> tuple[Tail, Node]:
    """A reshape that leaves places an axis of their own."""
    after, ahead = node.attrs["shape"], prod(before[:tail.axis])
    for axis, extent in enumerate(after):
        if prod(after[:axis]) == ahead and extent == before[tail.axis]:
            now = replace(tail, axis=axis)
            return now, replace(node, attrs={**node.attrs, "shape": now.shape(after, count)})
    raise _Whole


def _stages(node: Node, types: Sequence[TensorType]) -> list[Computed]:
    """The computations of an operator, each after those that it reads."""
    given = [placeholder(type_.shape, type_.dtype, f"x{place}")
             for place, type_ in enumerate(types)]
    found: dict[str, Computed] = {}

    def visit(definition: Computed | Scan | None) -> None:
        if not isinstance(definition, Computed) or len(definition.values) != 1:
            raise _Whole
        (value,) = definition.values
        for read in walk(value):
            if isinstance(read, Read) and read.buffer.definition is not None and (
                    read.buffer.name not in found):
                visit(read.buffer.definition)
        found[definition.names[0]] = definition

    result: Tensor = expression(node.op, node.attrs, given, "y")
    visit(result.buffer.definition)
    return list(found.values())


def _bare(stage: Computed) -> tuple[object, ...]:
    """A computation without the extents of what it reads and makes."""
    def rule(read: Expr) -> Expr | None:
        if not isinstance(read, Read):
            return None
        return Read(Buffer(read.buffer.name, (1,) * len(read.indices), read.dtype), read.indices)
    return (stage.names, tuple(axis.var for axis in stage.axes), rewrite(stage.values[0], rule),
            stage.reducer, tuple(var for var, _ in stage.reduce_axes))


def _of_stage(stage: Computed, shorter: Computed, tails: Mapping[str, Tail],
              arrays: Mapping[str, np.ndarray]) -> Tail | None:
    """The tail of a computation; None where it has none."""
    before, after = _extents(stage), _extents(shorter)
    cut = {var for var, extent in before.items() if after[var] != extent}
    counters = set[Expr]()

    def behind(read: Expr) -> Expr | None:
        """An element behind the position in place of a read."""
        if not isinstance(read, Read) or read.buffer.name not in tails:
            return None
        tail = tails[read.buffer.name]
        counters.add(normal(read.indices[tail.axis]))
        if tail.beyond is not None:
            return Const(tail.beyond, read.dtype)
        rest = (*read.indices[:tail.axis], *read.indices[tail.axis + 1:])
        return Read(Buffer(read.buffer.name, (1,) * len(rest), read.dtype), rest)

    (body,) = stage.values
    left = rewrite(body, behind)
    if counters != cut or len(cut) > 1:
        raise _Whole                            # a place meets others
    if not cut:
        return None
    (counter,) = cut
    if counter in [*walk(left)]:
        raise _Whole                            # its number counts, or another tensor has places
    element = _folded(left, arrays)
    known = int(element.value) if isinstance(element, Const) and is_integer(element.dtype) else None
    axes = [axis.var for axis in stage.axes]
    if counter in axes:
        return Tail(axes.index(counter), None if stage.reducer else known)
    lowest, highest = _range(body)
    neutral = known is not None and {
        "sum": known == 0, "max": known <= lowest, "min": known >= highest}.get(
            str(stage.reducer), False)
    if not neutral:
        raise _Whole
    return None


def _extents(stage: Computed) -> dict[Var, Extent]:
    return {axis.var: axis.extent for axis in stage.axes} | dict(stage.reduce_axes)


def _folded(value: Expr, arrays: Mapping[str, np.ndarray]) -> Expr:
    """The expression, a constant where it is one whatever the numbers are that it reads."""
    def rule(node: Expr) -> Expr | None:
        match node:
            case Binary("mul", Const(0), _) | Binary("mul", _, Const(0)) if is_integer(node.dtype):
                return Const(0, node.dtype)
            case Binary("shr" | "shl" | "rshift_rne", Const(0), _):
                return node.a
            case Binary("min", a, Const() as b) | Binary("min", Const() as b, a) \
                    if is_integer(node.dtype) and b.value <= _range(a)[0]:
                return b
            case Binary("max", a, Const() as b) | Binary("max", Const() as b, a) \
                    if is_integer(node.dtype) and b.value >= _range(a)[1]:
                return b
            case Read(buffer, (Const(int(at)),)) if buffer.name in arrays:
                return Const(arrays[buffer.name][at].item(), node.dtype)
        return None

    before: Expr | None = None
    while value != before:
        before, value = value, normal(rewrite(value, rule))
    return value


def _range(value: Expr) -> tuple[float, float]:
    """Least and greatest of an integer, as far as types, conversions and bounds say."""
    if not is_integer(value.dtype):
        return -np.inf, np.inf
    limits = np.iinfo(numpy_dtype(value.dtype))
    if isinstance(value, Cast):
        low, high = _range(value.value)
        if limits.min <= low and high <= limits.max:
            return low, high
    if isinstance(value, Binary) and value.op in ("min", "max"):
        best = min if value.op == "min" else max
        (a, b), (c, d) = _range(value.a), _range(value.b)
        return best(a, c), best(b, d)
    if isinstance(value, Const):
        return int(value.value), int(value.value)
    return int(limits.min), int(limits.max)
