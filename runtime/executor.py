"""Running the steps of a network: host and accelerator at the same time where the data allow.

Each target has one thread, which takes the first step that is ready: all that it reads is there. Of
several inferences the earlier ones go first, so while the accelerator computes one, the host
prepares the next. Native code lets go of Python's lock while it computes: kernels of the host, the
cycle simulator and the Verilated RTL; the functional simulator, which is NumPy, does now and then.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Condition
from typing import Generic, TypeVar

import numpy as np

from compiler.graph.division.partition import Segment, Target

IN_FLIGHT = 4
"""How many inferences are under way at once at most: their values take memory."""

Values = dict[str, np.ndarray]
R = TypeVar("R")
Execute = Callable[[int, Mapping[str, np.ndarray]], tuple[Mapping[str, np.ndarray], R]]
"""Runs the step at a position on the values that it reads; its results, and what to know of it."""


@dataclass
class Inference(Generic[R]):
    """One inference: `values` hold the inputs and then also the results; `rows` hold what each step
    reports besides its values, by its position.
    """

    values: Values
    rows: dict[int, R] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)


def overlaps(segments: Sequence[Segment]) -> bool:
    """True if two segments of different targets do not wait for each other in one inference."""
    return any(earlier.target != other.target and not _reaches(segments, i, j)
               for j, other in enumerate(segments) for i, earlier in enumerate(segments[:j]))


def _reaches(segments: Sequence[Segment], first: int, last: int) -> bool:
    """True if the segment at `last` needs what that at `first` makes, or what follows from it."""
    known = set(segments[first].outputs)
    for segment in segments[first + 1:last]:
        if known.intersection(segment.inputs):
            known.update(segment.outputs)
    return bool(known.intersection(segments[last].inputs))


def run_all(segments: Sequence[Segment], execute: Execute[R],
            inputs: Sequence[Mapping[str, np.ndarray]],
            outputs: Collection[str]) -> list[Inference[R]]:
    """Runs one inference for each of the inputs, in their order; each keeps only its outputs.

    The first error ends all of them and is raised when the steps under way are over.
    """
    schedule = _Schedule(segments, execute, [Inference(dict(values)) for values in inputs], outputs)
    targets: set[Target] = {segment.target for segment in segments}
    if not targets:
        return schedule.inferences
    with ThreadPoolExecutor(len(targets), "lockstep") as threads:
        try:
            working: list[Future[None]] = [threads.submit(schedule.work, target)
                                           for target in targets]
            wait(working, return_when=FIRST_EXCEPTION)
        finally:
            schedule.stop()                 # also where the user interrupts
    for future in working:
        future.result()
    return schedule.inferences


class _Schedule(Generic[R]):
    """Knows which steps are done, under way and ready; one thread for each target calls `work`."""

    def __init__(self, segments: Sequence[Segment], execute: Execute[R],
                 inferences: list[Inference[R]], outputs: Collection[str]):
        self.segments, self.execute, self.inferences = segments, execute, inferences
        self.outputs = outputs
        self._changed = Condition()
        self._stopped = False
        self._first = 0                     # the earliest inference that is not over

    def work(self, target: Target) -> None:
        """Executes the target's steps until all are done or `stop` is called."""
        try:
            for inference, position in self._steps(target):
                segment = self.segments[position]
                given = {name: inference.values[name] for name in segment.inputs}
                results, row = self.execute(position, given)
                with self._changed:
                    inference.values.update(results)
                    inference.rows[position] = row
                    self._finish(inference)
                    self._changed.notify_all()
        except BaseException:
            self.stop()                     # else the other threads would wait for ever
            raise

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _finish(self, inference: Inference[R]) -> None:
        """Drops the values of a finished inference that nobody needs."""
        if len(inference.rows) == len(self.segments):
            inference.values = {name: value for name, value in inference.values.items()
                                if name in self.outputs}
        while (self._first < len(self.inferences)
               and len(self.inferences[self._first].rows) == len(self.segments)):
            self._first += 1

    def _steps(self, target: Target) -> Iterator[tuple[Inference[R], int]]:
        mine = [position for position, segment in enumerate(self.segments)
                if segment.target == target]
        for _ in range(len(mine) * len(self.inferences)):
            with self._changed:
                while (next_step := self._ready(mine)) is None and not self._stopped:
                    self._changed.wait()
                if next_step is None or self._stopped:
                    return
                inference, position = next_step
                inference.begun.add(position)
            yield inference, position

    def _ready(self, mine: Sequence[int]) -> tuple[Inference[R], int] | None:
        """The first step of the earliest inference that can begin."""
        for inference in self.inferences[self._first:self._first + IN_FLIGHT]:
            for position in mine:
                if position not in inference.begun and (
                        inference.values.keys() >= set(self.segments[position].inputs)):
                    return inference, position
        return None
