"""The layout of images in the home's memory: NCHW or NHWC, with the fewest bytes to convert.

A segment is free or bound. Kernels of the host compute a free one: some of its operators demand
NCHW; many compute alike on both (`compiler.graph.division.channels_last`). A bound one takes and
gives each image in an order that its target says. So the accelerator has NHWC at its borders;
padding lanes of its blocks are left out when they are copied, so no operator of the host ever sees
them. What lies between two segments of the accelerator need not be converted at all::

    conv -> dequantize -> sigmoid, mul -> quantize -> conv          all in NHWC

Which tensor has which order is decided for the whole network at once
(`compiler.graph.division.cheapest_orders`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from compiler.graph.division.channels_last import (FROM_LAST, TO_LAST, images, is_indifferent,
                                                   last_array, last_nodes, last_type, moves)
from compiler.graph.division.cheapest_orders import (NCHW, NHWC, Order, OrderedTensor,
                                                     cheapest_orders)
from compiler.graph.division.partition import Partition, Segment, assembled
from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder
from compiler.graph.room import bytes_of
from compiler.graph.verify import verify

MOVED = "it changes the layout"
"""Why a node that this pass adds is where it is."""
RELAYOUT = "relayout"
"""The operator of a change of layout: a transposition in a free segment; at the border of a bound
one it moves nothing and says that the value crosses in the other order.
"""

Borders = Callable[[Segment], Mapping[str, Order | None] | None]
"""Gives None for a free segment, else the order in which each input and output lies in the target's
memory. That is None where it is neither, so that copying it is a conversion to whichever is wanted.
Of tensors that are no images the order is NCHW, or None where copying them is a conversion.
"""


Choose = Callable[[Collection[OrderedTensor]], Mapping[str, Order]]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A value that changes its order in memory, by a node of a free segment, or while it is copied
    at the border of a bound one.
    """

    value: str
    size_bytes: int
    where: str

    def __str__(self) -> str:
        return f"convert {self.value}: {self.size_bytes} bytes, {self.where}"


