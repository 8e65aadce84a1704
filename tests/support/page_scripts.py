"""The scripts of pages without a browser: Node runs them on elements that only remember."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lockstep.report.page import page_parts

__all__ = ["texts_drawn", "with_node"]

NODE = shutil.which("node") or shutil.which("nodejs")
with_node = pytest.mark.skipif(NODE is None, reason="Node is not installed")

_ELEMENTS = """
const given = JSON.parse(require("fs").readFileSync(0)), drawn = [], elements = {};
class Element {
  constructor() { Object.assign(this, {dataset: {}, style: {}, value: "", textContent: "",
                                       clientWidth: 900}); }
  append() {} replaceChildren() {} setAttribute() {} addEventListener() {} on() {}
}
globalThis.document = {
  getElementById: id => elements[id] ??= new Element(), createElement: () => new Element(),
  documentElement: new Element(), head: new Element()};
globalThis.addEventListener = () => {};
globalThis.matchMedia = () => ({matches: false});
globalThis.innerHeight = 900;
const remember = (element, traces, form) => drawn.push(traces, form);
globalThis.Plotly = {react: remember, newPlot: remember};
document.getElementById("figures").textContent = JSON.stringify(given.figures);
document.getElementById("plotly").textContent =
  require("zlib").gzipSync("").toString("base64");
process.once("beforeExit", () => process.stdout.write(JSON.stringify(
  {drawn, failure: document.getElementById("failure").textContent})));
(0, eval)(given.script);
"""


def texts_drawn(figures: Mapping[str, Any], script: str) -> list[str]:
    """All texts in the pictures that a page's script, a file of `lockstep/report`, makes of these
    figures.
    """
    assert NODE is not None
    parts = page_parts(figures, "", script)
    done = subprocess.run([NODE, "-e", _ELEMENTS], capture_output=True, text=True, check=True,
                          input=json.dumps({"figures": figures, "script": parts["script"]}))
    said = json.loads(done.stdout)
    assert said["failure"] == "" and said["drawn"]
    return [*_texts(said["drawn"])]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
