"""The normal form keeps values: conversions are checked with every value, rules one by one."""

import itertools

import numpy as np
import pytest

from compiler import te
from compiler.te import Const, Var
from compiler.tensorize.normal import casts_join, normal

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@pytest.mark.parametrize(("source", "middle", "target"), list(itertools.product(
    INTEGERS[:4], INTEGERS, INTEGERS)))
def test_conversions_join_only_where_no_value_changes(source, middle, target):
    bounds = np.iinfo(source)
    values = np.arange(bounds.min, bounds.max + 1).astype(source)
    equal = (values.astype(middle).astype(target) == values.astype(target)).all()
    assert casts_join(source, middle, target) == equal


def test_floats_never_join():
    assert not casts_join("float64", "int32", "int8")
    assert not casts_join("int8", "float32", "int8")


X = Var("x", "int32")


@pytest.mark.parametrize(("expr", "expected"), [
    (te.cast(te.cast(X, "int64"), "int8"), te.cast(X, "int8")),
    (te.cast(te.cast(X, "int64"), "int32"), X),
    (te.cast(te.cast(X, "int16"), "int32"), te.cast(te.cast(X, "int16"), "int32")),
    (te.cast(Const(300, "int32"), "int8"), Const(44, "int8")),
    (X + te.cast(Const(3, "int8"), "int32") * 5, X + 15),
    (te.select(Const(2, "int32") < 1, X, X + 1), X + 1),
    (Const(1, "int32") // 0, Const(1, "int32") // 0),
    (X + 0, X + 0),
])
def test_rules(expr, expected):
    assert normal(expr) == expected
