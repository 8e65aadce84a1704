"""All records are collected, and told on a page."""

import ast
import importlib
import pkgutil
from dataclasses import astuple, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from compiler import ops
from compiler.ops import registry
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Kind, Operator
from compiler.ops.records.rules import TypeRefused, Types, need
from compiler.ops.registry import FAMILIES, OPERATORS, collected, find, infer
from tests.support.operators_page import page

ROOT = Path(__file__).parents[3]


def test_every_module_with_operators_is_a_family() -> None:
    modules = [importlib.import_module(one.name)
               for one in pkgutil.walk_packages(ops.__path__, "compiler.ops.")]
    assert set(FAMILIES) == {one for one in modules if hasattr(one, "OPERATORS")} - {registry}


def test_one_name_is_one_operator() -> None:
    twice = SimpleNamespace(OPERATORS=(find("relu"), replace(find("relu"), kind=Kind.OPAQUE)))
    with pytest.raises(ValueError, match=r"^Operator must be declared once, not twice 'relu'$"):
        collected([twice])


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_records_agree_with_themselves(operator: Operator) -> None:
    """What one field says of other operators, they say too; parameters follow data."""
    for other in (operator.stored, operator.algebra.inverse, operator.algebra.absorbs,
                  operator.channels_last.pixels if operator.channels_last else "",
                  *(astuple(operator.convolved) if operator.convolved else ())):
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


def listed(tree: ast.AST) -> list[list[str]]:
    """Literals of three names of operators or more."""
    found = []
    for node in ast.walk(tree):
        members = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        names = [one.value for one in members if isinstance(one, ast.Constant)
                 and isinstance(one.value, str)]
        if len(names) > 2 and set(names) <= set(OPERATORS):
            found.append(names)
    return found


def test_passes_have_no_lists_of_operators() -> None:
    """They ask records, so that nothing is forgotten when an operator is added. The quantizer says
    by name what is quantized already, and what a product and a sum are, as the pass that folds
    scales does; constants, which operators only move them; the export for other simulators, which
    products these know.
    """
    folders = ("compiler/graph", "compiler/quantize", "compiler/cpu_gpu_backends/cpu", "runtime")
    found = {path.relative_to(ROOT).as_posix(): names for folder in folders
             for path in (ROOT / folder).rglob("*.py")
             if (names := listed(ast.parse(path.read_text())))}
    assert found == {
        "compiler/graph/integerize/constants.py": [["expand", "reverse", "concat"]],
        "compiler/graph/passes/fold_scales.py": [["add", "sub", "mul", "div"]],
        "compiler/quantize/networks/affine.py": [["mul", "add", "sub", "div"]],
        "compiler/quantize/networks/preparation.py": [
            ["quantizelinear", "dequantizelinear", "quantize", "dequantize"]],
        "runtime/exporting/peers.py": [["conv2d", "qconv2d", "qconv2d_add"],
                                       ["dense", "qdense", "qdense_add", "matmul", "qmatmul"],
                                       ["convtranspose2d", "qconvtranspose2d", "conv", "einsum"]]}


def test_a_planted_list_is_found() -> None:
    planted = 'SINKS = ("maxpool", "reshape", "slice")\nRULES = {"add": 1, "mul": 2, "sub": 3}'
    assert listed(ast.parse(planted)) == [["maxpool", "reshape", "slice"], ["add", "mul", "sub"]]
