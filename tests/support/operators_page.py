"""The page about operators, from their records: docs/operators.md."""

from collections.abc import Iterator
from textwrap import wrap

from compiler.ops.records.operator import Numbers, Operator
from compiler.ops.registry import FAMILIES

__all__ = ["page"]

_HEAD = """\
# Operators of networks

What graphs consist of, whatever they were imported from. The page is written from the records in
`compiler/ops` (`pytest tests/compiler/ops/test_registry.py --update-golden`); how to add one,
CONTRIBUTING.md says.

`?` marks an input that may lack; a number in parentheses is what an attribute is unless told.
Beside the name stand the kind, which says what is fused with what (`docs/cpu.md`), and the numbers.
Operators compute with
"""
_WIDTH = 120


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
        yield from map(_item, family.OPERATORS)


def _item(operator: Operator) -> str:
    attributes = f" Attributes: {operator.attributes}." if operator.attributes else ""
    said = f"{operator.summary}. Inputs: {operator.inputs}.{attributes}".replace("*", r"\*")
    kinds = f"{operator.kind.name.lower()}, {operator.numbers.name.lower()}"
    return "\n".join(wrap(f"**`{operator.name}`** ({kinds}): {said}", _WIDTH, initial_indent="- ",
                          subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
