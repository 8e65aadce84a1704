"""Several processes here that run trials at the same time, where nothing is timed."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Protocol, TypeVar

from compiler.tune.space import Result
from runtime.tuning.child import Child


class TrialText(Protocol):
    """A trial that can be sent."""

    @property
    def text(self) -> str: ...


Sent = TypeVar("Sent", bound=TrialText)


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


class Children:
    """Processes that run trials, each one at a time, so that a trial can lose no more than its
    process.

    Parameters
    ----------
    number : of processes.
    limit_seconds : the most seconds of a trial.
    imports : modules that the processes import first.
    """

    def __init__(self, number: int, limit_seconds: float, imports: Sequence[str] = ()):
        self._children = [Child(limit_seconds, imports) for _ in range(number)]

    def __enter__(self) -> "Children":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with ExitStack() as stack:
            for child in self._children:
                stack.callback(child.close)

    def results(self, trials: Iterator[Sent]) -> Iterator[tuple[Sent, Result]]:
        """Each trial with its result, as they come."""
        done: SimpleQueue[tuple[Sent, Result] | None] = SimpleQueue()
        lock = threading.Lock()
        over = threading.Event()

        def work(child: Child) -> None:
            try:
                while not over.is_set():
                    with lock:
                        trial = next(trials, None)
                    if trial is None:
                        break
                    done.put((trial, child.run(trial.text)))
            finally:
                done.put(None)

        threads = [threading.Thread(target=work, args=(child,), daemon=True)
                   for child in self._children]
        for thread in threads:
            thread.start()
        try:
            left = len(threads)
            while left:
                found = done.get()
                if found is None:
                    left -= 1
                else:
                    yield found
        finally:
            over.set()
