"""Kinds of operators against their expressions."""

import pytest

from compiler import te
from compiler.graph.kinds import KINDS, Kind, kind
from compiler.graph.ops import OPS
from compiler.ir import Program, Update, lower, reads, walk_stmts, writes
from compiler.ops import nchw
from tests.support.operator_cases import CASES, OperatorCase


def program(case: OperatorCase) -> Program:
    inputs = [te.placeholder(array.shape, array.dtype.name, name)
              for name, array in zip(case.node.inputs, case.inputs, strict=True)]
    return lower([nchw.build(case.op, case.node.attrs, inputs, "y")], case.op)


def test_the_table_names_operators_that_there_are() -> None:
    assert set(KINDS) <= set(OPS)


def test_what_the_table_does_not_name_is_opaque() -> None:
    assert kind("softmax_of_tomorrow") is Kind.OPAQUE


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kinds_are_those_of_the_expressions(case: OperatorCase) -> None:
    """Exactly those that are no sum are injective; elementwise ones read at their own place."""
    made = program(case)
    if kind(case.op) is Kind.OPAQUE:
        return
    reduces = any(isinstance(stmt, Update) for stmt in walk_stmts(made.body))
    assert reduces == (kind(case.op) > Kind.INJECTIVE)
    if kind(case.op) is Kind.ELEMENTWISE:
        store, = writes(made.body)
        assert all(index in store.indices or extent == 1 for read in reads(made.body)
                   for index, extent in zip(read.indices, read.buffer.shape, strict=True))
