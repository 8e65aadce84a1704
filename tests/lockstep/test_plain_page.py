"""Plain pages: names in them are text, in tables and in pictures."""

import json
import re
from html.parser import HTMLParser
from io import BytesIO

import pytest

from lockstep.report.comparison import write_comparison
from lockstep.report.plain_page import picture
from lockstep.report.quantization import write_quantization_page
from lockstep.report.templates import text_of
from tests.support.extras import needs
from lockstep.report.search import write_search_page

pytestmark = needs("plotly", "the extra report")

SHARED = text_of("report/shared.js")
HOSTILE = "</script><script>alert(1)</script><!--\"'><img src=x onerror='1'><a href='//x'>&lt;"


def elements_of(text: str) -> list[str]:
    found: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.append(tag)     # type: ignore[assignment]
    parser.feed(text)
    return found


def search(name: str) -> dict:
    task = {"title": name, "values": [2.0, 1.0], "estimates": [1.0, 1.0], "count": 1, "own": 2.0,
            "best": 1.0, "unit": "s", "trials": 2, "failed": 0, "plan": name, "own_plan": "own"}
    return {"model": name, "target": name, "strategy": name, "seed": 0, "trials": 2,
            "tasks": [task, task]}


def quantization(name: str) -> dict:
    layer = {"name": name, "op": name, "quantized": False, "reason": name, "declined": "", "by": "",
             "steps_off": 0, "alone_db": 1.0, "accumulated_db": 2.0, "effect_db": 3.0}
    return {"model": name, "observer": name, "samples": 1, "sqnr_db": 2.0, "agreement": None,
            "equalize": False, "bias_correction": False, "layers": [layer, layer]}


def comparison(name: str) -> dict:
    row = {"name": name, "executed": 0, "reason": name, "luts": 1}
    return {"machines": [{"name": name}, {"name": name}],
            "networks": {name: [{"cycles": 1, "instructions": [row]}] * 2},
            "geometry": {name: [name, 1]}, "added": [name], "removed": [name],
            "changed": {name: [name]}, "opcodes": {name: [1, 2]}}


def compared(file, figures) -> None:
    name = figures["machines"][0]["name"]
    write_comparison(file, figures, [(name, 1, 2)])


@pytest.mark.parametrize(("write", "figures"), [
    (write_search_page, search), (write_quantization_page, quantization), (compared, comparison)])
def test_names_in_a_page_are_no_markup(write, figures) -> None:
    pages = []
    for name in ("a name", HOSTILE):
        write(file := BytesIO(), figures(name))
        pages.append(file.getvalue().decode())
    plain, hostile = map(elements_of, pages)
    assert plain == hostile and "script" in plain and "td" in plain


def test_a_picture_has_a_tool_bar_that_sends_nothing() -> None:
    import plotly.graph_objects as go

    page = picture([go.Bar(x=["a"], y=[1])], "place", False)
    assert '"displayModeBar": true' in page and '"showSendToCloud": false' in page
    assert "displayModeBar: true" in SHARED and "showSendToCloud: false" in SHARED


def test_names_in_a_picture_are_text() -> None:
    """Plotly takes some elements of HTML in its texts, and would show others not at all."""
    import plotly.graph_objects as go

    page = picture([go.Bar(name=HOSTILE, x=[HOSTILE], y=[1], text=[HOSTILE])], "place", False,
                   xaxis={"tickvals": [0], "ticktext": [HOSTILE]}, yaxis_title=HOSTILE)
    given = re.compile(r'Plotly\.newPlot\(\s*"place",\s*').split(page)[1]
    (trace,), end = json.JSONDecoder().raw_decode(given)
    layout, _ = json.JSONDecoder().raw_decode(given[end:].lstrip(", \n"))
    shown = "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;!--\"'&gt;&lt;img src=x " \
            "onerror='1'&gt;&lt;a href='//x'&gt;&amp;lt;"
    assert [trace["name"], *trace["x"], *trace["text"], *layout["xaxis"]["ticktext"],
            layout["yaxis"]["title"]["text"]] == [shown] * 5
