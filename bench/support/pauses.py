"""A target for `searches.pools`: a plan is how long its measurement takes, in seconds."""

import time
from typing import Any

from compiler.plans import Task
from runtime.driver.targets import Placed

__all__ = ["KIND", "TASK", "PauseTarget", "pause_target"]

KIND = "pause"
TASK = Task("pause", "pause", "a pause", "pause")


class PauseTarget:
    """Counts its seed as cycles, when the pause is over."""

    name = KIND
    fingerprint = TASK.fingerprint

    def cycles(self, task: Task, plan: str, seed: int) -> int:
        time.sleep(float(plan))
        return seed


def pause_target(where: str) -> Placed:
    target: Any = PauseTarget()         # it compiles nothing
    return Placed(target)
