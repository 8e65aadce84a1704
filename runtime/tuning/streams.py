"""The search for the tiles of streams of the accelerator, as records.

The accelerator searches while it compiles (`accel.mapping.search`): it measures ways of each layer
between its neighbours, exactly, on the cycle simulator, and keeps what makes the whole stream
faster. Here that is told to a database.
"""

from collections.abc import Callable

from compiler.plans import Choice, Task
from compiler.tune.best import in_turn, packaged
from compiler.tune.record import Record
from compiler.tune.records import Records
from compiler.tune.space import Result

__all__ = ["StreamPlans"]

WHERE = "cycle simulator"


class StreamPlans:
    """The best plans of a database, and those that are packaged; the database takes what searches
    find: see `compiler.plans.Learns`.

    `found` has the plans of each stream with their cycles, in the order of the search, the first
    one that it began with. `watch` is called for each.
    """

    def __init__(self, records: Records, seed: int = 0,
                 watch: Callable[["StreamPlans"], None] = lambda plans: None):
        self.found: dict[Task, list[tuple[str, int]]] = {}
        self._records, self._seed, self._watch = records, seed, watch
        self._known = in_turn(records.plans(), packaged())

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

    def learned(self, task: Task, plan: str, cycles: int) -> None:
        self.found.setdefault(task, []).append((plan, cycles))
        self._records.add(Record(task, plan, Result(cycles, "cycles"), WHERE, self._seed, "exact"))
        self._watch(self)
