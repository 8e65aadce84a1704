"""Networks as they are in training: batch norms keep running statistics, dropout drops.

Masks of dropout are random numbers by a counter: a function of a seed, the dropout, the step and
the place of the element, so they are the same however often and wherever they are computed.
"""

import hashlib
from dataclasses import dataclass, field
from math import prod

import numpy as np

from compiler.frontend.building.refusal import NodeRefused
from compiler.frontend.building.values import Tracer, Value
from compiler.graph.graph import TensorType

ROUNDS, FACTOR, WEYL = 10, 0xD256D193, 0x9E3779B9
WORD = 32           # bits
ALL = (1 << WORD) - 1


def random_words(places: Value, time: Value, key: int) -> Value:
    """Random words, 0 to 2^32 - 1, for the places of elements at this time; all are uint64, below
    2^32.

    This is Philox 2x32 with 10 rounds, of J. K. Salmon et al.: Parallel random numbers: as easy as
    1, 2, 3, SC 2011; the words are the first of each pair.
    """
    emit, first, second = places.tracer.emit, places, time
    for _ in range(ROUNDS):
        product = first * FACTOR
        first = emit("xor", emit("xor", emit("shr", product, WORD), key), second)
        second = product & ALL
        key = (key + WEYL) & ALL
    return first


@dataclass(slots=True)
class InTraining:
    """A network in training: what it has besides its nodes, found while it is imported.

    seed : of the masks of all dropouts.
    counter : the name of the input that counts steps, int64 []; "" where nothing reads it.
    statistics : by the name of an input, a running mean or variance, its value after the step.
    """

    seed: int = 0
    counter: str = ""
    statistics: dict[str, Value] = field(default_factory=dict)
    masks: int = 0

    def average(self, old: Value, batch: Value, momentum: float) -> Value:
        """The next value of a running average, which is noted. What several norms share goes from
        one to the next.
        """
        old, name = self.statistics.get(old.name or "", old), old.name
        following = old * momentum + batch * (1 - momentum)
        if name:
            self.statistics[name] = following
        return following

    def kept(self, t: Tracer, shape: tuple[int, ...], share: float) -> Value:
        """A mask of what a dropout keeps, a bool for each element; `share` of them is dropped."""
        if not 0 <= share < 1:
            raise NodeRefused(f"its ratio must be from 0 to below 1 in training, not {share:g}")
        if prod(shape) > ALL:
            raise NodeRefused(f"it must have at most {ALL:,} elements, not {prod(shape):,}")
        name = f"{self.seed} {self.masks}".encode()
        self.masks += 1
        key = int.from_bytes(hashlib.sha256(name).digest()[:WORD // 8], "little")
        words = random_words(_places(t, shape), self._time(t), key)
        return words >= round(share * (1 << WORD))

    def _time(self, t: Tracer) -> Value:
        if not self.counter:
            self.counter = t.builder.fresh("step")
            t.builder.add_input(self.counter, TensorType((), "int64"))
        return Value(t, (), "int64", self.counter).astype("uint64") & ALL


def _places(t: Tracer, shape: tuple[int, ...]) -> Value:
    """The number of each element, in the order of rows; uint64."""
    total = t.constant(np.zeros((), np.uint64))
    for axis, extent in enumerate(shape):
        steps = np.arange(extent, dtype=np.uint64) * np.uint64(prod(shape[axis + 1:]))
        along = t.constant(steps.reshape(-1, *(1 for _ in shape[axis + 1:])))
        total = along if axis == 0 else total + along
    return total
