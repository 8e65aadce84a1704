"""How the values of a graph lie in memory, as text."""

from collections.abc import Iterator

from accel.mapping.borders import layout_of
from accel.mapping.forms import Forms
from accel.mapping.views import Stored, View
from compiler.graph.graph import Graph, Node
from compiler.texts import Part, PartedText

__all__ = ["forms_text"]


def forms_text(graph: Graph, forms: Forms) -> PartedText:
    """A part for each node, about its result; in front of them what the segment is given."""
    def given() -> Iterator[str]:
        for value in (*graph.inputs, *graph.constants):
            if value in forms.owner:
                yield from _value_lines(forms, value)

    return PartedText([Part((node.name,), lambda node=node: _node_lines(forms, node))
                       for node in graph.nodes], given)


def _node_lines(forms: Forms, node: Node) -> Iterator[str]:
    yield f"{node.name}: {node.op}"
    if node.name in forms.refused:
        yield f"  refused: {forms.refused[node.name]}"
    elif node.name in forms.copies:
        yield "  copies {} to {}".format(*map(_form_text, forms.copies[node.name]))
    elif forms.moves_nothing(node):
        yield "  moves nothing: its result is a view of its input"
    for value in node.outputs:
        yield from _value_lines(forms, value, "  ")


def _value_lines(forms: Forms, value: str, indent: str = "") -> Iterator[str]:
    kind, owner, part = forms.graph.values[value], forms.owner.get(value), forms.parts.get(value)
    yield f"{indent}{value}: {kind}"
    stored = forms.stored.get(value)
    if stored is None:
        yield f"{indent}  lies nowhere in the accelerator's memory"
    elif isinstance(stored, View):
        yield f"{indent}  {_form_text(stored)}"
    else:
        shape = list(stored.stored_shape(forms.blocks))
        yield f"{indent}  {layout_of(stored, kind.shape)} {shape}"
    if owner not in (None, value):
        yield f"{indent}  in the memory of {owner}"
    if part is not None:
        strides = f", strides {list(part.strides)}" if part.strides else ""
        yield f"{indent}  from element {part.offset} of it{strides}"
    if value in forms.joined:
        yield f"{indent}  written where {forms.joined[value]} joins it to others"


def _form_text(x: Stored) -> str:
    if not isinstance(x, View):
        return str(x)
    begin = f" from element {x.offset}" if x.offset else ""
    return f"strides {list(x.strides)} of {list(x.shape)}{begin} in {x.size} elements"
