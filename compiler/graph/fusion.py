"""Fusion: which operators are computed together, by one kernel, without storing what is between.

The rules are those of T. Chen et al.: TVM, OSDI 2018, section 3, over the kinds that operators
declare (`compiler.ops.records.operator.Kind`)::

    complex -> elementwise ...              conv2d -> add -> relu       on the result
    injective -> injective ...              slice -> concat -> relu     one after the other
    injective ... -> reduction              relu -> globalavgpool       on the input
    opaque                                  alone
    cast ... -> elementwise                 on another operand, where it is wider than what it reads

and one more: what computes rows from the same rows is one kernel, a softmax or a norm for example::

    elementwise, reduction along rows ...   reduce_max -> sub -> exp -> reduce_sum -> div

With `attention`, functions of the rows of a product whose only reader is another product are fused
with both, where that accepts the group: the products of queries with keys, softmax, the products
with values; and with what only chooses elements of their operands or result, as a transpose, where
it accepts these too.

A value that is read in several places is fused into all of them or none: the readers between an
operator and its *immediate post-dominator*, the first node that every path to an output leads
through, are fused with it together. So a group has one result, nothing inside it is read from
outside, and groups never wait for each other in a circle. A node with the attribute `apart` ends
its group.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from compiler import te
from compiler.graph.graph import Graph, Node
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.te import numpy_dtype

MOST_INPUTS = 128       # of a kernel: a call of native code cannot have thousands
MOST_COPIES = 64        # expressions of a group when each is written where it is read
LONGEST_ROW = 1 << 10   # elements of a row that stays in the nearest cache


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes in topological order that one kernel computes; the last one's output is the result.

    `inputs` are the values that it reads from outside, constants too, in order of first use. A
    view shows its input, or elements of it that follow each other, in a shape of its own.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    is_view: bool

    @classmethod
    def of(cls, nodes: Iterable[Node], graph: Graph) -> "Group":
        nodes = tuple(nodes)
        written = {node.outputs[0] for node in nodes}
        read = dict.fromkeys(value for node in nodes for value in node.inputs)
        return cls(nodes, tuple(value for value in read if value not in written),
                   len(nodes) == 1 and _is_view(graph, nodes[0]))

    @property
    def output(self) -> str:
        return self.nodes[-1].outputs[0]

    @property
    def name(self) -> str:
        """The operators in order: ``conv2d+add+relu``."""
        return "+".join(node.op for node in self.nodes)

    def __str__(self) -> str:
        names = ", ".join(node.name for node in self.nodes)
        return f"{self.output} = {self.name}({', '.join(self.inputs)})  # {names}"


Attention = Callable[[Graph, Group], bool]
"""Says of a group of two products with functions of rows between whether one kernel computes it."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A graph divided into groups, in an order in which they can be computed."""

    graph: Graph
    groups: tuple[Group, ...]

    def __str__(self) -> str:
        return "".join(f"{group}\n" for group in self.groups)


def overwritable(graph: Graph, group: Group) -> tuple[str, ...]:
    """The inputs of the group of which each element is read only to compute the element of the
    result at its place: the result may take their storage.
    """
    result = graph.values[group.output]
    elsewhere: set[str] = set()         # values of which some element is read for another place

    def is_mapped(value: str) -> bool:
        return value not in elsewhere and graph.values[value].shape == result.shape

    for node in reversed(group.nodes):
        if find(node.op).kind is Kind.ELEMENTWISE and is_mapped(node.outputs[0]):
            elsewhere.update(_parameters(node))
        else:
            elsewhere.update(node.inputs)
    width = numpy_dtype(result.dtype).itemsize
    return tuple(value for value in group.inputs
                 if numpy_dtype(graph.values[value].dtype).itemsize == width and is_mapped(value))


def _parameters(node: Node) -> tuple[str, ...]:
    """The inputs that are no data."""
    data = node.inputs[:find(node.op).data_inputs]
    return node.inputs[len(data):]


