"""One HTML file that works offline: figures, pictures, and the code that draws them.

The page holds the figures as JSON (``<script id="figures">``), from which the pictures are drawn,
and the table as HTML. Plotly's JavaScript is compressed from 4.8 MB to 2 MB; the browser unpacks
it.
"""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from compiler.errors import RequestError
from lockstep.printing.columns import LAYER_COLUMNS, cells

from .figures import row_of, total_of

__all__ = ["filled", "page_parts", "require_plotly", "write_page"]

_HERE = Path(__file__).parent


def require_plotly(option: str = "--report") -> None:
    """Raises RequestError where plotly is not installed."""
    if find_spec("plotly") is None:
        raise RequestError(f"{option} needs plotly, which is not installed: "
                           f"pip install 'lockstep-hw[report]'")


def write_page(file: IO[bytes], figures: Mapping[str, Any]) -> None:
    """Writes the page of `page_figures`, as UTF-8."""
    parts = page_parts(figures, figures["title"], "page.js") | {
        "SUMMARY": _summary(figures), "HEAD": _head(figures["head"]),
        "TABLE": _table(figures), "ENERGY": _energy(figures), "MEAN": _mean(figures["ideal"]),
        "HOST": _host(figures["host"], figures["host_reasons"])}
    file.write(filled("page.html", parts).encode())


def filled(template: str, parts: Mapping[str, str]) -> str:
    """A page whose main part is a file of this folder, in the frame that all pages share, with its
    parts in place of their names in double braces; HEAD comes after the numbers, if it is there.
    """
    return _filled("frame.html", {"HEAD": "", **parts, "MAIN": _filled(template, parts)})


def _filled(template: str, parts: Mapping[str, str]) -> str:
    before, *rest = _text(template).split("{{")
    page = [before]
    for piece in rest:
        name, _, after = piece.partition("}}")
        page += [parts[name], after]
    return "".join(page)


def page_parts(figures: Mapping[str, Any], title: str, script: str) -> dict[str, str]:
    """The parts that all pages have; `script` is the file beside the one that they share."""
    return {"TITLE": escape(title), "STYLE": _text("page.css"),
            "FIGURES": _json(figures), "PLOTLY": _plotly(),
            "SCRIPT": _text("shared.js") + _text(script)}


def _text(name: str) -> str:
    return (_HERE / name).read_text("utf-8")


def _json(figures: Mapping[str, Any]) -> str:
    """The figures as JSON, without a character that could end the element that holds them."""
    return json.dumps(figures, separators=(",", ":")).replace("<", "\\u003c")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


_MOST_REASONS = 8           # with more of them, the reasons are counted

# ---- head --------------------------------------------------------------------------------------

def _summary(figures: Mapping[str, Any]) -> str:
    """The few numbers that a reader wants first."""
    ideal, moved = figures["ideal"], figures["counters"]["bytes"]
    numbers = [
        ("cycles", f"{figures['cycles']:,}"),
        ("time", f"{figures['seconds'] * 1e3:,.3f} ms"),
        ("array utilization", f"{figures['utilization']:.1%}"),
        ("real ÷ ideal cycles", _ratio(figures["cycles"], ideal["cycles"])),
        ("products", f"{figures['macs']:,}"),
        ("bytes over the bus", f"{sum(moved.values()):,}")]
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers)


def _ratio(real: int, ideal: int) -> str:
    return f"{real / ideal:.2f}" if ideal else "-"


def _head(head: Mapping[str, Mapping[str, str]]) -> str:
    sections = "".join(f"<section><h3>{escape(title)}</h3><dl>{_lines(lines)}</dl></section>"
                       for title, lines in head.items())
    return (f'<details>\n<summary>Machine, program, memory, versions</summary>\n'
            f'<div class="head">{sections}</div>\n</details>\n')


def _lines(lines: Mapping[str, str]) -> str:
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
                   for name, value in lines.items())


def _host(reasons: Mapping[str, str], sentences: Sequence[str]) -> str:
    if not reasons:
        return "<p>Nothing ran on the host.</p>"
    every = f"<dl>{_lines(reasons)}</dl>"
    if len(reasons) <= _MOST_REASONS:
        return every
    return ("".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
            + f"<details><summary>each of the {len(reasons)}</summary>{every}</details>")


# ---- table -------------------------------------------------------------------------------------

_COLUMNS = ("layer", "cycles", "largest stall", "real to ideal", "known ideal", "least cycles",
            "array", "operator", "loaded", "stored", "fetched")
"""A phone shows the first that fit."""


def _table(figures: Mapping[str, Any]) -> str:
    heads = "".join(f'<th scope="col"{_kind(name)}>{LAYER_COLUMNS[name].heading}</th>'
                    for name in _COLUMNS)
    rows = "".join(_row(cells(_COLUMNS, row_of(layer))) for layer in figures["layers"])
    return (f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
            f"<tfoot>{_row(cells(_COLUMNS, total_of(figures), total=True))}</tfoot></table>")


def _energy(figures: Mapping[str, Any]) -> str:
    """A section with the energy of each layer by unit in microjoules, where it was estimated."""
    used = figures["energy"]
    if not used:
        return ""
    units = [unit for unit, joules in used["units"].items() if joules]
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("all", *units))
    lines = [(layer["name"], layer["energy"]) for layer in figures["layers"]] + [("all", used)]
    rows = "".join(f'<tr><th scope="row">{escape(name)}</th>' + "".join(
        f"<td>{joules * 1e6:,.3f}</td>"
        for joules in (one["joules"], *(one["units"][unit] for unit in units))) + "</tr>"
        for name, one in lines)
    return (f'<section id="energy"><h2>Energy of each layer</h2><p>Microjoules, by the table '
            f'{escape(used["table"])}: an estimate from counts of every access and operation.</p>'
            f'<div class="scroll"><table><thead><tr><th scope="col" class="word">layer</th>{heads}'
            f"</tr></thead><tbody>{rows}</tbody></table></div></section>")


def _mean(ideal: Mapping[str, float]) -> str:
    """A note with the geometric mean of the layers' ratios; every layer has equal weight."""
    return (f'<p class="note">Geometric mean of real ÷ ideal over the layers: '
            f'<b id="mean-ratio">{ideal["mean_ratio"]:.3f}</b>.</p>')


def _kind(name: str) -> str:
    return ' class="word"' if LAYER_COLUMNS[name].words else ""


def _row(texts: Sequence[str]) -> str:
    first, *others = (escape(text) for text in texts)
    return (f'<tr><th scope="row">{first}</th>'
            + "".join(f"<td{_kind(name)}>{text}</td>"
                      for name, text in zip(_COLUMNS[1:], others, strict=True)) + "</tr>")
