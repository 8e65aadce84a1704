"""Arithmetic of quantized tensors, times a constant of each channel, plus another: constants are
operands of 16 bits of a `qmap`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.maps import Scaled, coarser, requantized
from compiler.ops.integers.integer_text import OPERANDS
from compiler.ops.records.integer_forms import Bounds, StaysFloat, Stored

Array = np.ndarray
LARGEST = 2**15 - 1
BITS = 15               # of what is multiplied: so that both terms fit 31


@dataclass(frozen=True, slots=True)
class ChannelTail:
    """A value, times factors, plus offsets, one for each channel; `nodes` compute that."""

    value: str
    factors: Array
    offsets: Array
    nodes: tuple[Node, ...]


def tail_of(graph: Graph, producers: Mapping[str, Node], value: str) -> ChannelTail | None:
    """The tail that ends with a value of images; None where no factors differ."""
    inner, offsets, adds = _apart(graph, producers, value, "add")
    inner, factors, times = _apart(graph, producers, inner, "mul")
    if factors is None or graph.values[inner].shape != graph.values[value].shape:
        return None
    offsets = np.zeros_like(factors) if offsets is None else offsets
    return ChannelTail(inner, factors, offsets, (*times, *adds))


def _apart(graph: Graph, producers: Mapping[str, Node], value: str, op: str
           ) -> tuple[str, Array | None, tuple[Node, ...]]:
    """The other operand of an operator with constants of channels, these, and the operator; else
    the value alone."""
    node = producers.get(value)
    if node is None or node.op != op or len(graph.values[value].shape) != 4:
        return value, None, ()
    for other, known in (node.inputs, node.inputs[::-1]):
        array = graph.constants.get(known)
        if array is not None and array.size > 1 and (
                array.shape[-3:] == (graph.values[value].shape[1], 1, 1)
                and array.size == array.shape[-3]):
            return other, array, (node,)
    return value, None, ()


def times_channels(term: Scaled, count: int, tail: ChannelTail, out: Stored, bounds: Bounds
                   ) -> tuple[str, tuple[tuple[str, Array], ...]]:
    """The function of integers of a term and a tail behind it, and the constants that this reads
    as the operands from number `count` on. Raises StaysFloat where it could be off by a step.
    """
    fine = coarser(term, max(term.greatest.bit_length() - BITS, 0))
    unit = float(np.abs(tail.factors).max()) / LARGEST
    factors = np.rint(tail.factors.astype(np.float64) / unit)
    step = fine.scale * unit
    bits = next((bits for bits in range(16) if np.abs(tail.offsets).max() <= (
        LARGEST * step * 2**bits)), None)
    if bits is None:
        raise StaysFloat("its constants are more than 32 bits hold of its steps")
    offsets = np.rint(tail.offsets.astype(np.float64) / (step * 2**bits))
    error = (fine.error * unit * LARGEST + fine.greatest * fine.scale * unit / 2
             + step * 2**bits / 2)
    text, constants = f"({fine.text} * {OPERANDS[count]})", [("factors", factors)]
    if offsets.any():
        text = f"({text} + ({OPERANDS[count + 1]} * {1 << bits}))"
        constants.append(("offsets", offsets))
    greatest = fine.greatest * LARGEST + int(np.abs(offsets).max()) * 2**bits
    whole = replace(fine, text=text, scale=step, range=type(fine.range)(-greatest, greatest),
                    error=error)
    return requantized(whole, out, bounds), tuple(
        (role, array.astype(np.int16).reshape(-1, 1, 1)) for role, array in constants)
