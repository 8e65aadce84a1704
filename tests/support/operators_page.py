"""The page about operators, from their records: docs/operators.md."""

from collections.abc import Iterator

from compiler.ops.operator import Numbers, Operator
from compiler.ops.registry import FAMILIES

__all__ = ["page"]

_HEAD = """\
# Operators of networks

What graphs consist of, whatever they were imported from. The page is written from the records in
`compiler/ops` (`pytest tests/compiler/ops/test_registry.py --update-golden`); how to add one,
CONTRIBUTING.md says.

`?` marks an input that may lack; a number in parentheses is what an attribute is unless told. A
kind says what is fused with what (`docs/cpu.md`). Operators compute with
"""
_COLUMNS = "| operator | result | inputs | attributes | kind | numbers |\n|---|---|---|---|---|---|"


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    for numbers in Numbers:
        yield f"- *{numbers.name.lower()}*: {numbers.value};"
    for family in FAMILIES:
        title, *rest = (family.__doc__ or "").strip().split("\n\n")
        yield f"\n## {title.rstrip('.')}\n"
        for paragraph in rest:
            yield f"{paragraph}\n"
        yield _COLUMNS
        yield from map(_row, family.OPERATORS)


def _row(operator: Operator) -> str:
    cells = (f"`{operator.name}`", operator.summary, operator.inputs, operator.attributes,
             operator.kind.name.lower(), operator.numbers.name.lower())
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("*", r"\*")
