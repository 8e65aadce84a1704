"""Operators as tensor expressions mean what the reference of graphs says."""

import numpy as np
import pytest

from compiler import te
from compiler.graph import evaluate_node
from compiler.ir import Program, interpret, lower, verify
from compiler.ops.families.orders import HIGH
from compiler.ops.records.operator import Numbers
from compiler.ops.registry import OPERATORS, expression
from tests.support.operator_cases import CASES, OperatorCase, assert_same


def program(case: OperatorCase) -> Program:
    inputs = [te.placeholder(array.shape, array.dtype.name, name)
              for name, array in zip(case.node.inputs, case.inputs, strict=True)]
    return verify(lower([expression(case.op, case.node.attrs, inputs, "y")], case.op))


def test_every_operator_has_a_case() -> None:
    """Here, or in test_general.py where it takes every element type."""
    assert {case.op for case in CASES} >= {
        name for name, operator in OPERATORS.items() if operator.numbers is not Numbers.ANY}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_means_what_the_reference_says(case: OperatorCase) -> None:
    made = interpret(program(case), dict(zip(case.node.inputs, case.inputs, strict=True)))
    assert_same(case.op, made["y"], evaluate_node(case.node, case.inputs))


def test_cases_tell_integer_results_apart() -> None:
    """A case whose results are all alike would not notice a wrong operand."""
    for case in CASES:
        made = evaluate_node(case.node, case.inputs)
        few = case.attrs.get("mult") == 0 or case.attrs.get("part") == HIGH     # 0 and 1 alone
        if case.op.startswith("q") and made.size > 20 and not few:
            assert len(np.unique(made)) > 5, case


@pytest.mark.parametrize(("size", "kernel", "strides", "pads", "padded"), [
    ((5, 5), (3, 3), (1, 1), (0, 0, 0, 0), None),
    ((6, 5), (2, 2), (4, 4), (0, 0, 3, 3), (6, 6)),
    ((5, 6), (2, 2), (4, 4), (0, 0, 1, 1), (6, 6)),
    ((6, 6), (2, 2), (4, 4), (0, 0, 1, 1), None),
    ((5, 5), (3, 3), (2, 2), (1, 1, 1, 1), (7, 7)),
    ((8, 8), (3, 3), (2, 2), (1, 1, 1, 1), (9, 9)),
])
def test_inputs_are_padded_as_far_as_windows_reach(size, kernel, strides, pads, padded) -> None:
    x, w = (te.placeholder((1, 1, *shape), "int8", name)
            for shape, name in ((size, "x"), (kernel, "w")))
    vectors = [te.placeholder((1,), "int32", name) for name in ("bias", "mult", "shift")]
    attrs = {"strides": strides, "pads": pads, "pad_value": 3, "zp": 0, "lo": -128, "hi": 127}
    made = lower([expression("qconv2d", attrs, [x, w, *vectors], "y")], "qconv2d")
    alloc = made.body.buffer            # type: ignore[attr-defined]
    assert alloc.shape == (1, 1, *padded) if padded else alloc.name == "y_acc"


def test_reshape_divides_no_more_than_it_must() -> None:
    x = te.placeholder((2, 16, 1, 1), "int8", "x")
    made = expression("reshape", {"shape": (2, 4, 4)}, [x], "y")
    program = lower([made], "reshape")
    assert str(program.body).count("floordiv") == str(program.body).count("mod") == 0


def test_an_unknown_operator_is_refused() -> None:
    message = f"Operator must be one of {', '.join(OPERATORS)}, not 'softmax'"
    with pytest.raises(ValueError, match=f"^{message}$"):
        expression("softmax", {}, [], "y")


def test_a_concat_of_many_inputs_is_not_deep() -> None:
    """Python recurses into expressions."""
    inputs = [te.placeholder((1, 2), "float32", f"x{number}") for number in range(1500)]
    made = lower([expression("concat", {"axis": 0}, inputs, "y")], "concat")
    arrays = {f"x{number}": np.full((1, 2), number, np.float32) for number in range(1500)}
    wanted = np.repeat(np.arange(1500, dtype=np.float32), 2).reshape(1500, 2)
    np.testing.assert_array_equal(interpret(made, arrays)["y"], wanted)
