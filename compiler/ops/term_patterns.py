"""The pattern of a product of one's own in float networks: what it sums over the last axis.

A plain product multiplies an input and a weight; another has a term of its own, as the square of
their difference is. Where a network sums that term of a tensor and a constant, for each row of the
constant, the quantizer may put the instruction. The sum of the instruction's integers must be a
multiple of the real one: of differences that is so where both have one scale and one zero point, of
products where zero points are 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from compiler.ir.arithmetic import apply_expr
from compiler.ops.integers.fixed_point import limits_of
from compiler.ops.integers.integer_text import computed, range_of, text_of
from compiler.ops.records.integer_forms import (StaysFloat, Stored, check_accumulator,
                                                multiplier_of)
from compiler.te import Expr, Var
from compiler.tensorize.normal import normal

Array = np.ndarray
INT8 = limits_of("int8")
FAR = 37                # a zero point to try
NEAR = 1e-6


@dataclass(frozen=True, slots=True)
class TermPattern:
    """
    Parameters
    ----------
    name : the instruction's.
    inputs, real : a float32 expression of an input and a weight: a term of the sum.
    body : what the instruction sums, an int32 expression of ``x0`` and ``x1``: the same two, in
        stored form.
    """

    name: str
    inputs: tuple[Var, Var]
    real: Expr
    body: Expr

    constants: ClassVar[tuple[Var, ...]] = ()
    tolerance: ClassVar[float] = 0.0

    @property
    def text(self) -> str:
        """The term of stored integers. Refuses with ValueError what has no text, or leaves int32.
        """
        text = text_of(normal(self.body))
        range_of(text, [INT8, INT8])
        return text

    def value(self, *arrays: Array) -> Array:
        """The real term of arrays of float64, which broadcast."""
        with np.errstate(all="ignore"):
            return apply_expr(self.real, dict(zip(self.inputs, arrays, strict=True)))

    def factor(self, x_scale: float, w_scale: float, zp: int = 0) -> float | None:
        """The factor between the term of integers and the real one, where the numbers have these
        scales and one zero point: found by values. None where there is none above 0.
        """
        x, w = np.random.default_rng(0).integers(*INT8, (2, 999), endpoint=True)
        real = self.value((x - zp) * x_scale, (w - zp) * w_scale)
        whole = computed(self.text, [x, w]).astype(np.float64)
        place = np.abs(whole).argmax()
        if not (np.isfinite(real).all() and whole[place]):
            return None
        factor = float(real[place] / whole[place])
        fits = np.allclose(real, factor * whole, NEAR, NEAR * np.abs(real).max())
        return factor if fits and factor > 0 else None

    @property
    def moves(self) -> bool:
        """True if any zero point will do: the term is one of the difference."""
        return self.factor(1.0, 1.0, FAR) is not None

    @property
    def shares(self) -> bool:
        """True if both numbers must have one scale."""
        return self.factor(1.0, 0.75) is None

    def attributes(self, x: Stored, w: Stored, out: Stored, depth: int) -> Mapping[str, Any]:
        """The attributes of `qterms` for sums of so many terms. Raises StaysFloat."""
        factor = self.factor(x.scale, w.scale, x.zp) if x.zp == w.zp else None
        if factor is None:
            raise StaysFloat(f"its term is no multiple of the real one with zero points {x.zp} and "
                             f"{w.zp}")
        low, high = range_of(self.text, [INT8, INT8])
        bound = float(max(-low, high) * depth)
        check_accumulator(np.array([bound]))
        mult, shift = multiplier_of(factor / out.scale, bound)
        lo, hi = limits_of(out.dtype)
        return {"term": self.text, "bias": 0, "mult": mult, "shift": shift, "zp": out.zp, "lo": lo,
                "hi": hi}
