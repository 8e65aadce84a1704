"""One HTML file that works offline: figures, pictures, and the code that draws them.

The page holds the figures as JSON (``<script id="figures">``), from which the pictures are drawn,
and the table as HTML. Plotly's JavaScript is compressed from 4.8 MB to 2 MB; the browser unpacks
it.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import IO, Any

from compiler.errors import RequestError
from lockstep.printing.columns import LAYER_COLUMNS, cells
from lockstep.provenance import provenance_lines
from lockstep.report.figures import row_of, total_of
from lockstep.printing.instructions import HEADINGS, WORDS, instruction_cells
from lockstep.report.templates import rendered, text_of

MOST_REASONS = 8            # with more of them, the reasons are counted


def require_plotly(option: str = "--report") -> None:
    """Raises RequestError where plotly is not installed."""
    if find_spec("plotly") is None:
        raise RequestError(f"{option} needs plotly, which is not installed: "
                           f"pip install 'lockstep-hw[report]'")


def write_page(file: IO[bytes], figures: Mapping[str, Any]) -> None:
    """Writes the page of `page_figures`, as UTF-8."""
    file.write(rendered(
        "report/page.html", **page_parts(figures, figures["title"], "page.js"),
        numbers=_numbers(figures), head=figures["head"], headings=_HEADINGS, words=_WORDS,
        rows=[cells(_COLUMNS, row_of(layer)) for layer in figures["layers"]],
        totals=cells(_COLUMNS, total_of(figures), total=True), energy=_energy(figures),
        instructions=instruction_cells(figures["instructions"]), instruction_headings=HEADINGS,
        instruction_words=WORDS,
        mean=f"{figures['ideal']['mean_ratio']:.3f}", host=figures["host"],
        host_reasons=figures["host_reasons"], most_reasons=MOST_REASONS).encode())


def page_parts(figures: Mapping[str, Any], title: str, script: str) -> dict[str, Any]:
    """The parts that pages with pictures have; `script` is the file beside the one that they share.
    """
    return {"title": title, "style": text_of("report/page.css"), "figures": _json(figures),
            "made": [*provenance_lines(figures)], "plotly": _plotly(),
            "script": text_of("report/shared.js", f"report/{script}")}


def _json(figures: Mapping[str, Any]) -> str:
    """The figures as JSON, without a character that could end the element that holds them."""
    return json.dumps(figures, separators=(",", ":")).replace("<", "\\u003c")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def _numbers(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The few numbers that a reader wants first."""
    ideal, moved = figures["ideal"], figures["counters"]["bytes"]
    return [
        ("cycles", f"{figures['cycles']:,}"),
        ("time", f"{figures['seconds'] * 1e3:,.3f} ms"),
        ("array utilization", f"{figures['utilization']:.1%}"),
        ("real ÷ ideal cycles", _ratio(figures["cycles"], ideal["cycles"])),
        ("products", f"{figures['macs']:,}"),
        ("bytes over the bus", f"{sum(moved.values()):,}")]


def _ratio(real: int, ideal: int) -> str:
    return f"{real / ideal:.2f}" if ideal else "-"


# ---- tables ------------------------------------------------------------------------------------

_COLUMNS = ("layer", "cycles", "largest stall", "real to ideal", "known ideal", "least cycles",
            "array", "operator", "loaded", "stored", "fetched")
"""A phone shows the first that fit."""
_HEADINGS = [LAYER_COLUMNS[name].heading for name in _COLUMNS]
_WORDS = [LAYER_COLUMNS[name].heading for name in _COLUMNS if LAYER_COLUMNS[name].words]


def _energy(figures: Mapping[str, Any]) -> dict[str, Any] | None:
    """The energy of each layer by unit in microjoules, where it was estimated."""
    used = figures["energy"]
    if not used:
        return None
    units = [unit for unit, joules in used["units"].items() if joules]
    lines = [(layer["name"], layer["energy"]) for layer in figures["layers"]] + [("all", used)]
    return {"technology": used["technology"], "headings": ["layer", "all", *units],
            "rows": [[name, *(f"{joules * 1e6:,.3f}" for joules in (
                one["joules"], *(one["units"][unit] for unit in units)))] for name, one in lines]}