def separate(graph: Graph) -> Groups:
    """Every node by itself."""
    return Groups(graph, tuple(Group.of([node], graph) for node in graph.nodes))


def fuse(graph: Graph, attention: Attention | None = None, longest_row: int = LONGEST_ROW
         ) -> Groups:
    """Before: a verified graph. After: every node in exactly one group, by the rules above. Rows
    have `longest_row` elements at most.

    An injective operator is not fused into a reader that would compute its elements more than
    once, and no further than `MOST_COPIES` and `MOST_INPUTS`. Views at the ends of a group stay by
    themselves: they cost nothing.
    """
    return _Fusion(graph, attention, longest_row).run()


def immediate_post_dominators(graph: Graph) -> dict[str, Node | None]:
    """For each node, by name, the first node after it on every path from it to an output of the
    graph or to a value that nobody reads; None where there is no such node.
    """
    readers, outputs = graph.consumers(), set(graph.outputs)
    dominators: dict[str, Node | None] = {}
    depth: dict[str | None, int] = {None: 0}

    def meet(a: Node | None, b: Node | None) -> Node | None:
        while a is not b:
            deeper = a if depth[_name(a)] >= depth[_name(b)] else b
            assert deeper is not None
            above = dominators[deeper.name]
            a, b = (above, b) if deeper is a else (a, above)
        return a

    for node in reversed(graph.nodes):
        after = [reader for value in node.outputs for reader in readers[value]]
        nearest: Node | None = after[0] if after and not outputs & {*node.outputs} else None
        for reader in after[1:]:
            nearest = meet(nearest, reader)
        dominators[node.name] = nearest
        depth[node.name] = depth[_name(nearest)] + 1
    return dominators


def _is_apart(node: Node) -> bool:
    return bool(node.attrs.get("apart"))


def _name(node: Node | None) -> str | None:
    return None if node is None else node.name


