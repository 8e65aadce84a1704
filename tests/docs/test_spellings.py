"""The table of spellings has every operator that the front end takes."""

import re
from pathlib import Path

import compiler.frontend.onnx.operators       # noqa: F401 - registers what the front end takes
from compiler.frontend.onnx.nodes.registry import OPERATORS

PAGE = Path(__file__).parents[2] / "docs" / "spellings.md"
OTHERS = {"", "ai.onnx.ml", "ai.onnx.preview.training", "lockstep"}
"""Domains that are no other tool's."""


def test_every_operator_of_other_domains_is_in_the_table():
    text = PAGE.read_text()
    taken = {name for domain, name in OPERATORS if domain not in OTHERS}
    assert sorted(name for name in taken if not re.search(rf"\b{name}\b", text)) == []
