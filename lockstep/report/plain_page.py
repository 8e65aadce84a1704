"""Pages of text, tables and pictures that work offline: what those of several commands share."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import IO, Any

from lockstep.provenance import provenance_lines
from lockstep.report.templates import rendered, text_of


CONFIG = {"displayModeBar": True, "displaylogo": False, "showSendToCloud": False,
          "modeBarButtonsToRemove": ["select2d", "lasso2d"],
          "toImageButtonOptions": {"format": "svg"}}
"""The tool bar, which saves a picture as SVG; by default it would offer to send it to a server."""


def write_plain_page(file: IO[bytes], title: str, template: str,
                     figures: Mapping[str, Any], **values: Any) -> None:
    """Writes a page with this heading, made by a template of this folder, as UTF-8."""
    file.write(rendered(f"report/{template}", title=title, style=text_of("report/plain.css"),
                        made=[*provenance_lines(figures)],
                        **values).encode())


def picture(traces: Sequence[Any], place: str, first: bool = True, **layout: Any
            ) -> str:
    """A picture of Plotly's traces, in an element of this id. The `first` one of a page brings the
    program that draws. All texts are shown as they are.
    """
    import plotly.graph_objects as go

    form = {"height": 480, "margin": {"l": 60, "r": 10, "t": 40, "b": 120}, **layout}
    figure = go.Figure([_shown(trace.to_plotly_json()) for trace in traces])
    figure.update_layout(_shown(form))
    return figure.to_html(full_html=False, include_plotlyjs=first, div_id=place, config=CONFIG)


def _shown(value: Any) -> Any:
    """The figure with each text so that Plotly, which takes some elements of HTML, shows it."""
    if isinstance(value, str):
        return escape(value, quote=False)
    if isinstance(value, Mapping):
        return {key: _shown(part) for key, part in value.items()}
    return [*map(_shown, value)] if isinstance(value, list | tuple) else value
