"""Examples in README, docs and docstrings run."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "examples").rglob("*.md"))]
BLOCKS = [(page, number, text) for page in PAGES for number, text in enumerate(
    re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE))]
MODULES = ["accel.machine.isa", "compiler.ops.registry", "compiler.plans",
           "compiler.schedule.handle", "compiler.te.lanes", "compiler.te.reducer",
           "compiler.te.tensor", "compiler.tune.chooser", "compiler.tune.explorer",
           "compiler.tune.space", "runtime.driver.compilation", "runtime.driver.onnx_backend"]


LONG = ("EmulatedBoard", "Probe", "quantized.trainable")    # what compilers take seconds for


@pytest.mark.parametrize(("page", "number", "text"), [
    pytest.param(*block, marks=pytest.mark.slow if any(name in block[2] for name in LONG) else (),
                 id=f"{block[0].name}-{block[1]}") for block in BLOCKS])
def test_blocks_of_pages_run(page, number, text, monkeypatch):
    monkeypatch.chdir(ROOT)
    if "import torch" in text:
        pytest.importorskip("torch")
    exec(compile(text, f"{page.name}[{number}]", "exec"), {})


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_hold(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted and not result.failed


def test_modules_with_examples_are_listed():
    found = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
             for folder in ("accel", "compiler", "runtime")
             for path in (ROOT / folder).rglob("*.py") if "\n>>> " in path.read_text()
             or re.search(r"^ +>>> ", path.read_text(), re.MULTILINE)}
    assert found == set(MODULES)
