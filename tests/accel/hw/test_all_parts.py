"""No part of the hardware is without a test of its own."""

import ast
from pathlib import Path

HERE = Path(__file__).parent
HARDWARE = Path(__file__).parents[3] / "accel" / "hw"
IN_UNITS = {"issue.py"}
"""Parts that the tests of each unit hold to what they promise."""


def words(path: Path) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}


def components(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
            and any(ast.unparse(base).endswith("Component") for base in node.bases)}


def test_every_file_with_components_has_a_test():
    used = {word for path in HERE.rglob("test_*.py") for word in words(path)}
    untested = {path.name for path in HARDWARE.rglob("*.py")
                if components(path) and not components(path) & used}
    assert untested == IN_UNITS
