"""The page about training has every operator in its place."""

import contextlib
from pathlib import Path

import pytest

from compiler.gradients.rules.table import (CONSTANT, FAMILIES, GRADIENTS, LOWERED, MISSING,
                                            ON_INTEGERS, hindrance)
from compiler.graph import Node, TensorType, TypeRefused, infer
from compiler.ops.registry import OPERATORS
from compiler.te import is_float

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "training.md").read_text().split())


def named(operators) -> str:
    return ", ".join(f"`{name}`" for name in operators)


def rules() -> str:
    return " ".join(f"- `{family.__name__.split('.')[-1]}`: {named(family.GRADIENTS)}"
                    for family in FAMILIES)


def of_reason(reason: str) -> str:
    return named(op for op in OPERATORS if hindrance(op) == reason)


def test_every_rule_is_told() -> None:
    assert rules() in PAGE, f"docs/training.md must have {rules()}"


def test_what_is_refused_is_told() -> None:
    for reason in (ON_INTEGERS, LOWERED):
        assert f": {of_reason(reason)}." in PAGE, of_reason(reason)


def test_every_operator_has_a_rule_or_a_reason() -> None:
    assert [op for op in OPERATORS if hindrance(op) == MISSING] == []
    assert len(GRADIENTS) >= 60
    assert f"All others give integers or truth values: {named(sorted(CONSTANT))}." in PAGE


@pytest.mark.parametrize("op", sorted(CONSTANT))
def test_constant_operators_give_no_floats(op: str) -> None:
    """Where they take floats, their result is of another type."""
    attrs = {"axis": 0, "keepdims": 0, "count": 1, "largest": 1, "extent": 3, "rows": 3,
             "kernel": (1,), "strides": (1,), "pads": (0, 0), "dilations": (1,)}
    for count in (1, 2):
        node = Node(op, op, ("a", "b")[:count], ("y",), attrs)
        with contextlib.suppress(TypeRefused, TypeError, IndexError):
            made = infer(node, [TensorType((2, 2, 2), "float32")] * count)
            assert not is_float(made.dtype)
