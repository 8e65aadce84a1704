"""Reducers of one's own: their types, what they combine, what is refused."""

import pytest

from compiler import te
from compiler.te import Const, Var
from tests.compiler.te.samples import argmax

ZERO = te.const(0, "int32")


def test_combine_puts_both_results_in():
    total = te.reducer("total", lambda l, r: (l[0] + r[0],), (ZERO,))
    x, y = Var("x", "int32"), Var("y", "int32")
    assert total.combine((x,), (y,)) == (x + y,)
    assert total.dtypes == ("int32",)


@pytest.mark.parametrize("dtype, rounds", [("int32", False), ("float32", True)])
def test_only_calculated_floats_round(dtype, rounds):
    zero = te.const(0, dtype)
    moments = te.reducer("moments", lambda l, r: (l[0] + r[0], l[1] + r[1]), (zero, zero))
    assert moments.rounds is rounds
    assert not argmax(dtype).rounds


def test_number_of_values_wrong():
    with pytest.raises(ValueError, match="^Reducer pair must combine as many values as it has "
                                         "identities, not 2 with 1$"):
        te.reducer("pair", lambda l, r: (l[0], r[0]), (ZERO,))


def test_type_wrong():
    with pytest.raises(TypeError) as caught:
        te.reducer("wide", lambda l, r: ((l[0] + r[0]).astype("int64"),), (ZERO,))
    assert str(caught.value) == "Value 0 of reducer wide must be int32, not int64"


@pytest.mark.parametrize("foreign", [Var("i", "int32"),
                                     te.placeholder((1,), "int32", "a")[Const(0, "int64")]])
def test_foreign_values_wrong(foreign):
    with pytest.raises(ValueError, match="^Reducer odd must use nothing but the two partial "
                                         "results$"):
        te.reducer("odd", lambda l, r: (l[0] + foreign,), (ZERO,))
