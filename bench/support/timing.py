"""Measures times that are comparable with each other."""

import sysconfig
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Run = Callable[[], object]

LIBRARY = Path(sysconfig.get_path("stdlib"))
MODULES = ("_pydecimal.py", "argparse.py", "asyncio/base_events.py", "doctest.py", "inspect.py",
           "pickle.py", "tarfile.py", "typing.py", "unittest/mock.py")


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


def yardstick() -> float:
    """The best processor time in which CPython compiles these modules of its library, in seconds: a
    peer for what has none. Seconds of one processor say nothing of another's; how often this fits
    into them does, where both are of one run.
    """
    sources = {name: (LIBRARY / name).read_text() for name in MODULES}

    def compiled() -> None:
        for name, text in sources.items():
            compile(text, name, "exec")

    return best_times({"library": compiled}, 5)["library"]
