"""Floating point as operations on exact integers.

A number of a float type is its bits, an unsigned node. `Floats` makes arithmetic on them out of
the kinds of `accel.datapath.dataflow`; widths, stages and registers follow as for any other
operation, so that one definition gives the hardware and its meaning.

Every operation has the result of IEEE 754: that of exact arithmetic, rounded once to the type, to
nearest, ties to even, with subnormal numbers, infinities and signed zeros. Beyond that:

- A NaN that an operation gives is the canonical one of its type: positive, quiet, payload 0. A
  read, a selection and a store hand on bits as they are.
- Maximum and minimum give NaN if either operand is NaN; -0 is less than +0.
- Numbers of 16 or 8 bits are computed in float32, and the result is rounded to their type.
- What is too large for a type of 8 bits, infinity as well, becomes its greatest number.
- A conversion to an integer rounds towards zero; beyond the ends of the type it gives the nearest
  end, and 0 for NaN. An integer becomes a number of 16 or 8 bits by way of float32.
"""

from dataclasses import dataclass

import numpy as np

from accel.datapath.dataflow import Dataflow, DataflowNode, Interval
from compiler import te


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary format: sign, exponent, fraction, the last lowest.

    Parameters
    ----------
    saturates : what is too large becomes the greatest number, not infinity.
    is_finite : there are no infinities; of the numbers with the greatest exponent only that with
        all bits set is NaN.
    """

    exponent_bits: int
    fraction_bits: int
    saturates: bool = False
    is_finite: bool = False

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def precision(self) -> int:
        """Bits of a significand, the hidden one included."""
        return self.fraction_bits + 1

    @property
    def bias(self) -> int:
        return (1 << self.exponent_bits - 1) - 1

    @property
    def infinity(self) -> int:
        """The bits of positive infinity: exponent all ones, fraction 0."""
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def greatest(self) -> int:
        """The bits of the greatest number."""
        return (1 << self.width - 1) - 2 if self.is_finite else self.infinity - 1

    @property
    def beyond(self) -> int:
        """The bits of what is too large."""
        return self.greatest if self.saturates else self.infinity

    @property
    def nan(self) -> int:
        """The bits of the canonical NaN."""
        return self.greatest + 1 if self.is_finite else self.infinity | 1 << self.fraction_bits - 1


SINGLE = FloatFormat(8, 23)

FORMATS = {"float16": FloatFormat(5, 10), "bfloat16": FloatFormat(8, 7), "float32": SINGLE,
           "float8_e4m3fn": FloatFormat(4, 3, True, True), "float8_e5m2": FloatFormat(5, 2, True)}
"""The float types that a datapath computes, by name."""


def float_bits(value: float, dtype: str) -> int:
    """The bits of a constant."""
    array = np.asarray(value, te.numpy_dtype(dtype))
    return int(array.view(f"uint{te.bits(dtype)}")) if array == array else FORMATS[dtype].nan


class Floats:
    """Makes float operations in a graph; arguments and results are bits."""

    def __init__(self, graph: Dataflow):
        self.graph = graph

    # ---- integers under the numbers ------------------------------------------------------------

    def const(self, value: int) -> DataflowNode:
        return self.graph.const(value)

    def make(self, kind: str, *args: DataflowNode | int, attr: tuple = ()) -> DataflowNode:
        nodes = tuple(self.const(arg) if isinstance(arg, int) else arg for arg in args)
        return self.graph.make(kind, nodes, attr)

    def low(self, x: DataflowNode, bits: int) -> DataflowNode:
        return self.make("wrap", x, attr=(bits, False))

    def any(self, *tests: DataflowNode) -> DataflowNode:
        result, *others = tests
        for test in others:
            result = self.make("or", result, test)
        return result

    def at_most(self, x: DataflowNode, bound: int) -> DataflowNode:
        return x if x.interval.high <= bound else self.make("min", x, bound)

    def at_least(self, x: DataflowNode, bound: int) -> DataflowNode:
        return x if x.interval.low >= bound else self.make("max", x, bound)

    def within(self, x: DataflowNode, low: int, high: int) -> DataflowNode:
        """`x`, of which its making says more than intervals do."""
        return self.graph.narrow(x, Interval(low, high))

    def shifted_right(self, x: DataflowNode, amount: DataflowNode) -> DataflowNode:
        """``x / 2**amount`` with a guard and a sticky bit below."""
        if amount.interval.high == 0:
            return self.make("lsl", x, attr=(2,))
        return self.make("rshift", x, amount)

    def jammed(self, x: DataflowNode, bits: int) -> DataflowNode:
        """`x` without its low `bits` bits; the lowest is set if any of these was."""
        return self.make("stick", x, bits, attr=(0, 6)) if bits else x

    # ---- fields --------------------------------------------------------------------------------

    def sign(self, x: DataflowNode, form: FloatFormat) -> DataflowNode:
        return self.make("asr", x, attr=(form.width - 1,))

    def magnitude(self, x: DataflowNode, form: FloatFormat) -> DataflowNode:
        """The bits without the sign: they are ordered as the absolute values are."""
        return self.low(x, form.width - 1)

    def with_sign(self, sign: DataflowNode, magnitude: DataflowNode,
                  form: FloatFormat) -> DataflowNode:
        return self.make("cat", sign, magnitude, attr=(form.width - 1,))

    def parts(self, magnitude: DataflowNode,
              form: FloatFormat) -> tuple[DataflowNode, DataflowNode]:
        """Exponent and significand: ``significand * 2**(exponent - bias - fraction_bits)``, the
        exponent 1 or more."""
        exponent = self.make("asr", magnitude, attr=(form.fraction_bits,))
        hidden = self.make("ne", exponent, 0)
        fraction = self.low(magnitude, form.fraction_bits)
        return (self.at_least(exponent, 1),
                self.make("cat", hidden, fraction, attr=(form.fraction_bits,)))

    def normal(self, magnitude: DataflowNode,
               form: FloatFormat) -> tuple[DataflowNode, DataflowNode]:
        """Exponent, which may be less than 1, and significand with its highest bit set (or 0)."""
        exponent, significand = self.parts(magnitude, form)
        zeros = self.make("zeros", significand, attr=(form.precision,))
        shifted = self.make("lshift", significand, self.within(zeros, 0, form.precision - 1),
                            attr=(form.precision, False))
        return self.make("sub", exponent, zeros), shifted

    def rounded(self, exponent: DataflowNode, significand: DataflowNode, width: int,
                form: FloatFormat) -> DataflowNode:
        """The magnitude nearest to a significand of `width` bits, whose highest bit, of weight
        ``2**(exponent - bias)``, is set."""
        extra = width - form.precision
        if extra < 0:
            significand, extra = self.make("lsl", significand, attr=(-extra,)), 0
        amount = self.at_least(self.make("sub", 1, exponent), 0)
        shifted = self.shifted_right(significand, self.at_most(amount, form.precision + extra + 2))
        field = self.at_least(self.make("sub", exponent, 1), 0)
        return self.packed(field, self.jammed(shifted, extra), form)

    def packed(self, field: DataflowNode, exact: DataflowNode,
               form: FloatFormat) -> DataflowNode:
        """The magnitude of a significand with guard and sticky bit; `field` is its exponent - 1.

        The hidden bit of the rounded significand adds one to the exponent's field, as does a
        carry beyond it; so a subnormal number has the field 0, and what is too large lies above
        the greatest number.
        """
        high = self.make("lsl", field, attr=(form.fraction_bits,))
        return self.at_most(self.make("add", high, self.make("round", exact)), form.beyond)

    def ends(self, magnitude: DataflowNode, form: FloatFormat,
             ) -> tuple[DataflowNode, DataflowNode]:
        """Two bits: the magnitude is that of infinity or NaN; it is that of NaN."""
        if form.is_finite:
            nan = self.make("gt", magnitude, form.greatest)
            return nan, nan
        return (self.make("ge", magnitude, form.infinity),
                self.make("gt", magnitude, form.infinity))

    # ---- conversions ---------------------------------------------------------------------------

    def cast(self, x: DataflowNode, source: str, target: str) -> DataflowNode:
        """A number of one type as one of another; types may be integers or bool, too."""
        if source == target:
            return x
        if not te.is_float(source):
            return self.cast(self.from_integer(x), "float32", target)
        if target == "bool":
            return self.make("ne", self.magnitude(x, FORMATS[source]), 0)
        if not te.is_float(target):
            return self.to_integer(self.cast(x, source, "float32"), target)
        if "float32" not in (source, target):
            return self.cast(self.cast(x, source, "float32"), "float32", target)
        return self.converted(x, FORMATS[source], FORMATS[target])

    def converted(self, x: DataflowNode, source: FloatFormat,
                  target: FloatFormat) -> DataflowNode:
        magnitude = self.magnitude(x, source)
        infinite, nan = self.ends(magnitude, source)
        less = source.fraction_bits - target.fraction_bits
        if source.exponent_bits == target.exponent_bits and less < 0:
            finite = self.make("lsl", magnitude, attr=(-less,))
        elif source.exponent_bits == target.exponent_bits:
            finite = self.make("round", self.jammed(magnitude, less - 2))
        else:
            # Of less range, a subnormal number is so small that it need not be made normal.
            exponent, significand = (self.normal if less < 0 else self.parts)(magnitude, source)
            rebiased = self.make("add", exponent, target.bias - source.bias)
            nonzero = self.rounded(rebiased, significand, source.precision, target)
            finite = self.make("select", self.make("eq", magnitude, 0), 0, nonzero)
        return self.chosen(self.sign(x, source), finite, infinite, nan, target)

    def chosen(self, sign: DataflowNode, finite: DataflowNode, infinite: DataflowNode,
               nan: DataflowNode, form: FloatFormat) -> DataflowNode:
        magnitude = self.make("select", infinite, form.beyond, finite)
        return self.make("select", nan, form.nan,
                         self.with_sign(sign, self.low(magnitude, form.width - 1), form))

    def from_integer(self, x: DataflowNode) -> DataflowNode:
        """An integer as float32."""
        magnitude = self.make("abs", x) if x.interval.signed else x
        width = magnitude.interval.width
        zeros = self.make("zeros", magnitude, attr=(width,))
        amount = self.at_most(zeros, width - 1)
        shifted = self.make("lshift", magnitude, amount, attr=(width, False))
        exponent = self.make("sub", SINGLE.bias + width - 1, amount)
        nonzero = self.rounded(exponent, shifted, width, SINGLE)
        finite = self.make("select", self.make("eq", magnitude, 0), 0, nonzero)
        return self.with_sign(self.make("lt", x, 0), finite, SINGLE)

    def to_integer(self, x: DataflowNode, dtype: str) -> DataflowNode:
        """A float32 number as an integer of at most 32 bits, towards zero."""
        magnitude = self.magnitude(x, SINGLE)
        _, nan = self.ends(magnitude, SINGLE)
        exponent, significand = self.parts(magnitude, SINGLE)
        top = SINGLE.bias + te.bits("int32")            # 2**32: the exponent of what is too large
        wide = self.make("lsl", significand, attr=(top - 1 - SINGLE.bias - SINGLE.fraction_bits,))
        amount = self.at_most(self.at_least(self.make("sub", top - 1, exponent), 0), 32)
        whole = self.make("asr", self.shifted_right(wide, amount), attr=(2,))
        most = (1 << 32) - 1
        whole = self.make("select", self.make("ge", exponent, top), most, whole)
        value = self.make("select", self.sign(x, SINGLE), self.make("sub", 0, whole), whole)
        low = -(1 << te.bits(dtype) - 1) if te.is_signed(dtype) else 0
        value = self.at_most(self.at_least(value, low), low + (1 << te.bits(dtype)) - 1)
        return self.make("select", nan, 0, value)

    # ---- arithmetic ----------------------------------------------------------------------------

    def binary(self, op: str, a: DataflowNode, b: DataflowNode, dtype: str) -> DataflowNode:
        """An operation on two numbers of a type; comparisons give 0 or 1."""
        if op in ("lt", "le", "gt", "ge", "eq", "ne"):
            return self.compared(op, a, b, FORMATS[dtype])
        if op in ("min", "max"):
            return self.extreme(op, a, b, FORMATS[dtype])
        if op == "mul":
            return self.cast(self.product(a, dtype, b, dtype), "float32", dtype)
        wide = (self.cast(x, dtype, "float32") for x in (a, b))
        return self.cast((self.sum if op == "add" else self.difference)(*wide), "float32", dtype)

    def product(self, a: DataflowNode, a_type: str, b: DataflowNode,
                b_type: str) -> DataflowNode:
        """The product as float32. Numbers of 8 and 16 bits have products of at most 22 bits,
        which float32 holds exactly unless they are subnormal or too large there."""
        forms = FORMATS[a_type], FORMATS[b_type]
        magnitudes = [self.magnitude(x, form) for x, form in zip((a, b), forms)]
        sign = self.make("xor", *(self.sign(x, form) for x, form in zip((a, b), forms)))
        (ea, ma), (eb, mb) = map(self.normal, magnitudes, forms)
        width = sum(form.precision for form in forms)
        exact = self.make("mul", ma, mb)
        carry = self.make("ge", exact, 1 << width - 1)
        shifted = self.make("select", carry, exact,
                            self.low(self.make("lsl", exact, attr=(1,)), width))
        bias = SINGLE.bias - sum(form.bias for form in forms)
        exponent = self.make("add", self.make("add", self.make("add", ea, eb), bias), carry)
        finite = self.rounded(exponent, shifted, width, SINGLE)
        ends = [self.ends(m, form) for m, form in zip(magnitudes, forms)]
        zeros = [self.make("eq", m, 0) for m in magnitudes]
        zero, infinite = (self.any(*tests) for tests in (zeros, [end for end, _ in ends]))
        nan = self.any(*(test for _, test in ends), self.make("and", zero, infinite))
        finite = self.make("select", zero, 0, finite)
        return self.chosen(sign, finite, infinite, nan, SINGLE)

    def difference(self, a: DataflowNode, b: DataflowNode) -> DataflowNode:
        """The difference of two float32 numbers."""
        return self.sum(a, self.make("xor", b, 1 << SINGLE.width - 1))

    def sum(self, a: DataflowNode, b: DataflowNode) -> DataflowNode:
        """The sum of two float32 numbers.

        The greater magnitude first: the other one is shifted to its exponent with three bits
        below, the lowest of which is set if anything was lost. What a subtraction cancels is
        shifted back, as far as the least exponent allows.
        """
        form, below = SINGLE, 3
        width = form.precision + below + 1                      # and a carry
        signs = [self.sign(x, form) for x in (a, b)]
        magnitudes = [self.magnitude(x, form) for x in (a, b)]
        less, opposite = self.make("lt", *magnitudes), self.make("xor", *signs)
        large = self.make("select", less, magnitudes[1], magnitudes[0])
        small = self.make("select", less, *magnitudes)
        sign = self.make("select", less, signs[1], signs[0])
        (el, ml), (es, ms) = self.parts(large, form), self.parts(small, form)
        distance = self.within(self.make("sub", el, es), 0, el.interval.high - 1)
        aligned = self.shifted_right(self.make("lsl", ms, attr=(below - 2,)),
                                     self.at_most(distance, form.precision + below))
        first = self.make("lsl", ml, attr=(below,))
        total = self.make("select", opposite, self.make("sub", first, aligned),
                          self.make("add", first, aligned))
        total = self.within(total, 0, (1 << width) - 1)
        amount = self.make("min", self.make("zeros", total, attr=(width,)), el)
        normal = self.make("lshift", total, amount, attr=(width, False))
        field = self.within(self.make("sub", el, amount), 0, el.interval.high)
        zero = self.make("eq", total, 0)
        finite = self.make("select", zero, 0,
                           self.packed(field, self.jammed(normal, below - 1), form))
        sign = self.make("select", zero, self.make("and", *signs), sign)
        infinite, nan = self.ends(large, form)
        both = self.make("and", self.make("ge", small, form.infinity), opposite)
        return self.chosen(sign, finite, infinite, self.any(nan, both), form)

    def absolute(self, x: DataflowNode, dtype: str) -> DataflowNode:
        magnitude = self.magnitude(x, FORMATS[dtype])
        _, nan = self.ends(magnitude, FORMATS[dtype])
        return self.make("select", nan, FORMATS[dtype].nan, magnitude)

    # ---- order ---------------------------------------------------------------------------------

    def compared(self, op: str, a: DataflowNode, b: DataflowNode,
                 form: FloatFormat) -> DataflowNode:
        """A comparison: with NaN only ``ne`` is true; zeros are equal."""
        values = [self.make("select", self.sign(x, form), self.make("sub", 0, magnitude), magnitude)
                  for x in (a, b) for magnitude in [self.magnitude(x, form)]]
        nan = self.either_nan(a, b, form)
        if op == "ne":
            return self.any(self.make("ne", *values), nan)
        return self.make("and", self.make(op, *values), self.make("xor", nan, 1))

    def extreme(self, op: str, a: DataflowNode, b: DataflowNode,
                form: FloatFormat) -> DataflowNode:
        """Minimum or maximum."""
        # A negative number of magnitude m has the place -1 - m, so that -0 comes before +0.
        places = [self.make("select", self.sign(x, form), self.make("sub", -1, magnitude),
                            magnitude)
                  for x in (a, b) for magnitude in [self.magnitude(x, form)]]
        less = self.make("lt", *(places if op == "min" else reversed(places)))
        return self.make("select", self.either_nan(a, b, form), form.nan,
                         self.make("select", less, a, b))

    def either_nan(self, a: DataflowNode, b: DataflowNode, form: FloatFormat) -> DataflowNode:
        return self.any(*(self.ends(self.magnitude(x, form), form)[1] for x in (a, b)))
