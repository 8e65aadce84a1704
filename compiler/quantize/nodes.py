"""ONNX nodes as values: copies instead of changes."""

from collections.abc import Iterable, Sequence
from typing import Any

from onnx import GraphProto, NodeProto, helper

__all__ = ["Names", "attribute", "read_by", "rewired"]


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """The attribute's value, strings as text."""
    for one in node.attribute:
        if one.name == name:
            value = helper.get_attribute_value(one)
            return value.decode() if isinstance(value, bytes) else value
    return default


def rewired(node: NodeProto, inputs: Sequence[str] | None = None,
            outputs: Sequence[str] | None = None) -> NodeProto:
    """The node between other values."""
    made = NodeProto()
    made.CopyFrom(node)
    if inputs is not None:
        del made.input[:]
        made.input.extend(inputs)
    if outputs is not None:
        del made.output[:]
        made.output.extend(outputs)
    return made


def read_by(node: NodeProto) -> list[str]:
    """The values that a node reads, those that its subgraphs take from outside included."""
    read = [value for value in node.input if value]
    for one in node.attribute:
        for graph in (*([one.g] if one.HasField("g") else ()), *one.graphs):
            read.extend(_captured(graph))
    return read


def _captured(graph: GraphProto) -> Iterable[str]:
    own = {value.name for value in graph.input} | {one.name for one in graph.initializer}
    own.update(value for node in graph.node for value in node.output)
    read = [value for node in graph.node for value in read_by(node)]
    return [value for value in (*read, *(one.name for one in graph.output)) if value not in own]


class Names:
    """Names that nothing uses yet."""

    def __init__(self, taken: Iterable[str]):
        self._taken = set(taken)

    def fresh(self, stem: str) -> str:
        """The stem, or the stem and a number."""
        name, count = stem, 1
        while name in self._taken:
            name, count = f"{stem}_{count}", count + 1
        self._taken.add(name)
        return name
