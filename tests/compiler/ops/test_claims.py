"""What records claim of their operators holds for the meanings, to the bit."""

from collections.abc import Mapping

import numpy as np
import pytest

from compiler.ops.records.channels_last import FROM_LAST, TO_LAST
from compiler.ops.records.node import TensorType
from compiler.ops.records.operator import Operator
from compiler.ops.registry import OPERATORS, find
from tests.compiler.ops.test_general import CASES as GENERAL
from tests.support.operator_cases import CASES

Array = np.ndarray
EDGES = np.array([0.0, -0.0, 1.5, -1.5, 2.5, -3.0, np.inf, -np.inf, 1e-40, 88.0], np.float32)
WHOLE = np.array([0, 1, -1, 2, -7, 100, 2**31 - 1, -2**31], np.int32)


IMAGE = np.arange(-60, 60, dtype=np.float32).reshape(2, 3, 4, 5)
SCALES = np.array([0.5, 2, 4], np.float32)
ACROSS = {"axes": (2, 3), "keepdims": 1}
IMAGES: dict[str, tuple[dict, list[Array]]] = {
    **{f"reduce_{op}": (ACROSS, [IMAGE]) for op in ("sum", "max", "min", "prod")},
    "concat": ({"axis": 1}, [IMAGE, IMAGE + 1]), "reverse": ({"axes": (2, 3)}, [IMAGE]),
    "quantizelinear": ({"axis": 1}, [IMAGE, SCALES, np.array([1, -2, 3], np.int8)]),
    "dequantizelinear": ({"axis": 1}, [IMAGE.astype(np.int8), SCALES, np.zeros(3, np.int8)]),
    "fake_quantize": ({"axis": 1, "lo": -8, "hi": 7}, [IMAGE, SCALES]),
    "expand": ({"shape": (2, 3, 4, 5)}, [IMAGE[:, :1]]),
    "pad": ({"before": (0, 1, 2, 0), "after": (0, 0, 1, -1), "mode": "constant"},
            [IMAGE, np.array(7, np.float32)]),
}
"""Attributes and inputs of operators whose cases have no images."""


def claiming(claim) -> pytest.MarkDecorator:
    """The operators of which the record claims it."""
    names = [name for name, operator in OPERATORS.items() if claim(operator)]
    assert names
    return pytest.mark.parametrize("operator", [OPERATORS[name] for name in names], ids=names)


def examples(op: str) -> list[tuple[Mapping, list[Array]]]:
    """Attributes and float inputs of the cases of an operator."""
    rng = np.random.default_rng(2)
    found: list[tuple[Mapping, list[Array]]] = [
        (case.attrs, list(case.inputs)) for case in CASES if case.op == op]
    return found + [(case.attrs, [rng.normal(size=one).astype(np.float32)
                                  if isinstance(one, tuple) else one for one in case.args])
                    for case in GENERAL if case.op == op and case.args]


def operand(operator: Operator) -> Array:
    """What a function of one operand takes: floats where it takes them, else its own type."""
    for values in (EDGES, WHOLE, *map(EDGES.view, (np.uint8, np.int8, np.uint16, np.int16))):
        try:
            operator.meaning({}, values)
        except TypeError:
            continue
        if not operator.name.startswith("to_") or values.dtype.name == operator.inputs[2:]:
            return values
    raise AssertionError(operator.name)


def same(a: Array, b: Array) -> None:
    assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@claiming(lambda one: one.algebra.idempotent)
def test_idempotent(operator: Operator) -> None:
    rng = np.random.default_rng(1)
    match operator.inputs.count(",") + 1:
        case 1:
            once = operator.meaning({}, EDGES)
            same(operator.meaning({}, once), once)
        case 2:
            x, a = WHOLE, rng.permutation(WHOLE)
            once = operator.meaning({}, x, a)
            same(operator.meaning({}, x, x), x)
            same(operator.meaning({}, once, a), once)
        case _:
            same(operator.meaning({}, EDGES > 1, EDGES, EDGES), EDGES)