@dataclass(slots=True)
class _Fusion:
    """One run: `size` has the elements of each value, `row` what `_row` says of each node; `home`
    the members of each node's group, one dictionary for all of them; `times` what `_times` says.
    """

    graph: Graph
    attention: Attention | None
    longest_row: int
    readers: Mapping[str, tuple[Node, ...]] = field(init=False)
    writers: Mapping[str, Node] = field(init=False)
    after: Mapping[str, Node | None] = field(init=False)
    place: Mapping[str, int] = field(init=False)
    size: Mapping[str, int] = field(init=False)
    row: Mapping[str, tuple[tuple[int, ...], int] | None] = field(init=False)
    home: dict[str, dict[str, Node]] = field(init=False)
    times: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self):
        self.readers = self.graph.consumers()
        self.writers = {node.outputs[0]: node for node in self.graph.nodes}
        self.after = immediate_post_dominators(self.graph)
        self.place = {node.name: at for at, node in enumerate(self.graph.nodes)}
        self.size = {value: prod(type_.shape) for value, type_ in self.graph.values.items()}
        self.row = {node.name: self._row(node) for node in self.graph.nodes}
        self.home = {node.name: {node.name: node} for node in self.graph.nodes}

    def run(self) -> Groups:
        # The last first: where two results are added, the other one is there already by then.
        for node in reversed(self.graph.nodes):
            if find(node.op).kind is Kind.COMPLEX:
                self._map_result(node)
        for node in reversed(self.graph.nodes):
            self._into_row(node)
        if self.attention:
            for node in self.graph.nodes:
                self._attend(node, self.attention)
        for node in self.graph.nodes:
            if find(node.op).kind <= Kind.INJECTIVE:
                self._into_reader(node)
        for node in self.graph.nodes:
            self._widened_there(node)
        return self._groups()

    def _map_result(self, node: Node) -> None:
        """Fuses what is computed element by element from the result of a complex operator."""
        def maps(other: Node) -> bool:
            return (find(other.op).kind is Kind.ELEMENTWISE
                    and self._shape(other) == self._shape(node)
                    and len(self.home[other.name]) == 1)

        last: Node | None = node
        while last is not None and (last := self._fused(last, maps, maps)) is not None:
            pass

    def _into_row(self, node: Node) -> None:
        """Fuses what computes rows with what goes on with the same rows."""
        def moves(other: Node) -> bool:
            return all(self.row[name] for name in self.home[other.name])

        if moves(node):
            self._fused(node, moves, moves, self._are_rows)

    def _attend(self, last: Node, accepts: Attention) -> None:
        """Fuses a product with the functions of rows that it reads, and these with the product that
        they are of, where nobody else reads them.
        """
        if find(last.op).kind is not Kind.COMPLEX:
            return
        made = self.writers.get(last.inputs[0])
        if made is None or self.readers[made.outputs[0]] != (last,) or _is_apart(made) or (
                made.outputs[0] in self.graph.outputs):
            return
        rows = self.home[made.name]
        if not any(find(node.op).kind is Kind.REDUCTION for node in rows.values()):
            return
        shape = self._shape(made)
        given = {writer.name for node in rows.values() for writer in self._writers_for(node)
                 if writer.name not in rows}
        products = [first for name in given if any(map(_is_complex, self.home[name].values()))
                    and self._shape(self._sorted(first := self.home[name])[-1]) == shape]
        if len(products) != 1:
            return
        first, = products
        scores = self._sorted(first)[-1]
        if scores.outputs[0] in self.graph.outputs or _is_apart(scores) or any(
                reader.name not in rows for reader in self.readers[scores.outputs[0]]):
            return
        members = first | rows | self.home[last.name]
        if sum(map(_is_complex, members.values())) != 2:
            return
        longest = self._longer(members, lambda members: True)
        if self._is_accepted(longest, accepts):
            members = longest
        elif self._is_accepted(members, accepts):
            members = self._longer(members, lambda members: self._is_accepted(members, accepts))
        else:
            return
        result = self._sorted(members)[-1].outputs[0]
        if len(behind := self.readers[result]) == 1 and result not in self.graph.outputs:
            node, = behind
            longer = members | {node.name: node}
            if self._chooses(node) and self._is_accepted(longer, accepts):
                members = longer
        members = {node.name: node for node in self._without_ends(members)}
        for member in members:
            self.home[member] = members

    def _longer(self, members: dict[str, Node],
                accepts: Callable[[Mapping[str, Node]], bool]) -> dict[str, Node]:
        """The nodes, and what only chooses elements for these alone."""
        waiting = {self.place[writer.name] for node in members.values()
                   for writer in self._writers_for(node)}
        while waiting:
            waiting.remove(last := max(waiting))
            node = self.graph.nodes[last]
            if self._chooses_for(node, members) and accepts(
                    longer := members | {node.name: node}):
                members = longer
                waiting |= {self.place[writer.name] for writer in self._writers_for(node)}
        return members

    def _writers_for(self, node: Node) -> list[Node]:
        """The nodes of which a node reads the first result."""
        return [self.writers[value] for value in node.inputs if value in self.writers]

    def _is_accepted(self, members: Mapping[str, Node], accepts: Attention) -> bool:
        group = Group.of(self._without_ends(members), self.graph)
        return len(group.inputs) <= MOST_INPUTS and accepts(self.graph, group)

    def _without_ends(self, members: Mapping[str, Node]) -> list[Node]:
        return _without_views(self.graph, self._sorted(members))[0]

    def _chooses_for(self, node: Node, members: Mapping[str, Node]) -> bool:
        """True if a node only chooses elements for these nodes alone."""
        readers = self.readers[node.outputs[0]]
        return (self._chooses(node) and len(readers) > 0
                and all(reader.name in members for reader in readers)
                and node.outputs[0] not in self.graph.outputs)

    def _chooses(self, node: Node) -> bool:
        """True if a node only chooses elements of a value, none of them twice, and is alone yet."""
        return (find(node.op).picks and find(node.op).kind is Kind.INJECTIVE
                and len(self.home[node.name]) == 1
                and self.size[node.outputs[0]] <= self.size[node.inputs[0]])

    def _row(self, node: Node) -> tuple[tuple[int, ...], int] | None:
        """The outer extents of the rows that a node computes, or sums up, and how long they are, 1
        where that is open; None where it does not compute by rows.
        """
        operator, shape = find(node.op), self._shape(node)
        if len(shape) < 2:
            return None
        if operator.kind is Kind.ELEMENTWISE:
            return (shape[:-1], shape[-1]) if shape[-1] <= self.longest_row else None
        given = self.graph.values[node.inputs[0]]
        if (operator.kind is Kind.REDUCTION and given.dtype == "float32"
                and node.attrs.get("keepdims") and tuple(node.attrs["axes"]) == (len(shape) - 1,)
                and 1 < given.shape[-1] <= self.longest_row):
            return given.shape[:-1], given.shape[-1]
        return None

    def _into_reader(self, node: Node) -> None:
        """Fuses an injective operator into the injective ones, or the reduction, that read it."""
        def moves(other: Node) -> bool:
            return find(other.op).kind <= Kind.INJECTIVE and not self._reduces(other)

        if moves(node):
            self._fused(node, moves,
                        lambda other: moves(other) or find(other.op).kind is Kind.REDUCTION
                        and len(self.home[other.name]) == 1)

    def _widened_there(self, node: Node) -> None:
        """Fuses what makes elements wider into the only one that reads them, each once, whatever
        that is fused with: no group waits for the other in a circle, since a group's result is all
        that is read from outside.
        """
        if find(node.op).kind is not Kind.ELEMENTWISE or len(self.home[node.name]) > 1 or len(
                node.inputs) != 1 or node.outputs[0] in self.graph.outputs:
            return
        readers, (source,) = self.readers[node.outputs[0]], node.inputs
        widths = [numpy_dtype(self.graph.values[value].dtype).itemsize
                  for value in (source, node.outputs[0])]
        if len(readers) != 1 or source in self.graph.constants or widths[0] >= widths[1]:
            return
        reader, = readers
        members = self.home[reader.name] | {node.name: node}
        if (find(reader.op).kind is Kind.ELEMENTWISE and self._shape(reader) == self._shape(node)
                and len(members) <= MOST_COPIES
                and len(Group.of(self._sorted(members), self.graph).inputs) <= MOST_INPUTS):
            for member in members:
                self.home[member] = members

    def _fused(self, node: Node, inside: Callable[[Node], bool],
               end: Callable[[Node], bool],
               together: Callable[[list[Node]], bool] | None = None) -> Node | None:
        """Fuses all from the node to its post-dominator, and gives that; None if it may not be."""
        last = self.after[node.name]
        if last is None or _is_apart(node) or not end(last):
            return None
        between = self._between(node, last)
        if len(between) > MOST_COPIES or not all(map(inside, between.values())) or any(
                map(_is_apart, between.values())):
            return None
        members = {name: other for member in (node, *between.values(), last)
                   for name, other in self.home[member.name].items()}
        if not (together or self._is_cheap)(self._sorted(members)):
            return None
        for name in members:
            self.home[name] = members
        return last

    def _between(self, node: Node, last: Node) -> dict[str, Node]:
        """The nodes on all paths between the two; where there are too many for a group, some."""
        between: dict[str, Node] = {}
        waiting = [node]
        while waiting and len(between) <= MOST_COPIES:
            for reader in self.readers[waiting.pop().outputs[0]]:
                if reader is not last and reader.name not in between:
                    between[reader.name] = reader
                    waiting.append(reader)
        return between

    def _is_cheap(self, nodes: list[Node]) -> bool:
        """True if little is computed or written out more than once, from few inputs."""
        members = {node.outputs[0]: node for node in nodes}
        if len({value for node in nodes for value in node.inputs} - members.keys()) > MOST_INPUTS:
            return False
        copies = dict.fromkeys(members, 0) | {nodes[-1].outputs[0]: 1}
        for node in reversed(nodes):
            times = self._times(node) if copies.keys() & {*node.inputs} else ()
            for value, count in zip(node.inputs, times):
                if value not in members:
                    continue
                copies[value] += count * copies[node.outputs[0]]
                if self.size[node.outputs[0]] > self.size[value] and not (
                        find(node.op).joins):
                    return False
        return sum(copies.values()) <= MOST_COPIES

    def _times(self, node: Node) -> tuple[int, ...]:
        """The number of times that an element-wise operator's expression has each of its inputs, at
        least once: ``x if x > 0 else a * x`` has x three times."""
        if find(node.op).kind is not Kind.ELEMENTWISE:
            return (1,) * len(node.inputs)
        if node.name not in self.times:
            inputs = [te.placeholder(self.graph.values[value].shape, self.graph.values[value].dtype,
                                     f"x{place}") for place, value in enumerate(node.inputs)]
            body = find(node.op).define(node.attrs, inputs, "y").body
            parts = te.walk(body) if isinstance(body, te.Expr) else ()
            reads = Counter(part.buffer.name for part in parts if isinstance(part, te.Read))
            self.times[node.name] = tuple(max(1, reads[one.name]) for one in inputs)
        return self.times[node.name]

    def _are_rows(self, nodes: list[Node]) -> bool:
        """True if they compute the same rows, from few inputs. Where rows are summed up, what is
        read more than once is stored, a row at a time; else it is computed again.
        """
        rows = [row for node in nodes if (row := self.row[node.name])]
        outer, lengths = {row[0] for row in rows}, {row[1] for row in rows} - {1}
        if len(outer) > 1 or len(lengths) > 1 or len(nodes) > MOST_COPIES:
            return False
        if all(find(node.op).kind is Kind.ELEMENTWISE for node in nodes):
            return self._is_cheap(nodes)
        return len(Group.of(nodes, self.graph).inputs) <= MOST_INPUTS

    def _groups(self) -> Groups:
        """The groups in the order of their last nodes: inputs come from groups that end earlier."""
        different = {id(members): members for members in self.home.values()}
        groups = [part for members in different.values()
                  for part in _without_views(self.graph, self._sorted(members))]
        groups.sort(key=lambda nodes: self.place[nodes[-1].name])
        return Groups(self.graph, tuple(Group.of(nodes, self.graph) for nodes in groups))

    def _sorted(self, members: Mapping[str, Node]) -> list[Node]:
        return sorted(members.values(), key=lambda node: self.place[node.name])

    def _reduces(self, node: Node) -> bool:
        return any(find(member.op).kind in (Kind.REDUCTION, Kind.COMPLEX)
                   for member in self.home[node.name].values())

    def _shape(self, node: Node) -> tuple[int, ...]:
        return self.graph.values[node.outputs[0]].shape


def _is_complex(node: Node) -> bool:
    return find(node.op).kind is Kind.COMPLEX


def _without_views(graph: Graph, nodes: list[Node]) -> list[list[Node]]:
    """The group with views at its ends taken off, and each of those by itself."""
    rest, alone = list(nodes), []
    while len(rest) > 1 and (ends := [node for node in rest if _is_end(graph, node, rest)]):
        rest.remove(ends[0])
        alone.append([ends[0]])
    return [rest, *alone]


def _is_end(graph: Graph, node: Node, nodes: list[Node]) -> bool:
    """True if it is a view that reads nothing of the group, or a reshape that is its result. A
    slice that is the result stays: nothing else of what it reads is computed.
    """
    written = {member.outputs[0] for member in nodes}
    return (node.op == "reshape" and node is nodes[-1]
            or node.inputs[0] not in written and _is_view(graph, node))


def _is_view(graph: Graph, node: Node) -> bool:
    """True if the result is the operand's elements, from one to another, as they lie there."""
    view = find(node.op).view
    return view is not None and view(node.attrs, graph.values[node.inputs[0]].shape,
                                     graph.values[node.outputs[0]].shape)
