"""The record of how values lie in memory, which `accel.mapping.memory.deciding` fills.

Reshapes and transposes move nothing where strides can express them and all readers take strides:
products of computed matrices, and further views. A concatenation that changes no scale moves
nothing where its inputs can be written as parts of its result; nor does a slice whose readers can
read a part of its input.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accel.mapping.memory.nodes import is_view
from accel.mapping.memory.views import Stored, View, images, rows, view_of
from accel.mapping.operators.blocked import Activation, Blocks
from compiler.graph.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class PartForm:
    """Images that lie among those of another value: their first element, and the distance in
    elements of images, rows, columns and batch lanes; () for rows that lie one after the other as
    their own would. `writable` channels are its own, padding included; 0 where it is only read.
    """

    offset: int
    strides: tuple[int, ...]
    writable: int = 0


@dataclass(frozen=True, slots=True)
class Wishes:
    """The wishes of a value's readers: `rows` if all want rows of matrices that may be of the
    accelerator; `strides` if all take any strides. `against` is the first that wants no rows.
    """

    rows: bool
    strides: bool
    against: str = ""


@dataclass(frozen=True, slots=True)
class ValueForm:
    """The way in which a value lies in memory.

    shape : its extents in the graph.
    owner : the value whose memory holds it: itself, or another for views and parts.
    stored : its images or rows, or strides; None for what the accelerator does not read.
    part : where it lies among the images of its owner.
    copy : source and destination of a view that is a copy.
    holds : the inputs of a concatenation that need no layer, since they are written into it.
    refused : why the accelerator cannot make it.
    why : what decided; for the reader of the text.
    """

    shape: tuple[int, ...]
    owner: str
    stored: Stored | None = None
    part: PartForm | None = None
    copy: tuple[View, View] | None = None
    holds: tuple[str, ...] = ()
    refused: str = ""
    why: str = field(default="", compare=False)

    @property
    def as_rows(self) -> bool:
        """True where it lies as the rows of one matrix."""
        return self._is(rows(self.shape))

    @property
    def as_images(self) -> bool:
        """True where it lies as images if it has four dimensions, else as rows."""
        return self._is(images(self.shape))

    @property
    def is_image(self) -> bool:
        """True where it has four dimensions and lies as images."""
        return len(self.shape) == 4 and self.as_images

    def _is(self, form: Activation) -> bool:
        return isinstance(self.stored, Activation) and replace(self.stored, plain=False) == form


@dataclass(frozen=True, eq=False)
class Forms:
    """The form of every value of a graph.

    Parameters
    ----------
    operators : operators whose results the accelerator makes; all other values are inputs, plain,
        and so are constants that are data.
    readers, producers : those of the graph.

    What the steps of `accel.mapping.memory.deciding` add, in this order:

    wishes : what the readers of each value agree to.
    by_strides : names of the concatenations and slices of tensors that lie as rows of matrices;
        all others are of images, or of vectors, block by block.
    values : how each value lies that is data of at least one node.
    """

    graph: Graph
    blocks: Blocks
    operators: frozenset[str]
    readers: Mapping[str, tuple[Node, ...]]
    producers: Mapping[str, Node]
    wishes: Mapping[str, Wishes] = field(default_factory=dict)
    by_strides: frozenset[str] = frozenset()
    values: Mapping[str, ValueForm] = field(default_factory=dict)

    def __getitem__(self, value: str) -> Activation:
        """The form of a value that is no view of another."""
        x = self.values[value].stored
        assert isinstance(x, Activation)
        return x

    def stored(self, value: str) -> Stored | None:
        """The form of a value; None for what the accelerator does not read."""
        return self.values[value].stored if value in self.values else None

    def part(self, value: str) -> PartForm | None:
        """The place of a value among the images of another."""
        return self.values[value].part if value in self.values else None

    def view(self, value: str) -> View | None:
        """The strides of a value; None where strides cannot describe it."""
        x = self.values[value].stored
        return view_of(x, self.shape(value), self.blocks) if isinstance(x, Activation) else x

    def size(self, value: str) -> int:
        """The elements of a value in memory, padding included."""
        x = self.values[value].stored
        assert x is not None
        return x.size if isinstance(x, View) else math.prod(x.stored_shape(self.blocks))

    def shape(self, value: str) -> tuple[int, ...]:
        return self.graph.values[value].shape

    def room(self, value: str) -> int:
        """The channels of its own that a value has in memory, padding included."""
        part = self.part(value)
        return part.writable if part else self.blocks.padded(self[value].c)

    def of(self, node: Node) -> ValueForm:
        """The form of a node's result."""
        return self.values[node.outputs[0]]

    def is_here(self, node: Node) -> bool:
        """True for a node that may be of the accelerator: the host takes values in any form."""
        return node.op in self.operators or is_view(self.graph, node)

    def moves_nothing(self, node: Node) -> bool:
        """True for a node that only says where elements of its input lie."""
        result = self.of(node)
        return result.copy is None and (is_view(self.graph, node) or node.op == "slice" and (
            node.name in self.by_strides or result.part is not None))

    def is_same(self, other: "Forms", node: Node) -> bool:
        """True where a node reads and writes the same tensors, which lie in the same way, there."""
        return all(self.lies_as(other, value) for value in (*node.inputs, *node.outputs))

    def lies_as(self, other: "Forms", value: str) -> bool:
        return self._lies(value) == other._lies(value)

    def _lies(self, value: str) -> tuple[object, ...]:
        return self.graph.values[value], self.values.get(value)