@claiming(lambda one: one.algebra.inverse)
def test_inverse(operator: Operator) -> None:
    x = operand(operator)
    same(find(operator.algebra.inverse).meaning({}, operator.meaning({}, x)), x)


@claiming(lambda one: one.algebra.neutral is not None)
def test_neutral(operator: Operator) -> None:
    neutral = np.array(operator.algebra.neutral, np.int32)
    same(operator.meaning({}, WHOLE, neutral), WHOLE)
    turned = np.asarray(operator.meaning({}, neutral, WHOLE)).astype(np.int32)
    assert (turned.tobytes() == WHOLE.tobytes()) == operator.algebra.commutes


@claiming(lambda one: one.algebra.never_minus_zero)
def test_never_minus_zero(operator: Operator) -> None:
    for attrs, inputs in examples(operator.name):
        made = operator.meaning(attrs, *inputs)
        assert not np.signbit(made[made == 0]).any()
    if operator.inputs == "x":
        made = operator.meaning({}, EDGES)
        assert not np.signbit(made[made == 0]).any()


@claiming(lambda one: one.algebra.unchanged)
def test_unchanged(operator: Operator) -> None:
    """It is said of no case that changes something."""
    for attrs, inputs in examples(operator.name):
        made = operator.meaning(attrs, *inputs)
        types = [TensorType.of(one) for one in inputs]
        assert operator.algebra.unchanged is not None
        if operator.algebra.unchanged(attrs, types, TensorType.of(made)):
            same(np.ascontiguousarray(made), np.ascontiguousarray(inputs[0]))


@claiming(lambda one: one.homogeneous)
def test_homogeneous(operator: Operator) -> None:
    for attrs, (x, *_) in examples(operator.name):
        if x.dtype == np.float32:
            same(operator.meaning(attrs, x * np.float32(4)),
                 operator.meaning(attrs, x) * np.float32(4))


@claiming(lambda one: one.picks)
def test_picks(operator: Operator) -> None:
    for attrs, (x,) in examples(operator.name):
        assert set(operator.meaning(attrs, x).flat) <= set(x.flat)


@claiming(lambda one: one.bounds)
def test_bounds(operator: Operator) -> None:
    for attrs, (x,) in examples(operator.name):
        assert operator.bounds is not None
        low, high = (np.float32(bound) for bound in operator.bounds(attrs))
        made = operator.meaning(attrs, x)
        assert low <= high and made.min() >= low and made.max() <= high or low > high


@claiming(lambda one: one.view)
def test_views_are_elements_in_a_row(operator: Operator) -> None:
    for attrs, (x,) in examples(operator.name):
        made = operator.meaning(attrs, x)
        assert operator.view is not None
        if operator.reads_small:
            assert made.tobytes() == x.tobytes()
        elif operator.view(attrs, x.shape, made.shape):
            numbers = operator.meaning(attrs, np.arange(x.size).reshape(x.shape)).ravel()
            assert (np.diff(numbers) == 1).all()


@claiming(lambda one: one.channels_last)
def test_channels_last(operator: Operator) -> None:
    """The form on NHWC gives the result with its channels last."""
    compared = 0
    for attrs, inputs in [*examples(operator.name), IMAGES.get(operator.name, ({}, []))]:
        if not inputs:
            continue
        form, made = operator.channels_last, operator.meaning(attrs, *inputs)
        data = inputs[:operator.data_inputs]
        if form is None or made.ndim != 4 or any(one.ndim != 4 for one in data):
            continue
        last = form.attrs(attrs)
        if last is None:
            continue
        moved = [one.transpose(TO_LAST) for one in data] + inputs[len(data):]
        if form.pixels:
            n, h, w, c = moved[0].shape
            found = find(form.pixels).meaning(last, moved[0].reshape(n, 1, h, w, c), *moved[1:])
            found = found.reshape([made.shape[axis] for axis in TO_LAST])
        else:
            found = operator.meaning(last, *moved)
        same(np.ascontiguousarray(found.transpose(FROM_LAST)), np.ascontiguousarray(made))
        compared += 1
    assert compared
