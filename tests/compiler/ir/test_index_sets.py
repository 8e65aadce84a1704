"""Index sets against enumeration of every iteration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler import te
from compiler.ir import index_sets
from compiler.ir import (Access, Box, Domain, For, If, Seq, Stmt, Store, accesses, bounds, conflict,
                         covers, expr_text, footprint, hull, is_implied, loop_domain)
from compiler.te import INDEX, Binary, Buffer, Const, Var

H, W, O = Var("h"), Var("w"), Var("o")
A, C = Buffer("a", (20,), "int32"), Buffer("c", (20,), "int32")
BOX = Domain(((O, 3), (H, 4), (W, 5)))
ZERO = Const(0, INDEX)


def box_text(box: Box) -> list[str]:
    return [f"{expr_text(low)} +{size}" for low, size in zip(box.lower, box.extents)]


def read(index, domain=BOX) -> Access:
    return Access(A, (index,), "read", domain, Store(C, (H,), A[index]))


@pytest.mark.parametrize("expr, domain, expected", [
    (H * 2 + W, BOX, (0, 10)),
    (H - W, BOX, (-4, 3)),
    (H * 2 + W, BOX.where(H + W < 3), (0, 4)),
    ((H * 2 + W) // 3, BOX, (0, 3)),
    ((H * 2 + W) % 3, BOX, (0, 2)),
    (Binary("min", H, W - 1), BOX, (-1, 3)),
    (H, BOX.where(te.all_of(H >= 2, W < H - 2)), (3, 3)),
    (H, BOX.where(H >= 4), None),
    (H * W, BOX, None),
    (Var("z"), BOX, None),
    (H, BOX.where(O.equal(2)), (0, 3)),
])
def test_bounds(expr, domain, expected):
    assert bounds(expr, domain) == expected


@pytest.mark.parametrize("condition, domain, expected", [
    (H < 4, BOX, True), (H < 3, BOX, False), (H >= 0, BOX, True),
    (H * 5 + W < 20, BOX, True), (H * 5 + W < 19, BOX, False),
    (H * 5 + W < 19, BOX.where(W < 4), True),
    (te.all_of(H < 4, W < 5), BOX, True), (te.all_of(H < 4, W < 4), BOX, False),
    (Binary("or", H < 2, H >= 2), BOX, True),
    (H * W < 100, BOX, False),
    (H.not_equal(4), BOX, True),
    (H * O < 1, BOX.where(H * O < 1), False),
])
def test_is_implied(condition, domain, expected):
    assert is_implied(condition, domain) == expected


def test_access_has_the_conditions_around_it():
    value = te.select(H >= 1, A[H - 1], te.cast(A[H], "int32"))
    nest = For(H, 4, If(W < 3, Store(C, (H + W,), value)))
    found = list(accesses(nest, Domain(((W, 5),))))
    assert [(a.kind, a.buffer.name, expr_text(a.indices[0])) for a in found] == [
        ("read", "a", "h - 1"), ("read", "a", "h"), ("store", "c", "h + w")]
    shown = [[expr_text(c) for c in a.domain.conditions] for a in found]
    assert shown == [["w < 3", "h >= 1"], ["w < 3", "h < 1"], ["w < 3"]]
    assert all(a.domain.loops == ((W, 5), (H, 4)) for a in found)
    assert loop_domain((nest, nest.body)) == Domain(((H, 4),), (W < 3,))


def test_hull_of_a_window():
    """Rows of a tile of three, stride two, kernel of five: 2*2 + 5 elements from 6*o on."""
    box = hull([read((O * 3 + H) * 2 + W, Domain(((O, 3), (H, 3), (W, 5))))], frozenset((O,)),
               (30,))
    assert box_text(box) == ["o*6 +9"]


@pytest.mark.parametrize("reads, outer, expected", [
    ([O * 4 + H, O * 4 + H + 2], {O}, "o*4 +6"),
    ([O * 4 + H - 1, O * 4 - H], {O}, "o*4 - 3 +6"),
    ([O * 4 + H, H], {O}, "0 +12"),
    ([O * 4 + H, O * 4 + H * H], {O}, "0 +20"),
    ([H + W], set(), "0 +8"),
    ([H + W], {H, W, O}, "h + w +1"),
    ([(O * 4 + H) // 2], {O}, "o*2 +2"),
    ([(O + H) // 2], {O}, "0 +3"),
    ([Const(7, INDEX)], {O}, "7 +1"),
])
def test_hull(reads, outer, expected):
    assert box_text(hull([read(index) for index in reads], frozenset(outer), (20,))) == [expected]


def test_hull_uses_conditions():
    domain = BOX.where(te.all_of(H >= 1, H < 3))
    assert box_text(hull([read(O * 4 + H, domain)], frozenset((O,)), (20,))) == ["o*4 + 1 +2"]


def test_footprint_and_cover():
    reads = [read(O * 4 + H), read(O * 4 + 5)]
    touched = footprint(reads, (O,))
    assert touched is not None
    shifted = "{ [o] -> [e] : 0 <= o < 3 and (4o <= e < 4o + 4 or e = 4o + 5) and e < 20 }"
    assert touched.is_equal(type(touched)(shifted))
    assert covers([read(H * 5 + W)], Domain(((O, 3),)), (20,))
    assert not covers([read(H * 5 + W, BOX.where(H < 3))], Domain(((O, 3),)), (20,))
    assert not covers([], Domain(), (20,))


def test_conflicts():
    def write(index):
        return Access(A, (index,), "store", BOX, Store(A, (index,), Const(1, "int32")))

    other = "{a[h]} != {b[h]}"
    assert not conflict(write(H), write(H), (O,), other)
    assert conflict(write(H), read(H + 1), (O,), other)
    assert conflict(write(H + W), write(H + W), (O,), other)
    assert not conflict(write(H + W), write(H + W), (O, W), other)
    assert not conflict(write(H * 5 + W), write(H * 5 + W), (), other)
    assert conflict(write(O), write(O), (), "{a[o]} = {b[o]} and " + other)


def test_sequence_in_order():
    stmts = Seq((Store(C, (ZERO,), A[0]), Store(A, (ZERO,), C[0])))
    assert [(a.buffer.name, a.kind) for a in accesses(stmts)] == [
        ("a", "read"), ("c", "store"), ("c", "read"), ("a", "store")]


@given(st.lists(st.integers(-3, 3), min_size=3, max_size=3), st.integers(-4, 4),
       st.integers(1, 4), st.integers(-2, 6))
def test_against_enumeration(factors, constant, divisor, limit):
    expr = sum((v * f for v, f in zip((O, H, W), factors)), Const(constant, INDEX)) // divisor
    domain = BOX.where(H + O < limit)
    values = [(o * factors[0] + h * factors[1] + w * factors[2] + constant) // divisor
              for o, h, w in product(range(3), range(4), range(5)) if h + o < limit]
    expected = (min(values), max(values)) if values else None
    if values or any(factors):
        assert bounds(expr, domain) == expected
    if values:
        assert is_implied(expr >= min(values), domain)
        assert not is_implied(expr > min(values), domain)


@pytest.mark.parametrize("seed", range(8))
def test_plain_answers_are_those_of_isl(monkeypatch, seed: int) -> None:
    """Stores whose indices are sums of loops as numbers are of digits, and such that leave gaps."""
    rng, plain = np.random.default_rng(seed), 0
    for _ in range(40):
        extents = [int(extent) for extent in rng.integers(1, 5, 3)]
        loops = [Var(f"i{place}") for place in range(3)]
        factors = rng.permutation([1, extents[0], extents[0] * extents[1]])
        if rng.random() < 0.4:
            factors[rng.integers(3)] += 1
        index = sum((var * int(factor) for var, factor in zip(loops, factors, strict=True)),
                    Const(0, INDEX))
        size = max(1, int(np.prod(extents)) + int(rng.integers(-1, 2)))
        buffer = Buffer("b", (size,), "int32")
        stmt: Stmt = Store(buffer, (index,), Const(1, "int32"))
        for var, extent in zip(loops, extents, strict=True):
            stmt = For(var, extent, stmt)
        touching = accesses(stmt)
        plain += index_sets._fills(touching[0], Domain(), buffer.shape)
        found = covers(touching, Domain(), buffer.shape)
        with monkeypatch.context() as without:
            without.setattr(index_sets, "_fills", lambda *_: False)
            assert found == covers(touching, Domain(), buffer.shape), (factors, extents, buffer)
    assert plain > 3
