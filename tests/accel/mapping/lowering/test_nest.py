"""Affine forms and solved conditions, against all values of small boxes."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.mapping.lowering.nest import AffineAddress, NotABox, NotAffine, affine, conjuncts, solve
from compiler.te import INDEX, Binary, Const, Expr, Var, all_of, as_expr

LOOPS = {Var("i"): 4, Var("j"): 3, Var("k"): 5}
WHOLE = {var: (0, extent) for var, extent in LOOPS.items()}
FIXED = {Var("f"): 7, Var("g"): 2}
RELATIONS = {"lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__,
             "eq": int.__eq__, "ne": int.__ne__}
OPERATORS = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__,
             "floordiv": int.__floordiv__, "mod": int.__mod__, "min": min, "max": max}

small = st.integers(-9, 9)


def value(expr: Expr, env: dict[Var, int]) -> int:
    match expr:
        case Const(number):
            return int(number)
        case Var():
            return env[expr]
        case Binary("and", a, b):
            return value(a, env) and value(b, env)
        case Binary(op, a, b):
            return (RELATIONS | OPERATORS)[op](value(a, env), value(b, env))
    raise TypeError(expr)


def everywhere(loops: dict[Var, int]):
    """Every environment: loops at all their values, the fixed variables at theirs."""
    for point in product(*(range(extent) for extent in loops.values())):
        yield {**FIXED, **dict(zip(loops, point, strict=True))}


def linear_sums(variables) -> st.SearchStrategy[Expr]:
    def built(terms, offset: int) -> Expr:
        expr: Expr = Const(offset, INDEX)
        for var, factor in terms:
            expr = expr + var * factor
        return expr
    return st.builds(built, st.lists(st.tuples(st.sampled_from(variables), small), max_size=3),
                     small)


constants = st.deferred(lambda: linear_sums(list(FIXED)) | st.builds(
    lambda op, a, b: Binary(op, a, as_expr(b, INDEX)),
    st.sampled_from(("floordiv", "mod", "min", "max")), constants, st.integers(1, 5)))
affine_exprs = st.builds(lambda a, b, minus: a - b if minus else a + b,
                         linear_sums([*LOOPS, *FIXED]), constants, st.booleans())


@given(affine_exprs, st.integers(-3, 3))
def test_an_affine_form_has_the_value_of_its_expression(expr: Expr, factor: int) -> None:
    form = affine(expr * factor, FIXED)
    assert all(form.coefficients.values())
    for env in everywhere(LOOPS):
        steps = sum(form.over(var) * env[var] for var in LOOPS)
        assert form.offset + steps == value(expr, env) * factor


@pytest.mark.parametrize("build", [
    lambda i, j: i * j, lambda i, j: i // 2, lambda i, j: i % 2 + 1,
    lambda i, j: Binary("min", i, j)])
def test_what_is_not_affine_is_refused(build) -> None:
    with pytest.raises(NotAffine):
        affine(build(Var("i"), Var("j")), FIXED)
    assert affine(build(Var("f"), Var("g")), FIXED) == AffineAddress(
        value(build(Var("f"), Var("g")), FIXED), {})


def comparisons(exprs) -> st.SearchStrategy[Expr]:
    return st.builds(Binary, st.sampled_from(("lt", "le", "gt", "ge", "eq")), exprs,
                     linear_sums(list(FIXED)))


one_loop = st.sampled_from(list(LOOPS)).flatmap(
    lambda var: comparisons(linear_sums([var, *FIXED])))


@given(st.lists(one_loop, min_size=1, max_size=4))
def test_conditions_on_one_loop_each_are_solved(conditions: list[Expr]) -> None:
    """A ``==`` of a loop is a box too. The box is exact, and None is the empty set."""
    condition = all_of(*conditions)
    box = solve(condition, FIXED, WHOLE)
    for env in everywhere(LOOPS):
        inside = box is not None and all(box[var][0] <= env[var] < box[var][1] for var in LOOPS)
        assert inside == bool(value(condition, env))
    if box is not None:
        assert all(0 <= low < high <= LOOPS[var] for var, (low, high) in box.items())


@given(st.lists(comparisons(affine_exprs), min_size=1, max_size=3))
def test_a_condition_is_solved_or_refused(conditions: list[Expr]) -> None:
    """Never wrong: a box that `solve` gives is the set, and a set that it refuses is tied."""
    condition = all_of(*conditions)
    holds = [value(condition, env) for env in everywhere(LOOPS)]
    try:
        box = solve(condition, FIXED, WHOLE)
    except NotABox as refusal:
        assert len(set(refusal.loops)) > 1 and set(refusal.loops) <= set(LOOPS)
        for var in refusal.loops:       # whatever the loops before say, inside it holds
            low, high = refusal.inside(var)
            form = refusal.form
            for env in everywhere({v: high - low for v, (low, high) in refusal.box.items()}):
                at = {v: env[v] + refusal.box[v][0] for v in refusal.box}
                if low <= at[var] < high:
                    assert form.offset + sum(form.over(v) * at[v] for v in at) >= 0
        return
    for env, held in zip(everywhere(LOOPS), holds, strict=True):
        inside = box is not None and all(box[var][0] <= env[var] < box[var][1] for var in LOOPS)
        assert inside == bool(held)


def test_a_condition_on_loops_together_is_decided_where_it_can_be() -> None:
    i, j = Var("i"), Var("j")
    assert solve(i + j < 6, FIXED, WHOLE) == WHOLE
    assert solve(i + j > 5, FIXED, WHOLE) is None
    assert solve(all_of(i < 2, i + j < 4), FIXED, WHOLE) == WHOLE | {i: (0, 2)}
    with pytest.raises(NotABox) as refusal:
        solve(i * 3 + j < 6, FIXED, WHOLE)
    assert set(refusal.value.loops) == {i, j}
    assert [refusal.value.inside(var) for var in (i, j)] == [(0, 2), (0, -3)]


def test_a_condition_is_solved_within_a_box() -> None:
    i, j = Var("i"), Var("j")
    late = WHOLE | {i: (2, 4)}
    assert solve(i >= 1, FIXED, late) == late
    assert solve(i < 3, FIXED, late) == WHOLE | {i: (2, 3)}
    assert solve(i + j >= 2, FIXED, late) == late       # which the whole box would not decide
    assert solve(i < 2, FIXED, late) is None


def test_not_equal_is_decided_where_all_is_fixed() -> None:
    f = Var("f")
    assert solve(f.not_equal(3), FIXED, WHOLE) == WHOLE
    assert solve(f.not_equal(7), FIXED, WHOLE) is None
    with pytest.raises(NotAffine):
        solve(Var("i").not_equal(3), FIXED, WHOLE)


def test_constant_conditions() -> None:
    assert solve(Const(True, "bool"), FIXED, WHOLE) == WHOLE
    assert solve(Const(False, "bool"), FIXED, WHOLE) is None
    with pytest.raises(NotAffine):
        solve(Binary("or", Var("i") < 2, Var("i") > 2), FIXED, WHOLE)


def test_conjuncts() -> None:
    i = Var("i")
    parts = [i < 3, i >= 1, i.not_equal(2)]
    assert list(conjuncts(all_of(*parts))) == parts
