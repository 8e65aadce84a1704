"""Columns of tables of layers, each declared once: for the terminal and for pages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from accel.figures.layers import LayerRow


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and the text of a row, and of the row that sums up all others.

    A column of `words` is left-aligned.
    """

    heading: str
    text: Callable[[LayerRow], str]
    total: Callable[[LayerRow], str]
    words: bool = False


def largest_stall(row: LayerRow) -> str:
    """The longest stall of the unit that carries the layer, with its share of the cycles.

    ``gemm: load 12.3%`` reads: gemm waits for load in 12.3 % of the layer's cycles.
    """
    cause, cycles = row.longest_wait
    return f"{row.carrier}: {cause} {cycles / row.cycles:.1%}" if cycles else "-"


def cells(columns: Sequence[str], row: LayerRow, total: bool = False) -> list[str]:
    """The texts of a row, or of the row that sums up all others, in these columns."""
    chosen = [LAYER_COLUMNS[name] for name in columns]
    return [(column.total if total else column.text)(row) for column in chosen]


def _number(heading: str, field: str) -> Column:
    value = attrgetter(field)
    return Column(heading, lambda row: f"{value(row):,}", lambda row: f"{value(row):,}")


def _known(heading: str, field: str) -> Column:
    """A number for which 0 stands where it is not known."""
    value = attrgetter(field)

    def text(row: LayerRow) -> str:
        return f"{value(row):,}" if value(row) else "-"
    return Column(heading, text, text)


def _ratio(heading: str, above: str, below: str, digits: int) -> Column:
    real, least = attrgetter(above), attrgetter(below)

    def text(row: LayerRow) -> str:
        return f"{real(row) / least(row):.{digits}f}" if least(row) else "-"
    return Column(heading, text, text)


_MOVERS = ("load", "store", "fetch")
"""Kinds of who moves bytes, in the order in which rows have them."""


def _moved(heading: str, mover: str) -> Column:
    place = _MOVERS.index(mover)

    def text(row: LayerRow) -> str:
        return f"{[*row.moved.values()][place]:,}"
    return Column(heading, text, text)


def _nothing(row: LayerRow) -> str:
    return ""


LAYER_COLUMNS: Mapping[str, Column] = {
    "layer": Column("layer", attrgetter("name"), attrgetter("name"), words=True),
    "operator": Column("operator", attrgetter("op"), _nothing, words=True),
    "cycles": _number("cycles", "cycles"),
    "ideal": _number("ideal", "ideal_cycles"),
    "known ideal": Column("ideal", lambda row: f"{row.ideal_cycles:,}" if row.ideal_cycles else "-",
                          lambda row: f"{row.ideal_cycles:,}"),
    "array": Column("array", lambda row: f"{row.utilization:.1%}" if row.macs else "-",
                    lambda row: f"{row.utilization:.1%}"),
    "MACs": _number("MACs", "macs"),
    "bytes": _number("bytes", "dram_bytes"),
    "largest stall": Column("largest stall", largest_stall, _nothing, words=True),
    "real to ideal": _ratio("real ÷ ideal", "cycles", "ideal_cycles", 2),
    "least cycles": _known("least", "bound_cycles"),
    "ratio of cycles": _ratio("ratio", "cycles", "bound_cycles", 3),
    "least bytes": _known("least", "bound_bytes"),
    "ratio of bytes": _ratio("ratio", "dram_bytes", "bound_bytes", 3),
    "loaded": _moved("loaded", "load"),
    "stored": _moved("stored", "store"),
    "fetched": _moved("fetched", "fetch"),
}
"""The columns by name; a heading may stand for several."""
