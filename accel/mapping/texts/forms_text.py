"""The forms of values in memory as text, by the nodes that make them."""

from collections.abc import Iterator, Mapping

from accel.mapping.lowering import TensorPlacement
from accel.mapping.memory.forms import Forms, ValueForm
from accel.mapping.memory.views import View
from accel.mapping.operators.blocked import Activation, Blocks
from compiler.texts import Part, PartedText, wrapped


def forms_text(forms: Forms, places: Mapping[str, TensorPlacement]) -> PartedText:
    """A part for each node, about its result; in front of them what the segment is given. `places`
    says where values lie that have memory of their own, as far as that is known.
    """
    def lines(value: str, indent: int = 0) -> Iterator[str]:
        if value in forms.values:
            yield from wrapped(_value_text(forms, value, places), indent)

    def given() -> Iterator[str]:
        yield "[images,rows,columns,channels]/1 are elements; /AxB entries of A images, B channels"
        for value in (*forms.graph.inputs, *forms.graph.constants):
            yield from lines(value)

    def made(name: str, op: str, values: tuple[str, ...]) -> Iterator[str]:
        yield f"{name}: {op}"
        for value in values:
            yield from lines(value, 2)

    return PartedText([Part((node.name,), lambda node=node: made(node.name, node.op, node.outputs))
                       for node in forms.graph.nodes], given)


def _value_text(forms: Forms, value: str, places: Mapping[str, TensorPlacement]) -> str:
    """Name, type, form, extents, whose memory it is, where that is, and why."""
    form, place = forms.values[value], places.get(forms.values[value].owner)
    parts = [str(forms.graph.values[value]),
             " ".join((*_words(form), _extents(form, forms.blocks))).strip(),
             f"in {form.owner}{_begin(form)}" if form.owner != value else "",
             f"at {place.base}+{place.offset}" if place else ""]
    return f"{value}: {', '.join(filter(None, parts))}; {form.refused or form.why}"


def _words(form: ValueForm) -> Iterator[str]:
    if form.refused:
        yield "refused"
        return
    if form.copy:
        yield "copied"
    if form.part:
        yield "joined" if form.part.writable else "cut" if form.part.strides else "part of"
    x = form.stored
    if isinstance(x, Activation):
        if x.plain:
            yield "plain"
        yield "images" if form.is_image else "rows" if form.as_rows else "flat images"
    else:
        yield "nowhere" if x is None else "strides"


def _extents(form: ValueForm, blocks: Blocks) -> str:
    """Images, rows, columns and blocks of channels; or the strides of all dimensions."""
    x = form.stored
    if x is None or form.refused:
        return ""
    if isinstance(x, View):
        return _list(x.strides)
    groups, height, width = x.stored_shape(blocks)[:3]
    if x.plain:
        return f"{_list((groups, height, width, x.c))}/1"
    across = x.channel_blocks(blocks, blocks.block_out)
    return f"{_list((groups, height, width, across))}/{blocks.batch}x{blocks.block_out}"


def _list(numbers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _begin(form: ValueForm) -> str:
    """The first element in another value's memory, unless that is its first."""
    offset = form.part.offset if form.part else 0
    offset += form.stored.offset if isinstance(form.stored, View) else 0
    return f" from element {offset} on" if offset else ""
