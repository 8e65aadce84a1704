"""A target whose plans are what happens when they are measured: it sleeps, hangs, crashes.

A process of trials imports `tests.support.sleepers`, which registers it.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from compiler.graph.division.protocols import Compiled
from compiler.graph.graph import Graph, Node
from compiler.plans import PlanRefused, Task
from compiler.tune.space import Space
from runtime.driver.targets import Placed, register

__all__ = ["COUNTING", "KIND", "TASK", "CountingTarget", "SleepingTarget",
           "register_both"]

KIND, COUNTING = "sleeping", "counting"
FINGERPRINT = "f00d" * 16
TASK = Task(FINGERPRINT, "5eed" * 16, "a sleep", "sleep")


@dataclass(frozen=True)
class SleepingTarget:
    """Plans are ``WORD ARGUMENT``; see `measurable`."""

    name: str = KIND
    fingerprint: str = FINGERPRINT

    def refusal(self, graph: Graph, node: Node) -> str | None:
        return "it has no operators"

    def borders(self, graph: Graph) -> Mapping[str, None]:
        return {}

    def compile(self, graph: Graph) -> Compiled:
        raise ValueError("it has no operators")

    def space(self, task: Task) -> Space:
        raise PlanRefused("it has no space")

    def measurable(self, task: Task, plan: str, seed: int, device: object = None
                   ) -> Callable[[], object]:
        word, _, argument = plan.partition(" ")
        match word:
            case "refused": raise PlanRefused(f"plan must be legal,\n  not {argument!r}")
            case "defect": raise LookupError("in a back end")
            case "sleep": return lambda: time.sleep(float(argument))
            case "hang": return lambda: time.sleep(1e4)
            case "spin": return _spin
            case "crash": return os.abort
            case "exit": return lambda: os._exit(int(argument))
            case "raise": return _raise
            case "noise": return lambda: print("noise")
            case "log":
                _log(Path(argument), "built")
                return lambda: _log(Path(argument), "measured")
            case "kill": return lambda: os.kill(os.getppid(), signal.SIGKILL)
        raise PlanRefused(f"plan must begin with a word that is known, not {word!r}")


def _spin() -> NoReturn:
    while True:
        pass


def _raise() -> NoReturn:
    raise SystemExit("it gave up")


def _log(path: Path, what: str) -> None:
    with path.open("a") as file:
        file.write(f"{what} {os.getpid()} {sorted(os.sched_getaffinity(0))}\n")


@dataclass(frozen=True)
class CountingTarget(SleepingTarget):
    """Counts a cycle for each character of a plan, after a sleep where the plan is one."""

    name: str = COUNTING

    def cycles(self, task: Task, plan: str, seed: int) -> int:
        word, _, argument = plan.partition(" ")
        time.sleep(float(argument) if word == "sleep" else 0.0)
        return len(plan)


class _Sleeper:
    """A device of its own: what it does is measured by the clock on the wall."""


def register_both() -> None:
    register(KIND, lambda where: Placed(SleepingTarget(), _Sleeper()))
    register(COUNTING, lambda where: Placed(CountingTarget()))
