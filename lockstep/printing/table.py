"""Tables of layers, as wide as the terminal."""

from collections.abc import Sequence

from lockstep.printing.lines import shortened, width

__all__ = ["show_columns", "show_table"]

_GAP = 2
_LAYER, _OPERATOR = 14, 8       # with less room, the operator is left out
_LEAST = 8                      # of a layer


def show_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]],
               left: int, last_left: bool = False) -> None:
    """Prints rows whose first two columns, layer and operator, are shortened to fit; where only one
    of them fits, it is the layer. The first `left` columns are left-aligned, and with `last_left`
    also the last.
    """
    from rich.console import Console
    from rich.table import Table

    words = [place < left or (last_left and place == len(headings) - 1)
             for place in range(len(headings))]
    columns = _fitted(list(zip(headings, *rows)))
    if len(columns) < len(headings):
        del words[1]
    table = Table(title=shortened(title, width()), box=None, header_style="bold", pad_edge=False)
    for (heading, *_), word in zip(columns, words):
        table.add_column(heading, justify="left" if word else "right", no_wrap=True)
    for row in list(zip(*columns))[1:]:
        table.add_row(*row)
    Console(markup=False, emoji=False, width=width()).print(table)     # names literally


def show_columns(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]],
                 left: int = 1) -> None:
    """Prints rows as they are, as wide as they need; the first `left` columns are left-aligned."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, box=None, header_style="bold", pad_edge=False, title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, emoji=False, width=width()).print(table)


def _fitted(columns: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Fits the columns, layer and operator first, into the terminal's width."""
    layer, operator, *others = (max(map(len, column)) for column in columns)
    room = width() - sum(others) - _GAP * (len(columns) - 1)
    if layer + operator <= room:
        return columns
    if room < _LAYER + _OPERATOR:
        return [_cut(columns[0], max(room + _GAP, _LEAST)), *columns[2:]]
    operator = min(operator, max(_OPERATOR, room - layer))
    return [_cut(columns[0], room - operator), _cut(columns[1], operator), *columns[2:]]


def _cut(column: tuple[str, ...], most: int) -> tuple[str, ...]:
    return tuple(shortened(cell, most) for cell in column)
