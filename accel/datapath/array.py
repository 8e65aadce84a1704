"""Systolic arrays: how gemm computes where the geometry's `dataflow` says so.

Both compute sums of products of integers; every register of a bus, a sum or a control bit is
between neighbours, so no wire is longer than an element of the array.

**weight_stationary**: block_in x block_out elements, each with a weight. Element (i, o) multiplies
the i-th element of an activation by its weight and adds what comes from (i - 1, o). Activations
move along o, sums along i::

              o = 0        1               weights come in from the left, one column of the tile a
    a[0] --> [w + ] --> [w + ] -->         step; those of the next tile wait beside those that are
               |          |                in use (`next`) and take their place all at once, as seen
    a[1] --> [w + ] --> [w + ] -->         by the step of an iteration
               |          |
             sum 0      sum 1

**output_stationary**: batch x block_out elements, each with a sum. Element (b, o) multiplies row b
of inp by row o of wgt, block_in products a step, adds them up, and adds the total to its sum. The
rows of inp move along o, those of wgt along b. The sum leaves when the destination changes.

An element computes step t in the cycle t + i + o (t + b + o): operands enter skewed, by registers
before the first row and column, and results leave aligned, by registers behind the last.
"""

from dataclasses import dataclass
from typing import Any

from accel.datapath.dataflow import Interval
from accel.datapath.placement import FACTOR_BITS
from accel.machine.config import OUTPUT_STATIONARY, WEIGHT_STATIONARY
from compiler.lazy import cached_property


@dataclass(frozen=True)
class SystolicArray:
    """A systolic array: its elements, and the cycles that follow from them.

    Parameters
    ----------
    dataflow : `WEIGHT_STATIONARY` or `OUTPUT_STATIONARY`.
    batch, block_in, block_out : of the geometry.
    a, b : the numbers that elements of inp and of wgt may be.
    bits : of a sum, as a lane of acc has them: sums wrap.
    soft : some multipliers are made of adders, so that all take a cycle more.
    ahead : iterations that there is room for before the array, where weights stay.
    dot : the `DatapathPlan` of the total of a step, in each element of an array whose sums stay;
        None for others.
    """

    dataflow: str
    batch: int
    block_in: int
    block_out: int
    a: Interval
    b: Interval
    bits: int
    soft: bool
    ahead: int
    dot: Any = None

    @property
    def weights_stay(self) -> bool:
        return self.dataflow == WEIGHT_STATIONARY

    @property
    def sums_stay(self) -> bool:
        return self.dataflow == OUTPUT_STATIONARY

    @property
    def multiply_cycles(self) -> int:
        """Cycles from factors to their product, without the registers of the factors."""
        wide = max(one.width + (not one.signed) for one in (self.a, self.b)) > FACTOR_BITS
        return 2 if self.soft or wide else 1

    @property
    def element_cycles(self) -> int:
        """Cycles from an element's operands to its sum."""
        return (self.dot.latency if self.dot else 1 + self.multiply_cycles) + 1

    @property
    def rows(self) -> int:
        """Elements along which sums move, or rows of wgt."""
        return self.block_in if self.weights_stay else self.batch

    @property
    def latency(self) -> int:
        """Cycles from the operands of a step to the aligned results."""
        return self.element_cycles + self.rows - 1 + self.block_out - 1

    @property
    def load_cycles(self) -> int:
        """Cycles that the weights of a tile take to come in, while others are in use; 0 where they
        come with each step."""
        return self.block_out if self.weights_stay else 0

    @cached_property
    def sums(self) -> tuple[Interval, ...]:
        """The numbers that the sum of the first row, of the first two, ... may be."""
        corners = [x * y for x in (self.a.low, self.a.high) for y in (self.b.low, self.b.high)]
        whole = Interval.of(self.bits, True)
        exact = (Interval(min(corners) * count, max(corners) * count)
                 for count in range(1, self.block_in + 1))
        return tuple(one if one in whole else whole for one in exact)

    @property
    def register_bits(self) -> int:
        """Bits of data registers: in the elements, and where operands enter and results leave."""
        if self.dot is not None:
            return self.moving_bits + self.batch * self.block_out * sum(self.dot.registers())
        product = self.a.width + self.b.width
        return self.moving_bits + (
            self.batch * self.block_in * self.block_out * product * self.multiply_cycles)

    @property
    def moving_bits(self) -> int:
        """Bits of registers outside of products and of what adds up the products of a step."""
        a, b, columns = self.batch * self.a.width, self.b.width, self.block_out
        if self.weights_stay:
            enter = (a + b) * _triangle(self.block_in)
            hops = (a + b) * self.block_in * (columns - 1)          # to the right
            held = 2 * b * self.block_in * columns
            sums = self.batch * columns * sum(one.width for one in self.sums)
            return (enter + hops + held + sums
                    + self.batch * self.sums[-1].width * _triangle(columns))
        row = self.block_in * self.a.width, self.block_in * b
        enter = row[0] * _triangle(self.batch) + row[1] * _triangle(columns)
        hops = row[0] * self.batch * (columns - 1) + row[1] * (self.batch - 1) * columns
        leave = self.batch * _triangle(columns) + columns * _triangle(self.batch)
        return enter + hops + self.bits * (self.batch * columns + leave)

    def __str__(self) -> str:
        size = (f"{self.block_in} x {self.block_out}, {self.batch} rows of activations at once"
                if self.weights_stay else
                f"{self.batch} x {self.block_out}, {self.block_in} products each")
        return f"{self.dataflow}: {size}, latency {self.latency}"


def _triangle(count: int) -> int:
    """The sum of the numbers below `count`."""
    return count * (count - 1) // 2
