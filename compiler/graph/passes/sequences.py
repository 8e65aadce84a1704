"""Sequences [N,C,L] as images of one row, [N,C,1,L], all the way between operators of images."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.operator import Kind, Numbers
from compiler.ops.registry import find

PLACES = {"slice": ("begin", "end", "step"), "pad": ("before", "after", "between")}
"""Attributes with a number for each axis, and the number that a further axis has."""
WHOLE = {"begin": 0, "end": 1, "step": 1, "before": 0, "after": 0, "between": 0}


@dataclass(frozen=True, slots=True)
class SequencesAsImages:
    """add(reshape(conv2d(x)), k) -> reshape(add(conv2d(x), k)), where the reshape takes away the
    only row of images: importers write convolutions and pools over one axis as those of images of
    one row, between two reshapes.

    Before: any graph. After: what stands between two such reshapes and computes elements at their
    places, joins, cuts or pads, works on images, and the reshapes stand where sequences begin and
    end. Every element is the same to the bit; inputs and outputs of the graph keep their types.
    """

    name: ClassVar[str] = "sequences-as-images"

    def __call__(self, graph: Graph) -> Graph:
        seeds = _seeds(graph)
        return _Rewriting(graph, seeds, _sequences(graph, seeds)).run() if seeds else graph


def _seeds(graph: Graph) -> set[str]:
    """The results of reshapes that give a sequence its only row where an operator of images reads
    it, or take it where one made it; elementwise operators may stand between.
    """
    made, read, seeds = _beside_images(graph), _beside_images(graph, backwards=True), set[str]()
    for node in graph.nodes:
        if node.op == "reshape":
            source, result = node.inputs[0], node.outputs[0]
            before, after = (graph.values[value].shape for value in (source, result))
            given = result in read and len(before) == 3 and after == _as_image(before)
            taken = source in made and len(after) == 3 and before == _as_image(after)
            if given or taken:
                seeds.add(result)
    return seeds


def _beside_images(graph: Graph, backwards: bool = False) -> set[str]:
    """The values that operators of images make, or that these read where `backwards`, and what
    elementwise operators make of them, or make them of.
    """
    found = set[str]()
    for node in reversed(graph.nodes) if backwards else graph.nodes:
        here, there = (node.outputs, node.inputs) if backwards else (node.inputs, node.outputs)
        passed = find(node.op).kind is Kind.ELEMENTWISE and not found.isdisjoint(here)
        if passed or _is_of_images(node):
            found.update(there)
    return found


def _is_of_images(node: Node) -> bool:
    """True if the operator has windows, or planes, of images."""
    operator = find(node.op)
    matrices = operator.weights is not None and operator.weights.axis < 0
    return (operator.numbers is Numbers.FLOAT and not matrices
            and operator.kind in (Kind.REDUCTION, Kind.COMPLEX))


def _as_image(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with an axis of one row before the last; of two dimensions at least."""
    return (*shape[:-1], 1, *shape[-1:])


def _sequences(graph: Graph, seeds: Collection[str]) -> set[str]:
    """The values that become images: those that seeds reshape, and all that are joined with them by
    operators that work on images as well.
    """
    found = {value for node in graph.nodes if node.outputs[0] in seeds
             for value in (*node.inputs, *node.outputs) if len(graph.values[value].shape) == 3}
    carriers = [(node, values) for node in graph.nodes if (values := _carried(graph, node))]
    before = -1
    while len(found) != before:
        before = len(found)
        for _, values in carriers:
            if not found.isdisjoint(values):
                found.update(values)
    return found


def _carried(graph: Graph, node: Node) -> tuple[str, ...]:
    """The sequences that the node reads and makes, where it does the same to images; else none."""
    operator = find(node.op)
    if operator.kind is not Kind.ELEMENTWISE and node.op not in ("concat", *PLACES):
        return ()
    data = node.inputs[:operator.data_inputs]
    computed = [value for value in data if value not in graph.constants] or list(data)
    values = (*computed, *node.outputs)
    return values if all(len(graph.values[value].shape) == 3 for value in values) else ()


@dataclass(slots=True)
class _Rewriting:
    """One run. `images` names the image that each sequence is, `missing` the sequences that are
    only there as images so far.
    """

    graph: Graph
    seeds: set[str]
    sequences: set[str]
    builder: Builder = field(init=False)
    images: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def __post_init__(self):
        self.builder = Builder.like(self.graph)

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if node.outputs[0] in self.seeds:
                self._seed(node)
            elif self.sequences.intersection(_carried(self.graph, node)):
                self._carry(node)
            else:
                self.builder.add(replace(node, inputs=tuple(map(self._sequence, node.inputs))))
        for value in self.graph.outputs:
            self._sequence(value)
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    def _seed(self, node: Node) -> None:
        source, result = node.inputs[0], node.outputs[0]
        if len(self.graph.values[result].shape) == 3:
            self.images[result] = source
            self.missing.add(result)
        else:
            self.builder.emit("identity", node.name, [self._image(source)], result)

    def _carry(self, node: Node) -> None:
        data = find(node.op).data_inputs
        result = node.outputs[0]
        image = self.images[result] = self.builder.fresh(f"{result}_image")
        inputs = (*map(self._image, node.inputs[:data]),
                  *(node.inputs[data:] if data is not None else ()))
        self.builder.add(Node(node.op, node.name, inputs, (image,), dict(_attributes(node))))
        self.missing.add(result)

    def _image(self, value: str) -> str:
        """The image that a sequence is; constants of fewer dimensions as they broadcast to one."""
        shape = self.graph.values[value].shape
        if len(shape) < 2:
            return value
        if value not in self.images:
            name = self.images[value] = self.builder.fresh(f"{value}_image")
            if value in self.graph.constants:
                self.builder.add_constant(name, self.graph.constants[value].reshape(
                    _as_image(shape)))
            else:
                self.builder.emit("reshape", self.builder.fresh_node(f"{value}.image"), [value],
                                  name, shape=_as_image(shape))
        return self.images[value]

    def _sequence(self, value: str) -> str:
        """The value itself, made from its image where nothing else has made it."""
        if value in self.missing:
            self.missing.remove(value)
            self.builder.emit("reshape", self.builder.fresh_node(f"{value}.sequence"),
                              [self.images[value]], value, shape=self.graph.values[value].shape)
        return value


def _attributes(node: Node) -> Iterator[tuple[str, object]]:
    """The attributes for images."""
    attrs: Mapping = node.attrs
    for name, value in attrs.items():
        if name in PLACES.get(node.op, ()):
            yield name, (*value[:2], WHOLE[name], *value[2:])
        else:
            yield name, 3 if name == "axis" and value in (2, -1) else value
