"""Numbers spelled with instructions that every machine has."""

import numpy as np
import pytest

from accel.mapping.selecting.selection import covered
from accel.mapping.selecting.spelled import spelled
from compiler import te
from compiler.ir.interpret import evaluate
from compiler.ops.integers.arithmetic import exponent_of
from compiler.te import Expr, Var, substitute
from compiler.tensorize.cover import COMPUTED, leaf
from tests.support.machines import TINY

EDGES = [-2**31, -2**31 + 1, -1, 0, 1, 2, 3, 2**31 - 1, *(2**bits for bits in range(2, 31)),
         *(2**bits - 1 for bits in range(2, 31))]
X, N = Var("x", "int32"), Var("n", "int32")


def parts_of(value: Expr) -> tuple[dict[Var, Expr], Expr]:
    """The parts that are numbers of their own, in order, and the whole over them."""
    parts: dict[Var, Expr] = {}

    def known(part: Expr) -> Expr:
        var = next((var for var, other in parts.items() if other == part), None)
        if var is None:
            parts[var := Var(f"part{len(parts)}", "int32")] = part
        return var

    whole = spelled(value, known)
    return parts, whole


@pytest.mark.parametrize("value", [
    exponent_of(X), te.select(X > 0, N, X), te.select(X - 5 > 0, X >> 3, X - 5),
    X << (N & 31)], ids=["exponent", "choice", "shift", "left"])
def test_a_spelling_means_the_same_for_any_number(rng, value: Expr) -> None:
    x = np.array([*EDGES, *rng.integers(-2**31, 2**31, 200)]).astype(np.int32)
    n = rng.integers(-2**31, 2**31, x.size).astype(np.int32)
    known = {X: x, N: n}
    expected = evaluate(value, known, x.size)
    parts, whole = parts_of(value)
    for var, part in parts.items():
        known[var] = evaluate(part, known, x.size)
    np.testing.assert_array_equal(evaluate(whole, known, x.size), expected)


def test_every_machine_computes_a_spelling() -> None:
    parts, whole = parts_of(exponent_of(X) + (X << (N & 31)))
    leaves = {var: leaf(var.name, "int32", COMPUTED) for var in (X, N, *parts)}
    for value in (*parts.values(), whole):
        covered(TINY, substitute(value, leaves), COMPUTED)
