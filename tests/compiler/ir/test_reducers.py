"""Reducers are tried before they are used."""

import pytest

from compiler import te
from compiler.ir.reducers import check_reducer
from tests.compiler.te.samples import argmax


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "float32"])
def test_good_ones_pass(dtype):
    check_reducer(argmax(dtype))
    one = te.const(1, dtype)
    check_reducer(te.reducer("product", lambda l, r: (l[0] * r[0],), (one,)))


def test_moments_that_are_merged_pass():
    """Number, mean and sum of squared differences from it."""
    def merged(l, r):
        difference, share = r[1] - l[1], r[0] / (l[0] + r[0])
        return (l[0] + r[0], l[1] + difference * share,
                l[2] + r[2] + difference * difference * share * l[0])

    check_reducer(te.reducer("moments", merged, (te.const(0, "float64"),) * 3))


@pytest.mark.parametrize("combine, identity, fact", [
    (lambda l, r: (l[0] + r[0],), 1, "its identity must change nothing, but (1) and (5) give (6), "
                                     "not (5)"),
    (lambda l, r: (te.select(r[0].equal(9), l[0], r[0]),), 9,
     "it must be commutative, but (5) and (1) give (1), not (5)"),
    (lambda l, r: (te.select(l[0].equal(9), r[0], te.select(r[0].equal(9), l[0],
                                                           te.abs(l[0] - r[0]))),), 9,
     "it must be associative, but (2) and (1) and (4) give (3), not (1)"),
])
def test_bad_ones_wrong(combine, identity, fact):
    with pytest.raises(ValueError) as caught:       # noqa: PT011 - the whole message is compared
        check_reducer(te.reducer("odd", combine, (te.const(identity, "int32"),)))
    assert str(caught.value) == f"Reducer odd cannot be used: {fact}"
