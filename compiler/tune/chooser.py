"""Decisions that a template makes while it schedules, and what it would make of others.

A template asks a `Chooser` for each thing that it may choose: which size of a tile, which order of
loops. It says what there is and, where it can, what each costs by its estimate. `OWN` answers with
the best by estimate. A `PointChooser` answers with what a point says and remembers what it was
asked, so that a space needs no list beside the template: it is what the template asks, and what it
asks next may depend on the answers so far.

>>> from compiler.tune.chooser import OWN, PointChooser
>>> def template(chooser):
...     size = chooser.one_of("size", (1, 2, 4), lambda size: abs(size - 2))
...     return size, chooser.one_of("unrolled", (False, True)) if size > 1 else False
>>> template(OWN)
(2, False)
>>> chooser = PointChooser({"size": "4", "unrolled": "True"})
>>> template(chooser)
(4, True)
>>> [decision.name for decision in chooser.decisions]
['size', 'unrolled']
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol, TypeVar

from numpy.random import Generator

Option = TypeVar("Option")
Cost = Callable[[Option], float]


class Chooser(Protocol):
    def one_of(self, name: str, options: Sequence[Option], cost: Cost | None = None) -> Option:
        """One of the options, of which there is at least one. `cost` is an estimate of the time
        that each takes, up to a factor; without one the first is what the template would take.
        """
        ...

    def ranked(self, name: str, options: Sequence[Option], cost: Cost | None = None
               ) -> Iterator[Option]:
        """The options, the one to take first, for a template that takes the first one that it can
        have.
        """
        ...


@dataclass(frozen=True, slots=True)
class OwnChooser:
    """Takes the best by estimate."""

    def one_of(self, name: str, options: Sequence[Option], cost: Cost | None = None) -> Option:
        return options[0] if cost is None else min(options, key=cost)

    def ranked(self, name: str, options: Sequence[Option], cost: Cost | None = None
               ) -> Iterator[Option]:
        return iter(options if cost is None else sorted(options, key=cost))


OWN = OwnChooser()


@dataclass(frozen=True, slots=True)
class Decision:
    """A question and its answer. Several with one name have numbers behind it.

    Parameters
    ----------
    options : texts of what there was, in the order of the template.
    costs : an estimate for each; all 1 where the template had none.
    taken : the place of the answer.
    """

    name: str
    options: tuple[str, ...]
    costs: tuple[float, ...]
    taken: int

    @property
    def answer(self) -> str:
        return self.options[self.taken]

    @property
    def excess(self) -> float:
        """The estimated time of the answer over that of its best option: from 1 up."""
        least = min(self.costs)
        return self.costs[self.taken] / least if least > 0 else 1.0


class PointChooser:
    """Answers as a point says: options by the names of decisions. What the point does not name, or
    names with something that there is not, is the best by estimate; with `random` it is any.
    """

    def __init__(self, point: Mapping[str, str], random: Generator | None = None):
        self.point, self.random = dict(point), random
        self.decisions: list[Decision] = []

    def one_of(self, name: str, options: Sequence[Option], cost: Cost | None = None) -> Option:
        return next(self.ranked(name, options, cost))

    def ranked(self, name: str, options: Sequence[Option], cost: Cost | None = None
               ) -> Iterator[Option]:
        texts = tuple(map(str, options))
        costs = tuple(1.0 if cost is None else float(cost(option)) for option in options)
        if self.random is None:
            order = sorted(range(len(options)), key=lambda place: costs[place])
        else:
            order = self.random.permutation(len(options)).tolist()
        name = self._numbered(name)
        wanted = self.point.get(name)
        if wanted in texts:
            order.insert(0, order.pop(order.index(texts.index(wanted))))
        before = len(self.decisions)
        for place in order:
            del self.decisions[before:]     # it could not have the one before, nor what followed
            self.decisions.append(Decision(name, texts, costs, place))
            yield options[place]

    def _numbered(self, name: str) -> str:
        used = {decision.name for decision in self.decisions}
        names = (name if number == 1 else f"{name} {number}" for number in count(1))
        return next(one for one in names if one not in used)
