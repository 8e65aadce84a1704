"""Tilings by simulation: the closed formula proposes ways to compute a layer, the cycle simulator
measures them as they stand between the layers around, and the fastest is taken.

A layer is measured in a stream of three groups of layers: the one before, its own, the one after;
what is best there is taken if the whole stream takes less time, too.
Layers that lose nothing are left alone; those that lose most come first, where only so many may be
tried. What was found is kept in the cache, as plans.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from accel.figures.attribution import layer_ends
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.plans.choices import Choices, Group, groups_text
from accel.mapping.plans.text import described
from accel.mapping.plans.work import work_of
from compiler.native import CacheError, digest, note, noted
from compiler.plans import PlanRefused

Simulate = Callable[[Machine, AccelProgram], Run]
"""Gives the time of a program, without values."""

Assemble = Callable[[Sequence[Group]], AccelProgram]
"""Makes a program of groups of layers, with its tokens."""

Measure = Callable[[Sequence[Sequence[Group]]], Iterable[int | None]]
"""Gives the cycles of ways to compute some layers, in their order; None for one that could not be
measured. There are fewer where the search is to end.
"""


@dataclass(frozen=True, slots=True)
class Effort:
    """The number of ways that are tried of each layer, and of all layers (None: any number).

    A layer that could gain less than one part in `worth` of all cycles is left alone. All is done
    `times` times, since what is best depends on the layers around.
    """

    breadth: int
    trials: int | None
    worth: int
    times: int = 1


EFFORTS = (None, Effort(3, 8, 300), Effort(36, None, 10000, 2))
"""By the number that ``--effort`` has; 0 takes what the formula says."""

GAIN = 10000
"""Another way is taken if it saves more than one part in so many of what is measured."""


class Search:
    """The search for one segment. `assemble` makes programs of its layers. `measure` measures ways
    of some layers elsewhere, by default they are simulated here. It ends when `over` says so.
    """

    def __init__(self, choices: Choices, effort: Effort, simulate: Simulate, assemble: Assemble,
                 measure: Measure | None = None, over: Callable[[], bool] = lambda: False):
        self.choices, self.effort = choices, effort
        self.simulate, self.assemble = simulate, assemble
        self.measure, self.over = measure or self._simulated, over
        self.left = effort.trials
        self._known: dict[str, list[Group]] = {}

    def improved(self, groups: Sequence[Group],
                 found: Callable[[Sequence[Group], int], None] = lambda groups, cycles: None
                 ) -> list[Group]:
        """The groups, those that lost most computed in better ways, as far as any were found.
        `found` is told what all take, at first and whenever that is less.
        """
        result = list(groups)
        for number in range(self.effort.times):
            before = groups_text(result)
            total, losing = self._losing(result)
            if not number:
                found(result, total)
            for first in losing:
                if self.over():
                    return result
                place = next((at for at, group in enumerate(result)
                              if group[0].layer is first), None)
                if place is None:               # it has been joined to the one before
                    continue
                better, length = self._best(result, place)
                whole = [*result[:place], *better, *result[place + length:]]
                if better != result[place:place + length] and (
                        took := self._cycles(whole)) < total:
                    result, total = whole, took
                    found(result, total)
            if groups_text(result) == before:
                break
        return result

    def _cycles(self, groups: Sequence[Group]) -> int:
        return self.simulate(self.choices.machine, self.assemble(groups)).cycles

    def _losing(self, groups: Sequence[Group]) -> tuple[int, list[MappedLayer]]:
        """The cycles of all groups, and the first layers of those that could gain, the greatest
        loss first.
        """
        program = self.assemble(groups)
        run = self.simulate(self.choices.machine, program)
        ends, lost = layer_ends(program, run), []
        for group, begin, end in zip(groups, [0, *ends], ends):
            work = [work_of(part.layer) for part in group]
            moved = sum(one.input_bytes + one.other_bytes for one in work)
            ideal = max(sum(one.products for one in work),
                        moved // self.choices.machine.config.bus_bytes)
            lost.append((end - begin - ideal, group[0].layer))
        least = run.cycles // self.effort.worth
        return run.cycles, [layer for loss, layer in sorted(lost, key=lambda one: -one[0])
                            if loss > least]

    def _best(self, groups: Sequence[Group], place: int) -> tuple[list[Group], int]:
        """The best way of a group, perhaps with the next one, and how many it takes the place of.
        """
        length = 1 + (len(groups[place]) == 1 and place + 1 < len(groups)
                      and len(groups[place + 1]) == 1
                      and bool(self._pairs(groups[place], groups[place + 1])))
        before, after = groups[max(place - 1, 0):place], groups[place + length:place + length + 1]
        now = list(groups[place:place + length])
        key = self._key(before, now, after)
        layers = [part.layer for group in now for part in group]
        if key not in self._known:
            found = self._noted(key, layers, now)
            if found is None:
                found, is_whole = self._measured(before, now, after)
                if is_whole:
                    self._note(key, found)
            self._known[key] = found
        found = self._known[key]
        return self.choices.groups_of(groups_text(found), layers), length

    def _noted(self, key: str, layers: Sequence[MappedLayer], now: list[Group]
               ) -> list[Group] | None:
        """The best way that is in the cache, for as many of the trials as it took: what a search
        finds does not depend on what others have left there.
        """
        text = noted("tilings", key)
        if text is None:
            return None
        try:
            found = self.choices.groups_of(text, layers)
        except PlanRefused:                     # an older version's
            return None
        if self.left is not None:
            tried = sum(1 for _ in islice(self._ways(now), self.left + 1))
            if tried > self.left:               # fewer would be tried without the cache
                return None
            self.left -= tried
        return found

    def ways_of(self, before: Sequence[Group], now: list[Group], after: Sequence[Group]
                ) -> list[Group]:
        """The fastest way to compute some layers between others."""
        return self._measured(before, now, after)[0]

    def _measured(self, before: Sequence[Group], now: list[Group], after: Sequence[Group]
                  ) -> tuple[list[Group], bool]:
        """The fastest way, and whether all were tried."""
        others = self._ways(now)
        tried = [*islice(others, self.left)]
        is_whole = next(others, None) is None
        if self.left is not None:
            self.left -= len(tried)
        best, cycles, took = now, 0, list[int | None]()
        took += self.measure([[*before, *way, *after] for way in (now, *tried)])
        for number, (way, its) in enumerate(zip((now, *tried), took)):
            if its is not None and (not cycles or its < cycles - cycles // GAIN):
                best, cycles = way, its
            elif not number:                    # no other can be compared with it
                return now, False
        return best, is_whole and len(took) > len(tried) and None not in took

    def _simulated(self, ways: Sequence[Sequence[Group]]) -> Iterator[int]:
        for way in ways:
            if self.over():
                return
            yield self._cycles(way)

    def _ways(self, now: list[Group]) -> Iterator[list[Group]]:
        """Other ways to compute these layers, the formula's favourites first."""
        breadth = self.effort.breadth
        layers = [part.layer for group in now for part in group]
        if len(layers) == 2:
            pairs = [[pair] for pair in self.choices.pairs(layers[0], layers[1], breadth)]
            apart: list[list[Group]] = [[(self.choices.alone(layer),) for layer in layers]]
            yield from (way for way in (*pairs[:1], *apart, *pairs[1:]) if way != now)
        first = layers[0]
        if len(layers) == 1 or len(now) == 2:
            rest = [group for group in now if group[0].layer is not first]
            for group in self.choices.others(first, breadth):
                if [group, *rest] != now:
                    yield [group, *rest]

    def _pairs(self, first: Group, second: Group) -> list[Group]:
        return self.choices.pairs(first[0].layer, second[0].layer, self.effort.breadth)

    def _key(self, *groups: Sequence[Group]) -> str:
        """The key of a result: the machine, its memory, all the layers, the effort."""
        machine, effort = self.choices.machine, self.effort
        tasks = ("; ".join(described(part.layer.operator) for group in some for part in group)
                 for some in groups)
        return digest([machine.hash, repr(machine.config.memory), repr(effort),
                       str(self.choices.threads), groups_text([*groups[0], *groups[2]]), *tasks])

    def _note(self, key: str, groups: Sequence[Group]) -> None:
        try:
            note("tilings", key, groups_text(groups))
        except CacheError:                      # it is found again
            pass
