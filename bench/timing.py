"""Times that may be compared with each other."""

import time
from collections.abc import Callable, Mapping

__all__ = ["Run", "best_times"]

Run = Callable[[], object]


def best_times(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """Seconds of processor time of this thread for each, the best of all rounds; in each round
    they run in turns, so that a busy machine is busy for all of them.
    """
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            begin = time.thread_time()
            run()
            best[name] = min(best[name], time.thread_time() - begin)
    return best
