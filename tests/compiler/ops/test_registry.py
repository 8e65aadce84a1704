"""All records are collected, and told on a page."""

import importlib
import pkgutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from compiler import ops
from compiler.ops import registry
from compiler.ops.node import Node, TensorType
from compiler.ops.operator import Kind, Operator
from compiler.ops.registry import FAMILIES, OPERATORS, collected, find, infer
from compiler.ops.rules import TypeRefused, Types, need
from compiler.ops.table import page


def test_every_module_with_operators_is_a_family() -> None:
    modules = [importlib.import_module(f"compiler.ops.{one.name}")
               for one in pkgutil.iter_modules(ops.__path__)]
    assert set(FAMILIES) == {one for one in modules if hasattr(one, "OPERATORS")} - {registry}


def test_one_name_is_one_operator() -> None:
    twice = SimpleNamespace(OPERATORS=(find("relu"), replace(find("relu"), kind=Kind.OPAQUE)))
    with pytest.raises(ValueError, match=r"^Operator must be declared once, not twice 'relu'$"):
        collected([twice])


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_records_agree_with_themselves(operator: Operator) -> None:
    """What one field says of other operators, they say too; parameters follow data."""
    for other in (operator.stored, operator.algebra.inverse,
                  operator.channels_last.pixels if operator.channels_last else ""):
        assert not other or other in OPERATORS
    if operator.algebra.inverse:
        assert find(operator.algebra.inverse).algebra.inverse == operator.name
    assert operator.parameters is None or operator.data_inputs
    assert not operator.integer or not operator.bounds


def test_the_page_tells_all_operators(golden) -> None:
    golden("../../docs/operators.md", page())


def test_a_type_is_inferred_once(monkeypatch) -> None:
    """Whatever nodes are called; but a refusal has their names."""
    judged: list[str] = []

    def typed(node: Node, types: Types) -> TensorType:
        judged.append(node.name)
        need(types[0].dtype == "float32", node, f"{node.inputs[0]} must be float32")
        return types[0]

    monkeypatch.setitem(OPERATORS, "relu", replace(find("relu"), type=typed))
    given = TensorType((2, 3), "float32")
    for name in "abc":
        assert infer(Node("relu", name, (f"x{name}",), (f"y{name}",)), [given]) == given
    assert len(judged) == 1
    with pytest.raises(TypeRefused, match="^d: xd must be float32$"):
        infer(Node("relu", "d", ("xd",), ("yd",)), [TensorType((2, 3), "int8")])
