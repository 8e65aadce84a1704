"""Float functions of one value of 16 bits as polynomials of pieces: what `integerize` makes of
elementwise operators that are no arithmetic (`compiler/ops/families/piecewise.py`).
"""

import numpy as np

from compiler.graph.integerize.quantized import QuantizedView, stored_form
from compiler.graph.integerize.regions import Region
from compiler.graph.integerize.tables import evaluated
from compiler.ops.families.piecewise import FINE, FRACTIONS, INT16, MOST_BENT, TABLES, bytes_of
from compiler.ops.records.integer_forms import IntegerNode, StaysFloat
from compiler.ops.registry import find

Array = np.ndarray

NUMBERS = np.arange(INT16[0], INT16[1] + 1).astype(np.int16)
"""Every input, in order, 256 of each piece."""
PLACES = np.arange(256) - 128.0
MOST_OFF = 1            # steps of the result
MANY = 64               # numbers that have a bend


def in_pieces(view: QuantizedView, region: Region) -> IntegerNode:
    """The `qpieces` of a region with one source, at most one step from its float meaning for every
    number. Raises StaysFloat with the reason."""
    (source,), result = region.sources, region.nodes[-1].outputs[0]
    if view.shape(source) != view.shape(result):
        raise StaysFloat("a constant gives it more dimensions than its input has")
    signed = view.graph.values[source].dtype == "int16"
    numbers = NUMBERS if signed else NUMBERS.view(np.uint16) ^ np.uint16(1 << 15)
    wanted = stored_form(evaluated(view, region, numbers)).astype(np.int64)
    attrs, tables = _pieces(wanted.reshape(256, 256))
    made = find("qpieces").meaning(attrs, NUMBERS, *tables.values())
    off = int(np.abs(made - wanted).max())
    if off > MOST_OFF:
        raise StaysFloat(f"its polynomials, of 256 numbers each, would be up to {off} steps off")
    return IntegerNode("qpieces", (view.stored[source],), attrs, tuple(tables.items()))


def _pieces(wanted: Array) -> tuple[dict[str, int], dict[str, Array]]:
    """Attributes and tables for the results [pieces, places]."""
    value, slope, bend = np.array([_fitted(row) for row in wanted]).T
    fraction = max((bits for bits in FRACTIONS if _fits(slope * 2.0**bits, 16)),
                   default=FRACTIONS[0])
    bent = max((bits for bits in range(MOST_BENT + 1) if _fits(bend * 2.0**(fraction + bits), 8)),
               default=0)
    coefficients = (_integers(value * 2.0**FINE, 24), _integers(slope * 2.0**fraction, 16),
                    _integers(bend * 2.0**(fraction + bent), 8))
    tables = [table for integers, count in zip(coefficients, (3, 2, 1), strict=True)
              for table in bytes_of(integers, count)]
    from_zero = [np.roll(table, 128) for table in tables]   # pieces below zero come last
    return {"fraction": fraction, "bent": bent}, dict(zip(TABLES, from_zero, strict=True))


def _fitted(row: Array) -> tuple[float, float, float]:
    """Value, slope and bend of least squares. What lies at an end of the type may lie beyond: it
    counts only where all of the piece does. Few numbers have no bend but that of their rounding."""
    inside = (row > INT16[0]) & (row < INT16[1])
    count = inside.sum()
    if count < 2:
        return float(np.median(row)), 0.0, 0.0
    *bend, slope, value = np.polyfit(PLACES[inside], row[inside], 2 if count >= MANY else 1)
    return value, slope, bend[0] if bend else 0.0


def _fits(numbers: Array, bits: int) -> bool:
    return bool((np.abs(numbers) < (1 << bits - 1) - 1).all())


def _integers(numbers: Array, bits: int) -> Array:
    return np.clip(np.rint(numbers), -(1 << bits - 1), (1 << bits - 1) - 1).astype(np.int64)
