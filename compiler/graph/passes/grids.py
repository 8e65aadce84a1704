"""Float weights that are integers of few bits times a number of each group of inputs, as integers
of 16 bits: those of few bits times a factor of each group.

Factors are exact where the numbers of a channel's groups are multiples of one number. Else they are
the nearest, where that makes no result more than a step other.
"""

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.constants import QuantizedConstant
from compiler.ops.integers.fixed_point import limits_of
from compiler.ops.registry import find

Array = np.ndarray

NEAR = np.float32(2.0**-20)
"""The part of an element that it may be off: several roundings of float32."""

TRIED = 6        # elements of a channel that are tried with every scale

SIZES = (1024, 512, 256, 128, 64, 32, 16)
FEW, MOST = 15, 32640
"""The most that integers of groups reach, and those times their factors."""

SUMS = 2**29
"""The most that products of a channel and inputs of 8 bits sum to, where factors are rounded; the
zero point of the inputs, and a bias, may add three times that."""

TOGETHER = 128
"""Rows whose multiples are tried at once."""


def steps_of(weight: Array, axis: int, others: tuple[int, ...], most: int) -> Array | None:
    """The greatest number of which each channel has multiples up to so many; 1 for a channel of
    zeros. None where a channel has none.
    """
    peaks = np.abs(weight).max(axis=others)
    peaks[peaks == 0] = 1
    candidates = peaks[:, None] / np.arange(1, 1 + most, dtype=np.float32)
    few = np.moveaxis(weight, axis, 0).reshape(len(peaks), -1)[:, :TRIED]
    fits = np.all(_are_multiples(few[:, :, None], candidates[:, None]), axis=1)
    steps, waiting = np.ones_like(peaks), np.arange(len(peaks))
    while waiting.size:
        if not fits[waiting].any(axis=1).all():
            return None
        places = fits[waiting].argmax(axis=1)
        steps[waiting], fits[waiting, places] = candidates[waiting, places], False
        part, like = weight.take(waiting, axis), np.expand_dims(steps[waiting], others)
        waiting = waiting[~_are_multiples(part, like).all(axis=others)]
    return np.expand_dims(steps, others)


def _are_multiples(numbers: Array, steps: Array) -> Array:
    multiples = numbers / steps
    return np.abs(multiples - np.rint(multiples)) <= NEAR * np.abs(multiples)


def in_groups(weight: Array, axis: int, most_off: float | None
              ) -> QuantizedConstant | None:
    """The weight as int16 with a scale for each channel along the axis; None where it is no matrix,
    or has no such groups. `most_off` is by how much a weight of each channel may be another."""
    if not weight.size or not np.isfinite(weight).all():
        return None
    axis = axis % weight.ndim
    rows = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)
    if rows.shape[1] != max(extent for place, extent in enumerate(weight.shape) if place != axis):
        return None
    for size in SIZES:
        if size < rows.shape[1] and (found := _cut(rows, size)) is not None:
            made = _whole(*found, rows, most_off)
            return made and _restored(*made, weight, axis)
    return None


def _cut(rows: Array, size: int) -> tuple[Array, Array] | None:
    """Integers [channels, groups, size] and the numbers of groups that they are multiplied by."""
    count = -(-rows.shape[1] // size)
    cut = np.zeros((len(rows), count, size), np.float32)
    cut.reshape(len(rows), -1)[:, :rows.shape[1]] = rows
    flat = cut.reshape(-1, size)
    steps = _in_turns(flat, FEW)
    if steps is None:
        return None
    integers = np.rint(flat / steps)
    squares, products = (np.sum(array * integers, axis=1, dtype=np.float64)
                         for array in (integers, flat))
    scales = np.where(squares > 0, products / np.maximum(squares, 1), 0)
    return integers.reshape(cut.shape), scales.reshape(cut.shape[:2]).astype(np.float32)


def _whole(integers: Array, scales: Array, rows: Array, most_off: float | None
           ) -> tuple[Array, Array] | None:
    """Integers of 16 bits [channels, inputs] and the number of each channel."""
    most = MOST // max(int(np.abs(integers).max()), 1)
    units = _in_turns(scales, most)
    exact = units is not None
    if units is None:
        sums = 128 * np.abs(rows).sum(axis=1, keepdims=True)
        units = np.maximum(np.maximum(scales.max(axis=1, keepdims=True) / np.float32(most),
                                      sums / np.float32(SUMS)), np.finfo(np.float32).tiny)
    wide = integers * np.rint(scales / units)[..., None]
    wide = wide.reshape(len(rows), -1)[:, :rows.shape[1]]
    if not exact and (most_off is None or (
            np.abs(wide * units.astype(np.float64) - rows).sum(axis=1) > most_off).any()):
        return None
    return wide.astype(np.int16), units[:, 0].astype(np.float32)


def _in_turns(rows: Array, most: int) -> Array | None:
    """The steps of all rows, [rows, 1], a few at a time."""
    found = []
    for place in range(0, len(rows), TOGETHER):
        steps = steps_of(rows[place:place + TOGETHER], 0, (1,), most)
        if steps is None:
            return None
        found.append(steps)
    return np.concatenate(found) if found else None


def _restored(wide: Array, units: Array, weight: Array, axis: int) -> QuantizedConstant | None:
    """The constant in the weight's own order of axes."""
    if not (units >= np.finfo(np.float32).tiny).all():
        return None
    channels, *others = np.moveaxis(weight, axis, 0).shape
    along = [-1 if place == axis else 1 for place in range(weight.ndim)]
    integers = np.moveaxis(wide.reshape(channels, *others), 0, axis)
    zero = np.zeros(channels, np.int16)
    return QuantizedConstant(np.ascontiguousarray(integers), units.reshape(along),
                             zero.reshape(along))


def most_off(graph: Graph, node: Node) -> float | None:
    """The most by which the weights of a channel may be others, all together: with any input, a
    step of what quantizes the result. None where nothing does, or elements come between."""
    source = next(one for one in graph.nodes if node.inputs[0] in one.outputs)
    scale, zero = (graph.constants[value] for value in source.inputs[1:])
    result = _result(graph, node)
    if result is None or scale.ndim or zero.dtype.name not in ("int8", "uint8"):
        return None
    ends = limits_of("int8") if zero.dtype == np.int8 else (0, 255)
    return float(result) / (float(scale) * max(abs(end - int(zero)) for end in ends))


def _result(graph: Graph, node: Node) -> Array | None:
    """The scale of the only quantization that reads the result, behind a bias perhaps."""
    readers = [one for one in graph.nodes if node.outputs[0] in one.inputs]
    if len(readers) != 1 or node.outputs[0] in graph.outputs:
        return None
    reader, = readers
    if reader.op == "quantizelinear":
        scale = graph.constants[reader.inputs[1]]
        return None if scale.ndim else scale
    biased = reader.op == "add" and any(value in graph.constants for value in reader.inputs)
    return _result(graph, reader) if biased or find(reader.op).bounds else None