def _bytes(conversions: Sequence[Conversion]) -> int:
    return sum(conversion.size_bytes for conversion in conversions)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A partition whose graph has the types that lie in memory, and what is converted.

    `last` are the values that are NHWC; `everywhere` is what would be converted if all free
    segments had NCHW.
    """

    partition: Partition
    conversions: tuple[Conversion, ...] = ()
    everywhere: tuple[Conversion, ...] = ()
    last: frozenset[str] = frozenset()

    def figures(self) -> dict[str, Any]:
        """The counts and bytes of conversions, as plain data for reports."""
        def sums(conversions: tuple[Conversion, ...]) -> dict[str, int]:
            return {"count": len(conversions), "bytes": _bytes(conversions)}

        return {**sums(self.conversions), "at_every_border": sums(self.everywhere),
                "conversions": [{"value": conversion.value, "bytes": conversion.size_bytes,
                                 "where": conversion.where}
                                for conversion in self.conversions]}

    def __str__(self) -> str:
        after, before = (f"{len(some)} conversions, {_bytes(some)} bytes"
                         for some in (self.conversions, self.everywhere))
        lines = [f"{after}; with one at every border {before}", *map(str, self.conversions)]
        return "\n".join(lines) + f"\n{self.partition}{self.partition.graph}"


def as_it_is(parts: Partition) -> Layout:
    """The layout in which all images are NCHW."""
    return Layout(parts)


def plain(segment: Segment) -> Mapping[str, Order | None]:
    """The borders of a target that has no layouts of its own: all is NCHW."""
    return dict.fromkeys((*segment.inputs, *segment.outputs), NCHW)


def lay_out(parts: Partition, borders: Borders, choose: Choose = cheapest_orders) -> Layout:
    """The layout pass.

    Before: a partition of a verified graph, all of whose tensors are NCHW. After: the same segments
    in the same order, of a verified graph that computes the same to the bit, its inputs and outputs
    as they were. Every operator of a free segment reads and makes tensors of one order; operators
    that are not indifferent have NCHW. Changes of order are nodes `relayout` of free segments, or
    happen while a value is copied where no more than one bound segment wants the other order; no
    sum of their bytes is smaller. A transpose of the network between NCHW and NHWC in a free
    segment counts as one of them, and costs nothing where its input is NHWC. What bound segments
    compute stays. Where no free segment stands between the maker of a value and the first that
    wants it otherwise, the home, which must be able to convert, gets a new one behind the maker.
    With another `choose` all this holds but that no sum is smaller.
    """
    points = _Points(parts, borders)
    if all(orders is None for orders in points.borders):
        return as_it_is(parts)
    return _Writer(points, choose(points.tensors())).layout()


@dataclass(frozen=True, slots=True)
class _Use:
    """A read of a value: in the segment `at`, one past the last for outputs of the graph."""

    at: int
    point: str


class _Points:
    """The makers and readers of the values that are images, in which order.

    borders : of each segment, None where it is free.
    made_at : the segment that makes each value, -1 for inputs of the graph.
    makers : the point of each.
    uses : by value.
    """

    def __init__(self, parts: Partition, borders: Borders):
        self.parts, self.graph = parts, parts.graph
        self.borders = [borders(segment) for segment in parts.segments]
        self.made_at = dict.fromkeys(self.graph.inputs, -1)
        self.makers: dict[str, str] = dict.fromkeys(self.graph.inputs, NCHW)
        self.uses: dict[str, list[_Use]] = {}
        for at, segment in enumerate(parts.segments):
            orders = self.borders[at]
            if orders is None:
                self._add_free(at, segment)
            else:
                self._add_bound(at, segment, orders)
        for value in self.graph.outputs:
            self._use(value, len(parts.segments), NCHW)

    def tensors(self) -> list[OrderedTensor]:
        return [OrderedTensor(self.makers[value], frozenset(use.point for use in uses),
                              self.size(value))
                for value, uses in self.uses.items()]

    def size(self, value: str) -> int:
        """The bytes that a change of order moves."""
        type_ = self.graph.values[value]
        return bytes_of(type_) if moves(type_) else 0

    def is_image(self, value: str) -> bool:
        return value not in self.graph.constants and len(self.graph.values[value].shape) == 4

    def turned(self, node: Node) -> Order | None:
        """The order of the result of a transpose between NCHW and NHWC, as it has it in memory
        where its input is in the other; None for other nodes.
        """
        if node.op != "transpose" or node.inputs[0] in self.graph.constants:
            return None
        source, result = (self.graph.values[value] for value in (*node.inputs, *node.outputs))
        match tuple(node.attrs["perm"]):
            case (0, 2, 3, 1) if moves(source): return NCHW
            case (0, 3, 1, 2) if moves(result): return NHWC
        return None

    def wants(self, node: Node, value: str) -> bool:
        """True if an input of an indifferent node is in its order."""
        return (value in images(node) and self.is_image(value)
                and prod(self.graph.values[value].shape) > 1)

    def is_free(self, node: Node) -> bool:
        return is_indifferent(self.graph, node)

    def _use(self, value: str, at: int, point: str) -> None:
        if value not in self.graph.constants:
            self.uses.setdefault(value, []).append(_Use(at, point))

    def _add_bound(self, at: int, segment: Segment,
                   orders: Mapping[str, Order | None]) -> None:
        for value in segment.inputs:
            image = self.is_image(value)
            self._use(value, at, (orders[value] or NHWC) if image else NCHW)
        for value in segment.outputs:
            self.made_at[value] = at
            order = orders[value] if self.is_image(value) else NCHW
            self.makers[value] = order or f"{value} in blocks"

    def _add_free(self, at: int, segment: Segment) -> None:
        for node in segment.nodes:
            turned, free = self.turned(node), self.is_free(node)
            for value in dict.fromkeys(node.inputs):
                point = f"node {node.name}" if free and self.wants(node, value) else NCHW
                self._use(value, at, NHWC if turned == NCHW else point)
            for value in node.outputs:
                self.made_at[value] = at
                self.makers[value] = f"node {node.name}" if free else turned or NCHW


@dataclass
class _Writer:
    """Writes the graph anew. `here` are the orders in which a value is there when it was made or
    copied; `wanted` those that are made of it, by the segment that makes them.
    """

    points: _Points
    orders: Mapping[str, Order]
    conversions: list[Conversion] = field(default_factory=list)
    here: dict[str, Order] = field(default_factory=dict)
    wanted: dict[int, list[str]] = field(default_factory=dict)
    as_they_come: set[tuple[int, str]] = field(default_factory=set)
    last: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.parts, self.graph = self.points.parts, self.points.graph
        self.segments = self.parts.segments
        self.builder = Builder.like(self.graph)
        self.reasons = dict(self.parts.reasons)

    def layout(self) -> Layout:
        for value in self.points.uses:
            self._settle(value)
        runs = [run for run in self._written() if run[1]]
        graph = _without_idle_constants(self.builder.finish(self.graph.outputs))
        last = frozenset(name for name in self.last.values() if name not in graph.constants)
        parts = assembled(verify(graph), runs, self.reasons, self.parts.home)
        return Layout(parts, tuple(self.conversions), tuple(self._everywhere()), last)

    def _written(self) -> Iterator[tuple[str, list[Node]]]:
        """The segments; behind the inputs and each bound one the conversions that only a segment of
        their own can do.
        """
        nodes = self.builder.nodes
        bounds = [True, *(border is not None for border in self.points.borders)]
        for at, bound in enumerate(bounds, -1):
            begin = len(nodes)
            if at >= 0:
                (self._write_bound if bound else self._write_free)(at)
                yield self.segments[at].target, nodes[begin:]
            begin = len(nodes)
            if bound:
                for value in self.wanted.get(at, ()):
                    self._emit_conversion(value)
                yield self.parts.home, nodes[begin:]

    def _order(self, point: str) -> Order:
        return point if point in (NCHW, NHWC) else self.orders[point]    # type: ignore[return-value]

    def _settle(self, value: str) -> None:
        """Finds the order in which a value is made, and who converts it where another is wanted."""
        points, size = self.points, self.points.size(value)
        maker, made_at = points.makers[value], points.made_at[value]
        users: dict[Order, list[int]] = {}
        for use in points.uses[value]:
            users.setdefault(self._order(use.point), []).append(use.at)
        here = self._order(maker)
        bound = points.borders[made_at] if made_at >= 0 else None
        if bound is not None:
            blocks = maker not in (NCHW, NHWC) or bound[value] is None
            if list(users) == [NCHW]:       # what is copied is converted on the way
                blocks, here = blocks or here == NHWC, NCHW
            if blocks and (size or not points.is_image(value)):
                self._at_border(value, made_at, "from")
        self.here[value] = here
        for order, at in users.items():
            if order != here:
                self._convert(value, order, sorted(set(at)))

    def _convert(self, value: str, order: Order, users: list[int]) -> None:
        """Plans the conversion of a value to `order` for these segments; it exists in the other
        order.
        """
        free = [at for at, orders in enumerate(self.points.borders) if orders is None]
        all_bound = users[-1] < len(self.segments) and not {*free}.intersection(users)
        moves_bytes = self.points.size(value) > 0
        if order == NHWC and all_bound and (len(users) == 1 or not moves_bytes):
            self.as_they_come.update((at, value) for at in users)
            if moves_bytes:
                self._at_border(value, users[0], "to")
            return
        made_at = self.points.made_at[value]
        between = [at for at in free if made_at <= at <= users[0]]
        self.wanted.setdefault(between[-1] if between and made_at not in between else made_at,
                               []).append(value)

    def _at_border(self, value: str, at: int, way: str) -> None:
        name = next(node.name for node in self.segments[at].nodes)
        self.conversions.append(Conversion(
            value, bytes_of(self.graph.values[value]), f"copied {way} the segment of {name}"))

    def _everywhere(self) -> Iterator[Conversion]:
        """The conversions if all were NCHW: borders of bound segments, transposes of free ones."""
        for orders, segment in zip(self.points.borders, self.segments, strict=True):
            if orders is None:
                yield from (Conversion(node.inputs[0], bytes_of(self.graph.values[node.inputs[0]]),
                                       f"by {node.name}")
                            for node in segment.nodes if self.points.turned(node))
            for value, order in (orders or {}).items():
                if order != NCHW and (self.points.size(value) or not self.points.is_image(value)):
                    yield Conversion(value, bytes_of(self.graph.values[value]),
                                     f"copied at the segment of {segment.nodes[0].name}")

    def _write_free(self, at: int) -> None:
        """Writes a free segment. It converts values from elsewhere first, and its own values after
        the node that makes them.
        """
        wanted = self.wanted.get(at, [])
        for value in wanted:
            if self.points.made_at[value] != at:
                self._emit_conversion(value)
        for node in self.segments[at].nodes:
            for moved in self._free_nodes(node):
                self.builder.add(moved)
                self.reasons.setdefault(moved.name, MOVED)
            for value in node.outputs:
                if value in wanted:
                    self._emit_conversion(value)

    def _emit_conversion(self, value: str) -> None:
        """Emits the conversion of a value to the order in which it does not exist yet."""
        to_last = self.here[value] == NCHW
        source, result = (value, self._named(value)) if to_last else (self._named(value), value)
        name = self.builder.fresh_node(result)
        self.reasons[name] = MOVED
        type_ = self.graph.values[value]
        if not moves(type_):
            shape = (last_type(type_) if to_last else type_).shape
            self.builder.emit("reshape", name, [source], result, shape=shape)
            return
        self.builder.emit(RELAYOUT, name, [source], result, perm=TO_LAST if to_last else FROM_LAST)
        self.conversions.append(Conversion(value, bytes_of(type_), f"by {name}"))

    def _named(self, value: str) -> str:
        """The name that a value has as NHWC."""
        if value not in self.last:
            self.last[value] = self.builder.fresh(f"{value}.nhwc")
        return self.last[value]

    def _free_nodes(self, node: Node) -> tuple[Node, ...]:
        turned = self.points.turned(node)
        if turned is not None:              # the same bytes
            source, = node.inputs
            output, = node.outputs
            names = ((self._named(source), output) if turned == NCHW
                     else (source, self._named(output)))
            logical = self.graph.values[output].shape
            shape = logical if turned == NCHW else tuple(logical[axis] for axis in TO_LAST)
            return (Node("reshape", node.name, names[:1], names[1:], {"shape": shape}),)
        if not self.points.is_free(node) or self.orders.get(f"node {node.name}") != NHWC:
            return (node,)
        inputs = [self._last_input(node, value) for value in node.inputs]
        return last_nodes(self.graph, node, inputs, self._named(node.outputs[0]),
                          self.builder.fresh)

    def _last_input(self, node: Node, value: str) -> str:
        if self.points.wants(node, value):
            return self._named(value)
        constant = self.graph.constants.get(value)
        if constant is None or constant.size == 1 or value not in images(node):
            return value
        if value not in self.last:
            self.builder.add_constant(self._named(value), last_array(constant))
        return self.last[value]

    def _write_bound(self, at: int) -> None:
        """Writes a bound segment, whose border states the order of each value that crosses as
        NHWC.
        """
        segment, inside = self.segments[at], {}
        for value in segment.inputs:
            if self._is_read_last(at, value):
                inside[value] = self.builder.fresh(f"{value}.inside")
                self._say(self._named(value), inside[value], FROM_LAST)
        last_outputs = [value for value in segment.outputs if self.here.get(value) == NHWC]
        inside |= {value: self.builder.fresh(f"{value}.inside") for value in last_outputs}
        for node in segment.nodes:
            self.builder.add(Node(node.op, node.name,
                                  tuple(inside.get(value, value) for value in node.inputs),
                                  tuple(inside.get(value, value) for value in node.outputs),
                                  node.attrs))
        for value in last_outputs:
            self._say(inside[value], self._named(value), TO_LAST)

    def _is_read_last(self, at: int, value: str) -> bool:
        return any(use.at == at and self._order(use.point) == NHWC
                   for use in self.points.uses[value]) and (at, value) not in self.as_they_come

    def _say(self, source: str, target: str, perm: tuple[int, ...]) -> None:
        self.builder.emit(RELAYOUT, self.builder.fresh_node(target), [source], target, perm=perm)


def _without_idle_constants(graph: Graph) -> Graph:
    read = {value for node in graph.nodes for value in node.inputs}.union(graph.outputs)
    idle = {value for value in graph.constants if value not in read}
    return Graph(graph.name, graph.inputs, graph.outputs, graph.nodes,
                 {value: type_ for value, type_ in graph.values.items() if value not in idle},
                 {value: array for value, array in graph.constants.items() if value not in idle},
                 graph.notes)
