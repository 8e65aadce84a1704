"""Pages of text, tables and pictures that work offline: what those of several commands share."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import IO, Any

__all__ = ["picture", "table", "write_plain_page"]

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 70rem; padding: 0 1rem }
h1, h2 { font-size: 1.2rem; overflow-wrap: anywhere }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .15rem .8rem .15rem 0; text-align: right }
.word { text-align: left }
th:first-child, td:first-child { overflow-wrap: anywhere; min-width: 8rem; padding-right: .4rem }
td:last-child { min-width: 16rem }
thead th { border-bottom: 1px solid #888 }
"""


def write_plain_page(file: IO[bytes], title: str, parts: Iterable[str]) -> None:
    """Writes a page with this heading and these parts, which are HTML, as UTF-8."""
    page = (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
            f"<h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n")
    file.write(page.encode())


def picture(traces: Sequence[Any], place: str, first: bool = True, **layout: Any
            ) -> str:
    """A picture of Plotly's traces, in an element of this id. The `first` one of a page brings the
    program that draws. All texts are shown as they are.
    """
    import plotly.graph_objects as go

    form = {"height": 480, "margin": {"l": 60, "r": 10, "t": 40, "b": 120}, **layout}
    figure = go.Figure([_shown(trace.to_plotly_json()) for trace in traces])
    figure.update_layout(_shown(form))
    return figure.to_html(full_html=False, include_plotlyjs=first, div_id=place)


def _shown(value: Any) -> Any:
    """The figure with each text so that Plotly, which takes some elements of HTML, shows it."""
    if isinstance(value, str):
        return escape(value, quote=False)
    if isinstance(value, Mapping):
        return {key: _shown(part) for key, part in value.items()}
    return [*map(_shown, value)] if isinstance(value, list | tuple) else value


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[int] = (0,)
          ) -> str:
    """A table; the columns of these numbers are words, not figures."""
    def line(cells: Sequence[str], kind: str) -> str:
        opened = [f'<{kind} class="word">' if place in words else f"<{kind}>"
                  for place in range(len(cells))]
        return "".join(f"{begin}{escape(cell)}</{kind}>" for begin, cell in zip(opened, cells))

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return (f'<div class="scroll"><table><thead><tr>{line(headings, "th")}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>")
