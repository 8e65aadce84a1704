"""Kinds of operators against their expressions."""

import pytest

from compiler import te
from compiler.ir import Program, Update, lower, reads, walk_stmts, writes
from compiler.ops.records.operator import Kind
from compiler.ops.registry import expression, find
from tests.support.operator_cases import CASES, OperatorCase


def program(case: OperatorCase) -> Program:
    inputs = [te.placeholder(array.shape, array.dtype.name, name)
              for name, array in zip(case.node.inputs, case.inputs, strict=True)]
    return lower([expression(case.op, case.node.attrs, inputs, "y")], case.op)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kinds_are_those_of_the_expressions(case: OperatorCase) -> None:
    """Exactly those that are no sum, nor computed in stages, are injective; elementwise ones read
    data at their own place.
    """
    made = program(case)
    if find(case.op).kind is Kind.OPAQUE:
        return
    reduces = any(isinstance(stmt, Update) for stmt in walk_stmts(made.body))
    staged = len([*writes(made.body)]) > 1 and find(case.op).kind is Kind.COMPLEX
    assert (reduces or staged) == (find(case.op).kind > Kind.INJECTIVE)
    if find(case.op).kind is Kind.ELEMENTWISE:
        store, = writes(made.body)
        data = case.node.inputs[:find(case.op).data_inputs]
        assert all(index in store.indices or extent == 1 for read in reads(made.body)
                   if read.buffer.name in data
                   for index, extent in zip(read.indices, read.buffer.shape, strict=True))
