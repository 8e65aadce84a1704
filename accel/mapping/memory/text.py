"""The forms of a graph's values as text: one line for each value."""

from collections.abc import Iterator, Mapping

from accel.mapping.lowering import TensorPlacement
from accel.mapping.memory.forms import Forms, ValueForm
from accel.mapping.operators.blocked import Activation, Blocks
from accel.mapping.views import View

__all__ = ["forms_text"]


def forms_text(forms: Forms, places: Mapping[str, TensorPlacement] | None = None) -> str:
    """How each value lies, in columns: name, type, form, shape in entries (`/` what one entry has),
    whose memory it lies in from which element on, the address where `places` says it, and why.
    """
    rows = [[str(cell) for cell in (value, forms.graph.values[value], _kind(form), _extents(
        form, forms.blocks), _memory(value, form, places or {}), form.refused or form.why)]
        for value, form in forms.values.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: list[str], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _kind(form: ValueForm) -> str:
    """A word or two for the form: ``joined images``."""
    return " ".join(_words(form))


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
        yield "none" if x is None else "strides"


def _extents(form: ValueForm, blocks: Blocks) -> str:
    """Images, rows, columns and blocks of channels; or the strides of all dimensions."""
    x = form.stored
    if x is None:
        return "-"
    if isinstance(x, View):
        return _list(x.strides)
    groups, height, width = x.stored_shape(blocks)[:3]
    if x.plain:
        return f"{_list((groups, height, width, x.c))}/1"
    across = x.channel_blocks(blocks, blocks.channels)
    return f"{_list((groups, height, width, across))}/{blocks.batch}x{blocks.channels}"


def _list(numbers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _memory(value: str, form: ValueForm, places: Mapping[str, TensorPlacement]) -> str:
    """Whose memory, from which element on, and where that memory is."""
    offset = form.part.offset if form.part else 0
    offset += form.stored.offset if isinstance(form.stored, View) else 0
    place = places.get(form.owner)
    return " ".join((form.owner if form.owner != value else "own", *([f"+{offset}"] * (offset > 0)),
                     *([f"at {place.base}+{place.offset}"] if place else ())))
