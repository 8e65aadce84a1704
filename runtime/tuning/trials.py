"""Trials: a plan of a task, measured once on a target.

A trial is text, so that it can be run anywhere: the target makes the task again from the text of
its body. What cannot be measured is a result too, with the reason.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from accel.machine.device import Device
from accel.machine.machine import Machine
from accel.sim.timed import cycle
from compiler.errors import ArgumentError, Error
from compiler.native import digest
from compiler.plans import Task
from compiler.tune.space import CountsCycles, Result, Tunable
from runtime.devices.device import SimulatedDevice
from runtime.driver.targets import Placed, request
from runtime.pricing.timing import timed

SAMPLES = 3
"""The least number of samples of a plan: there are many plans, and most are slow."""

SECONDS, CYCLES = "s", "cycles"


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan of a task that is to be measured.

    Parameters
    ----------
    target : text of one target, such as "cpu:1", "opencl" or "accel:PRESET"
        (`runtime.driver.targets`).
    seed : of the data that the plan is measured with.
    id : tells trials apart; by default a hash of all the rest.
    """

    target: str
    task: Task
    plan: str
    seed: int = 0
    id: str = ""

    def __post_init__(self):
        if not self.id:
            parts = [self.target, *asdict(self.task).values(), self.plan, str(self.seed)]
            object.__setattr__(self, "id", digest(parts))

    @property
    def text(self) -> str:
        """The trial as JSON, from which `of` makes it again."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "Trial":
        """Raises ArgumentError for a text that is no trial."""
        try:
            fields = json.loads(text)
            trial = cls(**{**fields, "task": Task(**fields["task"])})
        except (ValueError, TypeError, LookupError, RecursionError):
            raise ArgumentError(f"Trial must be what Trial.text gives, not {text[:80]!r}") from None
        words = (trial.target, trial.plan, trial.id, *asdict(trial.task).values())
        if not all(isinstance(word, str) for word in words) or type(trial.seed) is not int:
            raise ArgumentError(f"Trial must have texts and an integer, not {text[:80]!r}")
        return trial


def text_of(result: Result) -> str:
    """The result as JSON, from which `result_of` makes it again."""
    return json.dumps(asdict(result))


def result_of(text: str) -> Result:
    return Result(**json.loads(text))


def run_trial(trial: Trial) -> Result:
    """Measures a trial here: processor time, on devices with a clock of their own wall-clock time,
    or exact cycles. Every failure is a result, too.
    """
    return _tried(trial, _measured)


def build_trial(trial: Trial) -> Result | None:
    """Builds what `run_trial` measures, so that the cache has it. Returns a failure, else None."""
    result = _tried(trial, _built)
    return result if result.error else None


def _tried(trial: Trial, attempt: Callable[[Placed, Any, Trial], Result]) -> Result:
    try:
        placed = one_target(trial.target)
        target = placed.target
        if not isinstance(target, CountsCycles) and not hasattr(target, "measurable"):
            return _failure(f"{trial.target} has no plans that are searched")
        if placed.target.fingerprint != trial.task.fingerprint:
            return _failure(f"{trial.target} is another target here than that of the task: its "
                            f"fingerprint is {placed.target.fingerprint[:12]}, not "
                            f"{trial.task.fingerprint[:12]}")
        return attempt(placed, target, trial)
    except Error as error:
        return _failure(" ".join(str(error).split()))
    except Exception as error:      # noqa: BLE001 - a plan may lead to any defect of a back end
        return _failure(" ".join(f"{type(error).__name__}: {error}".split()))


def _built(placed: Placed, target: Tunable | CountsCycles, trial: Trial) -> Result:
    if not isinstance(target, CountsCycles):
        target.measurable(trial.task, trial.plan, trial.seed, placed.device)
    return Result(0.0, SECONDS)


def _measured(placed: Placed, target: Tunable | CountsCycles, trial: Trial) -> Result:
    if isinstance(target, CountsCycles):
        return Result(float(target.cycles(trial.task, trial.plan, trial.seed)), CYCLES)
    run = target.measurable(trial.task, trial.plan, trial.seed, placed.device)
    clock = "thread_time" if placed.device is None else "perf_counter"
    return Result(timed(run, clock, SAMPLES).seconds, SECONDS)


def _failure(error: str) -> Result:
    return Result(None, SECONDS, error)


@cache
def one_target(text: str) -> Placed:
    """The target of a text, on its device; an accelerator is on its cycle simulator. Raises
    ArgumentError for several targets.
    """
    wanted = request(text)
    if wanted.auto or len(wanted.names) > 1:
        raise ArgumentError(f"Target must be one target, not {text!r}")
    return next(iter(wanted.placed(_simulated)))


def _simulated(machine: Machine) -> Device:
    return SimulatedDevice(machine, cycle.simulate)
