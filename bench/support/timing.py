"""Measures times that are comparable with each other."""

import time
from collections.abc import Callable, Mapping

Run = Callable[[], object]


def best_times(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """This thread's best processor time of each function over all rounds, in seconds. The functions
    take turns in each round, so that other load affects all alike.
    """
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            begin = time.thread_time()
            run()
            best[name] = min(best[name], time.thread_time() - begin)
    return best
