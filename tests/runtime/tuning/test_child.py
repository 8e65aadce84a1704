"""Trials in a process of their own: what hangs or crashes there loses that process alone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.processes import _is_running
from compiler.tune.space import Result
from runtime.tuning.child import Child, ChildLost
from runtime.tuning.trials import Trial
from tests.support.sleeping_target import COUNTING, KIND, TASK

ROOT = Path(__file__).parents[3]
MODULE = "tests.support.sleepers"


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(0.5, [MODULE]) as child:
        yield child


def result(child: Child, plan: str, target: str = KIND) -> Result:
    return child.run(Trial(target, TASK, plan).text)


def test_a_trial_gives_its_time(child) -> None:
    found = result(child, "sleep 0.002")
    assert (found.unit, found.error) == ("s", "")
    assert found.value is not None and 0.002 <= found.value < 0.1


def test_exact_cycles_are_counted(child) -> None:
    found = result(child, "twelve chars", COUNTING)
    assert (found.value, found.unit) == (12.0, "cycles")


@pytest.mark.parametrize(("plan", "error"), [
    ("refused x", "plan must be legal, not 'x'"),
    ("defect", "LookupError: in a back end"),
    ("other", "plan must begin with a word that is known, not 'other'"),
])
def test_what_cannot_be_measured_is_a_result(child, plan: str, error: str) -> None:
    found = result(child, plan)
    assert (found.value, found.error) == (None, error)


@pytest.mark.parametrize(("plan", "error"), [
    ("hang", "took longer than 0.5 s"),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("raise", "its process ended with status 1: it gave up"),
        ("spin", "took longer than 0.5 s"), ("crash", "its process crashed by signal 6"),
        ("exit 3", "its process ended with status 3"))),
])
def test_a_trial_that_loses_its_process_is_a_result(child, plan: str, error: str) -> None:
    assert result(child, "sleep 0").error == ""
    before = child.process
    assert result(child, plan).error == error
    assert before is not None and not _is_running(before)
    assert result(child, "sleep 0").error == ""
    assert child.process != before


def test_a_process_serves_one_trial_after_another_and_may_end_between_them(child) -> None:
    assert result(child, "sleep 0").error == ""
    before = child.process
    assert before is not None
    assert result(child, "sleep 0").error == "" and child.process == before
    os.kill(before, signal.SIGKILL)
    os.waitid(os.P_PID, before, os.WEXITED | os.WNOWAIT)
    assert result(child, "sleep 0").error == "" and child.process != before


def test_output_of_a_trial_is_no_answer(child) -> None:
    assert result(child, "noise").error == ""


def test_only_build_measures_nothing(child) -> None:
    assert child.build(Trial(KIND, TASK, "crash").text) is None
    refused = child.build(Trial(KIND, TASK, "refused x").text)
    assert refused is not None and refused.error == "plan must be legal, not 'x'"


def test_a_process_that_cannot_begin_says_why() -> None:
    """In its last line, of which the rest is cut off where it is very long."""
    name = "no_module_of_this_name_" * 20
    with Child(1, [name]) as child:
        with pytest.raises(ChildLost) as lost:
            child.ask({"trial": ""})
        reason = f"ModuleNotFoundError: No module named '{name}'"[:300]
        assert str(lost.value) == f"its process ended with status 1: {reason}"


@pytest.mark.slow
def test_close_ends_the_process_and_its_request() -> None:
    with Child(100, [MODULE]) as child:
        assert result(child, "sleep 0").error == ""
        process = child.process
        assert process is not None
        child.close()
        assert not _is_running(process)
        assert result(child, "sleep 0").error == "its process was ended"


PARENT = """
import sys
from compiler.tune.space import Result
from runtime.tuning.child import Child
from runtime.tuning.trials import Trial
from tests.support.sleeping_target import KIND, TASK
child = Child(100, ["tests.support.sleepers"])
child.run(Trial(KIND, TASK, "sleep 0").text)
print(child.process, flush=True)
child.run(Trial(KIND, TASK, "hang").text)
"""


def test_it_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE,
                          text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        assert _is_running(process)
        parent.kill()
    until = time.monotonic() + 20
    while _is_running(process) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _is_running(process)
