"""Trials as text, and what they give in this process."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from compiler.errors import ArgumentError
from compiler.plans import Task
from compiler.tune.space import Result
from runtime.pricing import timing
from runtime.tuning import trials
from runtime.tuning.trials import Trial, build_trial, result_of, run_trial, text_of
from tests.support.sleeping_target import COUNTING, KIND, TASK, register_both

TRIAL = Trial(KIND, TASK, "sleep 0", 7)


@pytest.fixture(autouse=True)
def sleepers(monkeypatch) -> None:
    monkeypatch.setattr("runtime.driver.targets._registered", {})
    register_both()


def test_a_trial_is_text() -> None:
    assert Trial.of(TRIAL.text) == TRIAL
    assert Trial.of(replace(TRIAL, plan="\n\u2028'\"").text).plan == "\n\u2028'\""
    assert json.loads(TRIAL.text)["task"]["fingerprint"] == TASK.fingerprint


@pytest.mark.parametrize("changed", [
    replace(TRIAL, target=COUNTING, id=""), replace(TRIAL, plan="sleep 1", id=""),
    replace(TRIAL, seed=8, id=""), replace(TRIAL, task=replace(TASK, digest="0f"), id=""),
    replace(TRIAL, task=replace(TASK, fingerprint="0f"), id="")])
def test_each_part_of_a_trial_is_in_its_id(changed: Trial) -> None:
    assert changed.id != TRIAL.id


def test_an_id_may_be_ones_own() -> None:
    assert Trial.of(replace(TRIAL, id="mine").text).id == "mine"


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"target": "cpu", "task": {}}'])
def test_what_is_no_trial_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError) as refusal:
        Trial.of(text)
    assert str(refusal.value) == f"Trial must be what Trial.text gives, not {text!r}"


def test_a_trial_of_wrong_kinds_is_refused() -> None:
    text = json.dumps({"target": 1, "task": {"fingerprint": "", "digest": "", "title": ""},
                       "plan": "", "seed": 0, "id": "a"})
    with pytest.raises(ArgumentError, match="^Trial must have texts and an integer, not '.*'$"):
        Trial.of(text)


@pytest.mark.parametrize("result", [Result(1e-5, "s"), Result(12.0, "cycles"),
                                    Result(None, "s", "it's\nwrong")])
def test_a_result_is_text(result: Result) -> None:
    assert result_of(text_of(result)) == result


@pytest.mark.parametrize(("trial", "error"), [
    (Trial("nothing", TASK, ""), "Target must be accel:MACHINE, "),
    (Trial(f"{KIND},cpu", TASK, ""), f"Target must be one target, not '{KIND},cpu'"),
    (Trial("auto:tiny-1x4x4", TASK, ""), "Target must be one target, not 'auto:tiny-1x4x4'"),
    (Trial("accel:tiny-1x4x4", TASK, ""),
     "accel:tiny-1x4x4 is another target here than that of the task"),
    (Trial(KIND, Task("0f", "1", "a task"), ""),
     f"{KIND} is another target here than that of the task: its fingerprint is f00df00df00d, not "
     f"0f"),
    (Trial(KIND, TASK, "refused x"), "plan must be legal, not 'x'"),
    (Trial(KIND, TASK, "defect"), "LookupError: in a back end"),
])
def test_failures_are_results(trial: Trial, error: str) -> None:
    found = run_trial(trial)
    assert found.value is None and found.error.startswith(error) and "\n" not in found.error
    assert build_trial(trial) == found


def test_cycles_are_exact() -> None:
    assert run_trial(Trial(COUNTING, TASK, "12345")) == Result(5.0, "cycles")
    assert build_trial(Trial(COUNTING, TASK, "12345")) is None


class _Counted:
    """A clock that goes on by a call's processor time and wall-clock time."""

    def __init__(self):
        self.thread, self.wall, self.calls = 0.0, 0.0, 0

    def run(self) -> None:
        self.calls += 1
        self.thread += 0.02
        self.wall += 0.05

    def thread_time(self) -> float:
        return self.thread

    def perf_counter(self) -> float:
        return self.wall

    def get_clock_info(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(resolution=1e-9)


@pytest.mark.parametrize(("device", "seconds"), [(None, 0.02), ("a device", 0.05)])
def test_the_processors_time_is_taken_without_a_device(monkeypatch, device, seconds: float
                                                       ) -> None:
    clock = _Counted()
    monkeypatch.setattr(timing, "time", clock)
    target = SimpleNamespace(fingerprint=TASK.fingerprint,
                             measurable=lambda task, plan, seed, device: clock.run)
    monkeypatch.setattr(trials, "one_target",
                        lambda text: SimpleNamespace(target=target, device=device))
    found = run_trial(TRIAL)
    assert (found.value, found.unit, found.error) == (pytest.approx(seconds), "s", "")
    assert clock.calls >= trials.SAMPLES


def test_plans_are_measured_with_the_seed_on_the_device(monkeypatch) -> None:
    asked: list[tuple[str, int, object]] = []

    def measurable(task: Task, plan: str, seed: int, device: object):
        asked.append((plan, seed, device))
        return lambda: None

    counting = SimpleNamespace(fingerprint=TASK.fingerprint,
                               cycles=lambda task, plan, seed: 100 + seed)
    timed = SimpleNamespace(fingerprint=TASK.fingerprint, measurable=measurable)
    monkeypatch.setattr(trials, "one_target", lambda text: SimpleNamespace(
        target=counting if text == COUNTING else timed, device="a device"))
    assert run_trial(replace(TRIAL, target=COUNTING)) == Result(107.0, "cycles")
    assert run_trial(TRIAL).error == "" and build_trial(TRIAL) is None
    assert asked == [(TRIAL.plan, 7, "a device")] * 2


def test_nothing_of_a_trial_is_kept(monkeypatch) -> None:
    def keep(*_: str) -> None:
        raise AssertionError("it was kept")
    monkeypatch.setattr(timing, "note", keep)
    assert run_trial(TRIAL).error == ""
