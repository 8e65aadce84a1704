"""Guards stand as far out as what they depend on allows, and are joined where they meet."""

from compiler.ir import For, If, Store
from compiler.schedule.analysis.place import guarded, hoist_guards
from compiler.te import Buffer, Const, Var, all_of

I, J = Var("i"), Var("j")
STORE = Store(Buffer("c", (4, 4), "int32"), (I, J), Const(1, "int32"))


def test_guard_leaves_a_loop_that_it_does_not_depend_on():
    body = For(I, 4, For(J, 4, If(all_of(I < 3, J < 2), STORE)))
    assert hoist_guards(body) == For(I, 4, If(I < 3, For(J, 4, If(J < 2, STORE))))


def test_guards_that_meet_are_joined():
    body = For(I, 4, If(I < 3, For(J, 4, If(I >= 1, STORE))))
    joined = If(all_of(I < 3, I >= 1), For(J, 4, STORE))
    assert hoist_guards(body) == For(I, 4, joined)
    assert hoist_guards(body.body) == joined


def test_a_condition_is_tested_once():
    assert guarded([I < 3, J < 2], If(all_of(J < 2, I < 1), STORE)) == (
        If(all_of(I < 3, J < 2, I < 1), STORE))
    assert guarded([], STORE) is STORE
