"""Trials by which functions of floats are compared: with numbers, not by how they are written.

The numbers lie densely about zero, where functions bend, and are powers of two beyond; a bend in
between, or a difference below a thousandth of a percent, is not seen.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.reference import evaluate_node
from compiler.ops.patterns import Pattern
from compiler.ops.term_patterns import TermPattern

Array = np.ndarray
CLOSE, FAR = 8.0, 20    # numbers up to 8, and powers of two up to 2**20
RELATIVE, ABSOLUTE = 1e-5, 1e-6


def evaluated(constants: Mapping[str, Array], nodes: Sequence[Node], known: Mapping[str, Array]
              ) -> Array | None:
    """Computes elementwise nodes for vectors that are `known`, and gives the last result; constants
    beside them are single numbers. None where a result is no such vector.
    """
    values = dict(known)
    shape = next(iter(values.values())).shape
    for node in nodes:
        made = np.asarray(evaluate_node(node, [
            values[each] if each in values else constants[each].reshape(1)
            for each in node.inputs]))
        if made.shape not in (shape, (1,)):
            return None
        values[node.outputs[0]] = made
    return values[nodes[-1].outputs[0]]


def agree(found: Array, pattern: Pattern | TermPattern, numbers: Sequence[Array],
          channels: Sequence[Array] = ()) -> bool:
    """True if that is what a pattern gives for the same numbers, up to its tolerance."""
    wanted = np.broadcast_to(pattern.value(*numbers, *channels), numbers[0].shape)
    near = np.abs(wanted)[np.all([np.abs(each) <= CLOSE for each in numbers], axis=0)]
    near = near[np.isfinite(near)]
    about = float(near.mean()) if near.size else 0.0
    return bool(np.allclose(found, wanted, RELATIVE, max(ABSOLUTE * about, pattern.tolerance),
                            equal_nan=True))


def numbers_of(count: int) -> list[Array]:
    """Numbers that functions of so many are tried with."""
    powers = 2.0 ** np.arange(-10, FAR + 1)
    if count == 1:
        return [np.concatenate([np.linspace(-CLOSE, CLOSE, 1021), powers, -powers])]
    random = np.random.default_rng(0).uniform(-CLOSE, CLOSE, (count, 1500))
    some = np.concatenate([powers[::3], -powers[::3], [0.0]])
    grid = np.stack(np.meshgrid(*[some] * count)).reshape(count, -1)
    return list(np.concatenate([random, grid], axis=1))
