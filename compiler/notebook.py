"""Pieces of HTML that notebooks show in place of a `repr`: a table, and lanes of a time line."""

from collections.abc import Mapping, Sequence
from html import escape

Span = tuple[float, float, float, str]
"""Where a bar begins and ends, how full it is (0 to 1), and what is said when one points at it."""

_HEIGHT, _LEFT, _WIDTH = 18, 60, 700        # of a lane, of its name, of its bars
_COLOUR = "#3b7dd8"


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table. Numbers are right-aligned, integers with commas."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>")


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td style="text-align:right">{value:,}</td>'
    return f'<td style="text-align:left">{escape(str(value))}</td>'


def lanes(spans: Mapping[str, Sequence[Span]], total: float) -> str:
    """A picture (SVG) with a row of bars for each name, from 0 to `total`."""
    if not total:
        return ""
    rows = "".join(_lane(number, name, bars, _WIDTH / total)
                   for number, (name, bars) in enumerate(spans.items()))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH}" '
            f'height="{_HEIGHT * len(spans)}" font-family="sans-serif" font-size="11">{rows}</svg>')


def _lane(number: int, name: str, bars: Sequence[Span], scale: float) -> str:
    top = number * _HEIGHT
    text = (f'<text x="{_LEFT - 6}" y="{top + 13}" text-anchor="end" fill="currentColor">'
            f'{escape(name)}</text>')
    return text + "".join(
        f'<rect x="{_LEFT + begin * scale:.1f}" y="{top + 2}" width="{(end - begin) * scale:.1f}" '
        f'height="{_HEIGHT - 4}" fill="{_COLOUR}" fill-opacity="{full:.2f}" stroke="{_COLOUR}" '
        f'stroke-width="0.5"><title>{escape(said)}</title></rect>'
        for begin, end, full, said in bars)
