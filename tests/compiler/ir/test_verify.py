"""Every rule of well formed programs, broken once."""

from types import SimpleNamespace

import pytest

from compiler import te
from compiler.ir import (RULES, Alloc, Barrier, Binding, Combine, For, If, Program, Seq, Store,
                         Tensorized, Update, VerifyError, lower, program_text, verify)
from compiler.te import Buffer, Const, Var
from tests.compiler.ir.samples import convolution

I, J = Var("i"), Var("j")
A, B, C = (Buffer(name, (4,), "int32") for name in "abc")
ONE = Const(1, "int32")
SAME = Store(C, (I,), A[I])
LARGER = te.reducer("larger", lambda l, r: (te.maximum(l[0], r[0]), l[1] + r[1]),
                    (ONE, ONE))
NAMED = SimpleNamespace(name="move")


def copy(body) -> Program:
    return Program("main", (A,), (C,), body)


def test_good_programs_pass():
    for program in (copy(For(I, 4, SAME)), lower([convolution()], "main")):
        assert verify(program) is program


BROKEN = [
    (For(I, 4, For(I, 4, SAME)), "Loop variable i must be bound once"),
    (Alloc(C, For(I, 4, SAME)), "Buffer c must be declared once"),
    (For(I, 0, SAME), "Extent of i must be positive, not 0"),
    (For(I, 4, SAME, "fast"),
     "Kind of i must be one of serial, unroll, virtual_thread, vectorize, parallel, blockIdx.x, "
     "blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, not 'fast'"),
    (For(I, 4, SAME, "serial", (("b", 1), ("a", 1))),
     "Annotations of i must be in order of their keys, once each, not b, a"),
    (Seq((Barrier("grid"), For(I, 4, SAME))), "Barrier must be of a block, not 'grid'"),
    (For(Var("i", "int32"), 4, Store(C, (J,), ONE)),
     "Loop variable i must be int64, not int32"),
    (SAME, "Variable i must be bound by a loop around its use"),
    (For(I, 4, If(J < 1, SAME)), "Variable j must be bound by a loop around its use"),
    (For(I, 4, Store(C, (I,), B[I])), "Buffer b must be declared or allocated around its use"),
    (For(I, 4, Store(B, (I,), A[I])), "Buffer b must be declared or allocated around its use"),
    (Seq((Alloc(B, For(I, 4, Store(B, (I,), ONE))), For(J, 4, Store(C, (J,), B[J])))),
     "Buffer b must be declared or allocated around its use"),
    (For(I, 4, Store(C, (I,), Buffer("a", (5,), "int32")[I])),
     "Buffer a must be used as it is declared, global int32[4], not global int32[5]"),
    (For(I, 4, Update(C, (I,), "sum", A[I], (J,))),
     "Reduction variable j must be a loop around the update"),
    (For(I, 4, Combine((C,), (I,), LARGER, (ONE,), ())),
     "Buffers of larger must be of int32, int32, not int32"),
    (For(I, 4, Combine((C, C), (I,), LARGER, (ONE, ONE), ())),
     "Buffers of larger must be different ones"),
    (Alloc(Buffer("d", (5,), "int32"), For(I, 4, Combine(
        (C, Buffer("d", (5,), "int32")), (I,), LARGER, (ONE, ONE), ()))),
     "Buffers of larger must have one shape and strides, not global int32[4]; global int32[5]"),
    (For(I, 4, Combine((C, B), (I,), LARGER, (ONE, ONE), (J,))),
     "Buffer b must be declared or allocated around its use"),
    (Alloc(B, For(I, 4, Combine((C, B), (I,), LARGER, (ONE, ONE), (J,)))),
     "Reduction variable j must be a loop around the update"),
    (For(I, 4, If(A[I], SAME)), "Guard must be bool, not int32"),
    (For(I, 4, For(J, 4, Update(C, (I,), "mul", A[J], (J,)))),
     "Update must be one of max, min, sum, not 'mul'"),
    (For(I, 4, Store(A, (I,), ONE)), "Input a must not be written"),
    (For(I, 4, Store(C, (I, I), ONE)), "Store to c must have 1 indices, not 2"),
    (For(I, 4, Store(C, (I,), A[I].astype("int8"))), "Value stored to c must be int32, not int8"),
    (For(I, 4, Store(C, (I,), te.sum(A[I], te.reduce_axis(3, "i")))),
     "Reduction must be loops and an update, not sum(a[i], over i)"),
    (For(I, 4, Store(C, (A[I],), ONE)), "Index of c must be int64, not int32"),
    (For(I, 4, Store(C, (I,), A[A[I]])), "Index of a must be int64, not int32"),
    (For(I, 4, Tensorized(NAMED, Binding(()), Alloc(B, SAME))),
     "Nest of an intrinsic must hold loops, guards and stores only"),
    (For(I, 4, Seq((Seq((SAME,)), SAME))), "Sequence must not stand directly in a sequence"),
]


@pytest.mark.parametrize("body, fact", BROKEN, ids=[str(n) for n in range(len(BROKEN))])
def test_broken_rule_wrong(body, fact):
    with pytest.raises(VerifyError) as caught:
        verify(copy(body))
    found, *text = str(caught.value).splitlines()
    assert found == fact
    assert text[0] == "program main(a: int32[4]) -> c: int32[4]"
    assert sum("<-- here" in line for line in text) == 1


def test_outputs_are_dense():
    wide = Buffer("c", (4, 4), "int32", strides=(5, 1))
    body = For(I, 4, For(J, 4, Store(wide, (I, J), ONE)))
    with pytest.raises(VerifyError) as caught:
        verify(Program("main", (), (wide,), body))
    assert str(caught.value).splitlines()[0] == (
        "Input or output c must be dense, without strides")


def test_every_rule_is_broken_once():
    broken = {rule for body, _ in BROKEN for rule in RULES if list(rule(copy(body)))}
    assert broken == set(RULES)


def test_whole_message():
    with pytest.raises(VerifyError) as caught:
        verify(copy(For(I, 4, Store(C, (J,), ONE))))
    assert str(caught.value) == (
        "Variable j must be bound by a loop around its use\n"
        "program main(a: int32[4]) -> c: int32[4]\n"
        "for i in 0..4:\n"
        "  c[j] = 1    <-- here\n")
    assert "<-- here" not in program_text(copy(SAME))
