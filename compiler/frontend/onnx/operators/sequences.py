"""Sequences and optionals: lists and None while a network is built; the graph holds neither."""

import numpy as np

from compiler.frontend.building.values import NodeRefused, axes_of, require_parts
from compiler.frontend.onnx.nodes.registry import operator


@operator("SequenceConstruct")
def sequence_construct(t, *inputs):
    return list(inputs)


@operator("SequenceEmpty")
def sequence_empty(t, *, dtype=None):
    return []


def _place(t, position, count: int) -> int:
    place = t.integer(position, "position")
    if not -count <= place <= count:
        raise NodeRefused(f"position must be -{count} to {count}, not {place}")
    return place + count if place < 0 else place


@operator("SequenceInsert")
def sequence_insert(t, sequence, tensor, position=None):
    count = len(sequence)
    place = count if position is None else _place(t, position, count)
    return [*sequence[:place], tensor, *sequence[place:]]


@operator("SequenceErase")
def sequence_erase(t, sequence, position=None):
    place = len(sequence) - 1 if position is None else _place(t, position, len(sequence))
    return [*sequence[:place], *sequence[place + 1:]]


@operator("SequenceAt")
def sequence_at(t, sequence, position):
    return sequence[_place(t, position, len(sequence))]


@operator("SequenceLength")
def sequence_length(t, sequence):
    return t.constant(np.array(len(sequence), np.int64))


@operator("ConcatFromSequence")
def concat_from_sequence(t, sequence, *, axis, new_axis=0):
    if not new_axis:
        place, = axes_of((axis,), sequence[0].rank)
        return t.emit("concat", *sequence, axis=place)
    place, = axes_of((axis,), sequence[0].rank + 1)
    return t.emit("concat", *(tensor.unsqueeze(place) for tensor in sequence), axis=place)


@operator("SplitToSequence")
def split_to_sequence(t, x, split=None, *, axis=0, keepdims=1):
    place, = axes_of((axis,), x.rank)
    extent = x.shape[place]
    if split is None or split.rank == 0:
        require_parts(extent if split is None else extent // max(t.integer(split, "split"), 1))
    if split is None:
        sizes = [1] * extent
    elif split.rank == 0:
        each = t.integer(split, "split")
        sizes = [min(each, extent - start) for start in range(0, extent, each)]
    else:
        sizes = t.integers(split, "split")
    starts = [sum(sizes[:part]) for part in range(len(sizes))]
    parts = [x.cut(place, start, start + size) for start, size in zip(starts, sizes, strict=True)]
    if split is None and not keepdims:
        rest = x.shape[:place] + x.shape[place + 1:]
        parts = [part.reshape(*rest) for part in parts]
    return parts


@operator("SequenceMap")
def sequence_map(t, sequence, *others, body):
    """Runs the body for each element, with the elements of the other sequences at the same place.
    """
    rows = [t.graph(body, [element, *(other[place] if isinstance(other, list) else other
                                      for other in others)])
            for place, element in enumerate(sequence)]
    return tuple([row[place] for row in rows] for place in range(len(body.output)))


@operator("Optional")
def optional(t, value=None, *, type=None):
    return value


@operator("OptionalGetElement")
def optional_get_element(t, value):
    if value is None:
        raise NodeRefused("its input must have an element")
    return value


@operator("OptionalHasElement")
def optional_has_element(t, value=None):
    return t.constant(np.array(value is not None))


