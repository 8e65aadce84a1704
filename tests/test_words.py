"""The first words of docstrings: they say what a thing is or does, and are no fragments."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import statements

ROOT = Path(__file__).parents[1]
PRODUCT = ("compiler", "accel", "runtime", "fpga", "asic", "lockstep")
FRAGMENT = re.compile(r"(?:Whether|The same|Of|Those|That|What|How|Where|Who|When)\b(?!')")
MOST = 9
"""Fragments that are left. This number only goes down."""


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings of a module, its classes and functions."""
    for node in statements(text):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node)
            if said:
                yield node.body[0].lineno, said


def fragments(text: str) -> list[int]:
    """The lines of docstrings that begin with a word of `FRAGMENT`."""
    return sorted(line for line, said in docstrings(text) if FRAGMENT.match(said))


def test_few_docstrings_begin_with_a_fragment() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for folder in PRODUCT
             for path in sorted((ROOT / folder).rglob("*.py"))
             for line in fragments(path.read_text())]
    assert len(found) <= MOST, f"say what it is or does, first: {found}"


@pytest.mark.parametrize(("said", "count"), [
    ("Whether it is.", 1), ("The same behind so many.", 1), ("Those.", 1), ("Of a layer.", 1),
    ("True if it is.", 0), ("The sameness of two.", 0), ("Offers it.", 0), ("Whose it is.", 0)])
def test_a_fragment_is_found(said: str, count: int) -> None:
    assert len(fragments(f'def f():\n    """{said}"""')) == count
    assert len(fragments(f'class C:\n    x = 1\n    """{said}"""')) == 0
