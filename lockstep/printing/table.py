"""Tables as wide as the terminal; where output is no terminal, as wide as they need."""

from collections.abc import Sequence

from lockstep.printing.lines import say, shortened, width

_GAP = 2
_LAYER, _OPERATOR = 14, 8       # with less room, the operator is left out
_LEAST = 8                      # of a layer
_WORDS = 16                     # of other words that are shortened

Columns = list[tuple[str, ...]]


def show_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]],
               left: int, last_left: bool = False) -> None:
    """Prints rows whose first two columns, layer and operator, are shortened to fit; where only one
    of them fits, it is the layer. The first `left` columns are left-aligned, and with `last_left`
    also the last.
    """
    words = _words(len(headings), left, last_left)
    columns = _fitted(list(zip(headings, *rows)))
    if len(columns) < len(headings):
        del words[1]
    _print(title, columns, words)


def show_columns(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]],
                 left: int = 1, last_left: bool = False) -> None:
    """Prints rows, of which the first `left` columns are words, and with `last_left` also the last:
    left-aligned, and shortened where there is no room. If that is not enough, columns at the
    right are left out, which a line says.
    """
    words = _words(len(headings), left, last_left)
    columns = _narrowed(list(zip(headings, *rows)), words)
    fitting = _fitting(columns, left)
    _print(title, columns[:fitting], words)
    if fitting < len(columns):
        say(f"no room for {', '.join(headings[fitting:])}")


def _words(count: int, left: int, last_left: bool) -> list[bool]:
    return [place < left or last_left and place == count - 1 for place in range(count)]


def _print(title: str, columns: Columns, words: Sequence[bool]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False, highlight=False,        # names literally
                      width=width())
    if title:
        console.print(shortened(title, width()), style="italic")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for (heading, *_), word in zip(columns, words):
        table.add_column(heading, justify="left" if word else "right", no_wrap=True)
    for row in list(zip(*columns))[1:]:
        table.add_row(*row)
    console.print(table)


def _fitted(columns: Columns) -> Columns:
    """Fits the columns, layer and operator first, into the terminal's width."""
    layer, operator, *others = map(_width, columns)
    room = width() - sum(others) - _GAP * (len(columns) - 1)
    if layer + operator <= room:
        return columns
    if room < _LAYER + _OPERATOR:
        return [_cut(columns[0], max(room + _GAP, _LEAST)), *columns[2:]]
    operator = min(operator, max(_OPERATOR, room - layer))
    return [_cut(columns[0], room - operator), _cut(columns[1], operator), *columns[2:]]


def _narrowed(columns: Columns, words: Sequence[bool]) -> Columns:
    """The columns with their words shortened, the widest first, as far as the width asks for."""
    widths = [*map(_width, columns)]
    for place in sorted((place for place, word in enumerate(words) if word),
                        key=widths.__getitem__, reverse=True):
        least = min(widths[place], _WORDS)
        widths[place] = max(least, widths[place] - max(_total(widths) - width(), 0))
    return [_cut(column, most) for column, most in zip(columns, widths)]


def _fitting(columns: Columns, least: int) -> int:
    """The number of columns, at least this many, that the terminal's width has room for."""
    widths = [*map(_width, columns)]
    counts = range(len(columns), least, -1)
    return next((count for count in counts if _total(widths[:count]) <= width()), least)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _width(column: Sequence[str]) -> int:
    return max(map(len, column))


def _cut(column: tuple[str, ...], most: int) -> tuple[str, ...]:
    return tuple(shortened(cell, most) for cell in column)
