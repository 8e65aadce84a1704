"""Queues and relays: what is accepted is offered, once, in order.

By induction over cycles. A word that was accepted at any time is watched, and with it how many
words are before it: an invariant says where it lies. Each claim begins with any state in which the
invariant holds, lets one cycle pass with any inputs, and asks for the invariant again. The state
after a reset is the base: there nothing is inside.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from accel.formal.claims import Claim, all_of
from accel.formal.logic import Answer, Logic, Term
from accel.formal.unrolled import Unrolled
from accel.hw.queue import Queue, Relay


_CLAIM = "what is accepted is offered once, in order"


def queue_claims(queue: Queue, name: str) -> Iterator[Claim]:
    yield Claim(f"{name}: {_CLAIM}", "", lambda seconds: _Kept(queue).decide(seconds))


def relay_claims(relay: Relay, name: str) -> Iterator[Claim]:
    yield Claim(f"{name}: {_CLAIM}", "", lambda seconds: _Relayed(relay).decide(seconds))


class _Watching(ABC):
    """A component with the members of a queue, and one word that is watched. With `started` it is
    as after a reset."""

    def __init__(self, queue: Any, logic: Logic | None = None, started: bool = False) -> None:
        self.queue, self.logic = queue, logic or Logic()
        self.hardware = Unrolled(self.logic, queue, started)
        self.word = self.logic.symbol("word", len(self.hardware.netlist.inputs["i__payload"]))
        self.bits = self.room().bit_length() + 1        # of numbers of words

    def number(self, value: int) -> Term:
        return self.logic.number(value, self.bits)

    def wide(self, term: Term) -> Term:
        return self.logic.widened(term, self.bits, False)

    def sum(self, *terms: Term) -> Term:
        total = self.number(0)
        for term in terms:
            total = self.logic.binary("add", total, self.wide(term))
        return total

    # ---- what a kind of queue says of itself ---------------------------------------------------

    @abstractmethod
    def room(self) -> int:
        """The number of words that fit."""

    @abstractmethod
    def inside(self, cycle: int) -> Term:
        """The number of words inside."""

    @abstractmethod
    def state(self, cycle: int) -> list[Term]:
        """Truths of any state that is reached."""

    @abstractmethod
    def lies(self, place: Term, cycle: int) -> Term:
        """A truth: the watched word lies where one with so many before it must."""

    @abstractmethod
    def accepts(self, cycle: int) -> Term:
        """A truth: there is room, so that the queue must be ready."""

    # ---- the claim -----------------------------------------------------------------------------

    def decide(self, seconds: float) -> Answer:
        logic, port = self.logic, self.hardware.port
        push, pop = (logic.binary("and", port(f"{end}__valid", 0), port(f"{end}__ready", 0))
                     for end in "io")
        watched, begins = logic.symbol("watched", 1), logic.symbol("begins", 1)
        place = logic.symbol("place", self.bits)
        before = [*self.state(0), logic.implied(watched, self._inside(place, 0))]

        # The word that is pushed may be the one that is watched from now on.
        starts = logic.every((begins, push, logic.inverted(watched), logic.compared(
            "eq", port("i__payload", 0), self.word)))
        ahead = logic.binary("sub", logic.chosen(watched, place, self.inside(0)), self.wide(pop))
        first = logic.every((watched, logic.compared("eq", place, self.number(0))))
        leaves = logic.binary("and", first, pop)
        still = logic.binary("or", starts, logic.binary("and", watched, logic.inverted(leaves)))
        after = [*self.state(1), logic.implied(still, self._inside(ahead, 1))]
        offered = logic.implied(logic.binary("and", first, port("o__valid", 0)), logic.compared(
            "eq", port("o__payload", 0), self.word))
        something = logic.implied(port("o__valid", 0), logic.any(self.inside(0)))
        told = logic.compared("eq", port("some", 0), logic.any(self.inside(0)))
        ready = logic.implied(self.accepts(0), port("i__ready", 0))
        return all_of(logic, (*after, offered, something, told, ready, self.begins()), before,
                      seconds)

    def _inside(self, place: Term, cycle: int) -> Term:
        return self.logic.binary("and", self.logic.compared("ult", place, self.inside(cycle)),
                                 self.lies(place, cycle))

    def begins(self) -> Term:
        """A truth: after a reset nothing is inside, and the state is one of those."""
        fresh = type(self)(self.queue, logic=self.logic, started=True)
        return self.logic.every((*fresh.state(0), self.logic.inverted(
            self.logic.any(fresh.inside(0)))))


class _Kept(_Watching):
    """A `Queue`: words lie in its memory from `head` on, the first in the output register."""

    def __init__(self, queue: Queue, logic: Logic | None = None, started: bool = False) -> None:
        super().__init__(queue, logic, started)
        self._depth = queue.depth
        (self._memory,) = self.hardware.memories

    def room(self) -> int:
        return self.queue.depth

    def _signal(self, name: str, cycle: int) -> Term:
        return self.hardware.signal(name, cycle)

    def _address(self, term: Term) -> Term:
        """A number of words as a row, modulo the depth."""
        width = self.hardware.address_bits(self._memory)
        return self.logic.widened(term, width, False) if self._depth > 1 else \
            self.logic.number(0, width)

    def _out(self, cycle: int) -> Term:
        """One if a word is in the output register."""
        return self.hardware.output("o__valid", cycle) if self.queue.latency > 1 else \
            self.logic.number(0, 1)

    def _coming(self, cycle: int) -> list[Term]:
        """The words in memory that may not be seen yet."""
        return [self._signal(f"pushed_{age}", cycle) for age in range(1, self.queue.latency - 1)]

    def _tallied(self, name: str, cycle: int) -> Iterator[Term]:
        logic, count = self.logic, self._signal(f"{name}_count", cycle)
        yield logic.compared("ule", self.wide(count), self.number(self._depth))
        yield logic.compared("eq", self._signal(f"{name}_some", cycle), logic.any(count))
        yield logic.compared("eq", self._signal(f"{name}_full", cycle), logic.compared(
            "eq", self.wide(count), self.number(self._depth)))

    def inside(self, cycle: int) -> Term:
        return self.wide(self._signal("items_count", cycle))

    def state(self, cycle: int) -> list[Term]:
        logic, stored = self.logic, self._stored(cycle)
        coming, out = self._coming(cycle), self._out(cycle)
        tail = self._head(cycle, self.sum(stored, *coming))
        truths = [*self._tallied("items", cycle),
                  logic.compared("eq", self.inside(cycle), self.sum(stored, *coming, out)),
                  logic.compared("eq", self._address(self.hardware.write_address(
                      self._memory, cycle)), tail)]
        return truths if self.queue.latency == 1 else [*truths, *self._tallied("stored", cycle)]

    def _stored(self, cycle: int) -> Term:
        name = "items_count" if self.queue.latency == 1 else "stored_count"
        return self._signal(name, cycle)

    def _head(self, cycle: int, more: Term) -> Term:
        head = self.wide(self._signal("head", cycle)) if self._depth > 1 else self.number(0)
        return self._address(self.logic.binary("add", head, more))

    def lies(self, place: Term, cycle: int) -> Term:
        logic, out = self.logic, self._out(cycle)
        row = logic.row(self.hardware.memory(self._memory, cycle), self._head(
            cycle, logic.binary("sub", place, self.wide(out))))
        held = row
        if self.queue.latency > 1:
            first = logic.binary("and", out, logic.compared("eq", place, self.number(0)))
            held = logic.chosen(first, self._signal("output", cycle), row)
        return logic.compared("eq", held, self.word)

    def accepts(self, cycle: int) -> Term:
        return self.logic.compared("ult", self.inside(cycle), self.number(self._depth))


class _Relayed(_Watching):
    """A `Relay`: one word in the output register, one in the spare one."""

    def room(self) -> int:
        return 2

    def inside(self, cycle: int) -> Term:
        return self.sum(self.hardware.output("o__valid", cycle),
                        self.hardware.signal("held", cycle))

    def state(self, cycle: int) -> list[Term]:
        return [self.logic.implied(self.hardware.signal("held", cycle),
                                   self.hardware.output("o__valid", cycle))]

    def lies(self, place: Term, cycle: int) -> Term:
        first = self.logic.compared("eq", place, self.number(0))
        return self.logic.compared("eq", self.logic.chosen(
            first, self.hardware.signal("output", cycle), self.hardware.signal("spare", cycle)),
            self.word)

    def accepts(self, cycle: int) -> Term:
        return self.logic.inverted(self.hardware.signal("held", cycle))
