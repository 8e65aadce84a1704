"""The search for the tiles of streams of the accelerator, as records.

The accelerator searches while it compiles (`accel.mapping.plans.search`): it measures ways of each
layer between its neighbours, exactly, on the cycle simulator, and keeps what makes the whole stream
faster. Here that is told to a database, and ways are measured by a pool.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from math import inf

from compiler.plans import Choice, Task
from compiler.tune.best import in_turn, packaged
from compiler.tune.record import Record, versions
from compiler.tune.records import Records
from compiler.tune.space import Result
from runtime.tuning.pool import PoolError
from runtime.tuning.trials import Trial
from runtime.tuning.tuning import Run

WHERE, ROOMS = "cycle simulator", ("accel", "compiler")


class StreamPlans:
    """The best plans of a database, and those that are packaged; the database takes what searches
    find: see `compiler.plans.Learns`.

    `found` has the plans of each stream with their cycles, in the order of the search, the first
    one that it began with; `failed`, how many ways could not be measured. `watch` is called for
    each. The search ends after so many `seconds`.
    """

    def __init__(self, records: Records, seed: int = 0,
                 watch: Callable[["StreamPlans"], None] = lambda plans: None,
                 seconds: float | None = None):
        self.found: dict[Task, list[tuple[str, int]]] = {}
        self.failed: Counter[Task] = Counter()
        self._records, self._seed, self._watch = records, seed, watch
        self._known = in_turn(records.plans(), packaged())
        self._end = time.monotonic() + (inf if seconds is None else seconds)

    @property
    def fingerprint(self) -> str:
        return self._known.fingerprint

    def find(self, task: Task, own: Choice) -> str | None:
        return self._known.find(task, own)

    def binds(self, task: Task) -> bool:
        """A search goes on from the best plan that is known."""
        return False

    def of_target(self, fingerprint: str) -> "StreamPlans":
        return self

    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def learned(self, task: Task, plan: str, cycles: int) -> None:
        self.found.setdefault(task, []).append((plan, cycles))
        self._records.add(Record(task, plan, Result(cycles, "cycles"), WHERE, self._seed, "exact",
                                 versions(ROOMS)))
        self._watch(self)


class PooledStreamPlans(StreamPlans):
    """Plans of streams with ways of layers measured by trials, several at a time.

    See `compiler.plans.MeasuresPlans`: what is found is the same.

    Parameters
    ----------
    targets : the text of each accelerator, by the fingerprint of its tasks.
    run : runs trials.
    """

    def __init__(self, records: Records, targets: Mapping[str, str], run: Run, seed: int = 0,
                 watch: Callable[[StreamPlans], None] = lambda plans: None,
                 seconds: float | None = None):
        super().__init__(records, seed, watch, seconds)
        self._targets, self._run = targets, run

    def measured(self, task: Task, plans: Sequence[str]) -> list[int | None]:
        """Raises PoolError where nothing can be measured."""
        values: dict[str, int | None] = {}
        error = ""
        for trial, result in self._run(self._trials(task, plans)):
            values[trial.plan] = None if result.value is None else int(result.value)
            error = result.error or error
            self.failed[task] += bool(result.error)
        if error and not any(values.values()):
            raise PoolError(f"Pool could measure none of {len(values)} ways of layers: {error}")
        return [values[plan] for plan in takewhile(values.__contains__, plans)]

    def _trials(self, task: Task, plans: Sequence[str]) -> Iterator[Trial]:
        for plan in dict.fromkeys(plans):
            if self.is_over():
                return
            yield Trial(self._targets[task.fingerprint], task, plan, self._seed)
