"""What an element tells of the loops around its accesses, beside what isl finds."""

import random

import pytest

from compiler.ir import Access, For, Store, accesses, loop_domain, witness
from compiler.schedule.analysis.dependence import earlier, same_for_element
from compiler.te import INDEX, Buffer, Const, Expr, Var

I, J, K = (Var(name, INDEX) for name in "ijk")


def access(index: Expr, extents: tuple[int, ...]) -> Access:
    """A store at that place of a long buffer, inside of loops i, j, k."""
    buffer = Buffer("t", (10000,), "int32", "global")
    loops = [For(var, extent, Store(buffer, (index,), Const(0, "int32")))
             for var, extent in zip((I, J, K), extents, strict=True)]
    store = Store(buffer, (index,), Const(0, "int32"))
    return next(one for one in accesses(store, loop_domain(tuple(loops))) if one.is_write)


@pytest.mark.parametrize(("index", "extents", "told"), [
    (I * 12 + J * 4 + K, (5, 3, 4), "ijk"),
    (I * 12 + J * 4 + K, (5, 3, 5), ""),                # k runs into j
    (I * 11 + J * 4 + K, (5, 3, 4), ""),
    (I * 16 + K, (5, 3, 4), "ik"),                      # j moves nothing
    (I * 16 - K, (5, 3, 4), "ik"),
    (I + J * 5, (5, 1, 7), "ij"),
    (I % 3, (5, 2, 2), ""),
    (I + 0, (1, 1, 1), "ijk")])
def test_loops_that_an_element_tells(index: Expr, extents: tuple[int, ...], told: str) -> None:
    one = access(index, extents)
    assert {var.name for var in same_for_element(one, one)} == set(told)


def test_two_places_tell_nothing() -> None:
    a, b = access(I * 4 + J, (5, 4, 2)), access(I * 4 + J + 1, (5, 4, 2))
    assert not same_for_element(a, b)


@pytest.mark.parametrize("seed", range(60))
def test_isl_finds_no_two_instances_where_a_loop_is_told(seed: int) -> None:
    rng = random.Random(seed)
    extents = tuple(rng.choice([1, 2, 3, 4]) for _ in range(3))
    index = I * rng.randrange(14) + J * rng.randrange(6) + K * rng.randrange(3) + 20
    one = access(index, extents)
    told = same_for_element(one, one)
    for var in (I, J, K):
        if var in told:
            assert witness(one, one, (), earlier([var])) is None
