"""The last steps: channels that are joined, and images that are cut, without a layer."""

from collections.abc import Sequence
from dataclasses import replace

from accel.mapping.memory.forms import Forms, PartForm, ValueForm
from accel.mapping.memory.nodes import is_of_rows, is_view, keeps_scale
from accel.mapping.operators.blocked import Activation
from compiler.graph.graph import Node


def joined(forms: Forms) -> Forms:
    """Decides which inputs of concatenations of channels are written among the channels of the
    result, the last concatenation first: one may be part of another.
    """
    values = dict(forms.values)
    sofar = replace(forms, values=values)
    for node in reversed(forms.graph.nodes):
        if (node.op == "qconcat" and node.attrs.get("axis", 1) == 1
                and forms.stored(node.outputs[0]) is not None
                and node.name not in forms.by_strides):
            values |= _joined(sofar, node)
    return sofar


def cut(forms: Forms) -> Forms:
    """Decides which slices of images are read where their sources lie."""
    values = dict(forms.values)
    sofar = replace(forms, values=values)
    for node in forms.graph.nodes:
        if node.op == "slice" and node.name not in forms.by_strides:
            values |= _cut(sofar, node)
    return sofar


def _joined(forms: Forms, node: Node) -> dict[str, ValueForm]:
    """The inputs of a concatenation that become parts of its result, and the result with these."""
    result, at = node.outputs[0], 0
    whole, around = forms.values[result], forms.part(result) or _whole(forms, result)
    parts: dict[str, ValueForm] = {}
    for index, value in enumerate(node.inputs):
        channels = forms.shape(value)[1]
        last = index == len(node.inputs) - 1
        own = forms.room(result) - at if last else channels
        if (keeps_scale(node, index, forms.blocks.element) and _can_be_part(forms, node, value)
                and own <= forms.blocks.padded(channels)):
            parts[value] = replace(
                forms.values[value], owner=whole.owner, why=f"channels {at} and on of {result}",
                part=replace(around, offset=around.offset + at, writable=own))
        at += channels
    return parts | {result: replace(whole, holds=tuple(parts))}


def _whole(forms: Forms, value: str) -> PartForm:
    """Images with memory of their own, as a part that is the whole."""
    x, batch = forms[value], forms.blocks.batch
    column = batch * forms.blocks.padded(x.c)
    return PartForm(0, (x.h * x.w * column, x.w * column, column, column // batch))


def _can_be_part(forms: Forms, node: Node, value: str) -> bool:
    """True for a value that may be written among the channels of a concatenation: its layers can do
    that, it has its own memory until now, and its other readers find whole blocks.
    """
    producer, form = forms.producers.get(value), forms.values.get(value)
    if (producer is None or producer.op not in forms.operators or form is None
            or producer.op in ("qmatmul", "slice")
            or form.part is not None or form.owner != value or value in forms.graph.outputs
            or not form.as_images or node.inputs.count(value) > 1):
        return False
    channels = forms.shape(value)[1]
    is_whole = forms.blocks.padded(channels) == channels
    others = [reader for reader in forms.readers[value] if reader is not node]
    spread = producer.op == "qconvtranspose2d" or producer.attrs.get("group", 1) > 1
    return _read_parts(forms, others) and (is_whole or not (others or spread))


def _read_parts(forms: Forms, readers: Sequence[Node]) -> bool:
    """True where all readers find images among those of another value."""
    return not any(reader.op == "qmatmul" or is_view(forms.graph, reader)
                   or reader.name in forms.by_strides
                   or (reader.op == "qmean" and is_of_rows(forms.graph, reader))
                   for reader in readers)


def _cut(forms: Forms, node: Node) -> dict[str, ValueForm]:
    """A slice as part of its source, where it can be read there."""
    (source,), (value,) = node.inputs, node.outputs
    x, result = forms.stored(source), forms.stored(value)
    if (not isinstance(x, Activation) or not isinstance(result, Activation) or x.plain
            or len(forms.shape(value)) != 4 or value in forms.graph.outputs
            or not _read_parts(forms, forms.readers[value])
            or (node.attrs["step"][1] != 1 and result.c > 1)
            or (x.n != result.n and forms.blocks.batch > 1)
            or x.c != forms.shape(source)[1]):
        return {}
    begin, step = node.attrs["begin"], node.attrs["step"]
    pixel = (result.h, result.w) == (1, 1) and (           # these are read in a line
        (x.h, x.w) != (1, 1) or step[0] != 1)
    if begin[1] + forms.blocks.padded(result.c) > forms.room(source) or pixel:
        return {}
    around = forms.part(source) or _whole(forms, source)
    image, row, column, lane = around.strides
    first = begin[0] * image + begin[1] + begin[2] * row + begin[3] * column
    part = PartForm(around.offset + first, (step[0] * image, step[2] * row, step[3] * column, lane))
    return {value: replace(forms.values[value], owner=forms.values[source].owner, part=part,
                           why=f"cut out of {source}, where it lies")}
