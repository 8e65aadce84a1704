"""Random program x random legal schedule: the interpreter's result stays, to the bit."""

import pytest
from hypothesis import given, settings

from tests.compiler.ir.samples import assert_same_meaning
from tests.compiler.schedule.strategies import Scheduled, scheduled


def check(case: Scheduled):
    if case.steps:
        assert_same_meaning(case.program, case.steps[-1][1])


@given(scheduled())
@settings(max_examples=60)
def test_legal_schedules_keep_the_meaning(case):
    check(case)


@pytest.mark.slow
@given(scheduled())
@settings(max_examples=1500)
def test_many_legal_schedules_keep_the_meaning(case):
    check(case)
