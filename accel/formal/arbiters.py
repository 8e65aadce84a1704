"""The arbiter of the memory port: one burst after the other, each beat to the unit that asked.

By induction over cycles. What memory promises is given: it answers only what it was asked. Its
queue of owners is a queue, which has claims of its own.
"""

from collections.abc import Iterator
from functools import partial

from accel.formal.claims import Claim, all_of
from accel.formal.logic import Answer, Logic, Term
from accel.formal.unrolled import Unrolled
from accel.hw.moving.arbiter import Arbiter


def arbiter_claims(arbiter: Arbiter, name: str) -> Iterator[Claim]:
    yield Claim(f"{name}: requests pass whole, by priority, while there is room for them", "",
                partial(_requested, arbiter))
    yield Claim(f"{name}: beats go to the unit that asked for them, and none is lost", "",
                partial(_answered, arbiter))


class _Arbiter:
    def __init__(self, arbiter: Arbiter) -> None:
        self.logic = Logic()
        self.hardware = Unrolled(self.logic, arbiter)
        self.bursts, self.clients = arbiter.bursts, arbiter.clients     # fetch, store, load
        self.bits = self.bursts.bit_length() + 2

    def wide(self, term: Term) -> Term:
        return self.logic.widened(term, self.bits, False)

    def number(self, value: int) -> Term:
        return self.logic.number(value, self.bits)

    def port(self, name: str, cycle: int) -> Term:
        return self.hardware.port(name, cycle)

    def moved(self, stream: str, cycle: int) -> Term:
        """A truth: a word of a stream passes."""
        return self.logic.binary("and", self.port(f"{stream}__valid", cycle),
                                 self.port(f"{stream}__ready", cycle))

    def sum(self, *terms: Term) -> Term:
        total = self.number(0)
        for term in terms:
            total = self.logic.binary("add", total, self.wide(term))
        return total

    def state(self, cycle: int, writes: Term) -> list[Term]:
        """Truths of any state, with so many bursts of writes that are not acknowledged."""
        logic, signal = self.logic, self.hardware.signal
        closed, opened = signal("closed", cycle), self.wide(signal("open", cycle))
        count = signal("items_count", cycle)
        ended = self.hardware.component.ended
        closing = [logic.bits(closed, place, 1) for place in range(2)] + [
            logic.bits(signal(f"ended_{age}", cycle), place, 1)
            for age in range(1, ended + 1) for place in range(2)]
        limit = self.number(self.bursts)
        return [
            logic.compared("ule", opened, limit), logic.compared("ule", writes, limit),
            logic.compared("eq", signal("full", cycle), logic.compared("eq", opened, limit)),
            logic.compared("eq", opened, self.sum(count, writes, *closing)),
            logic.compared("eq", signal("some_due", cycle), logic.any(signal("due", cycle))),
            logic.compared("eq", signal("items_some", cycle), logic.any(count)),
            logic.compared("eq", signal("items_full", cycle), logic.compared(
                "eq", self.wide(count), self.number(self.bursts)))]


def _requested(arbiter: Arbiter, seconds: float) -> Answer:
    it = _Arbiter(arbiter)
    logic, port = it.logic, it.port
    writes = logic.symbol("writes", it.bits)
    fetch, store, load = it.clients
    taken = {client: it.moved(f"{client}__request", 0) for client in it.clients}
    ack = port("mem__ack__valid", 0)
    given = [*it.state(0, writes), logic.implied(ack, logic.any(writes)),
             logic.implied(it.hardware.signal("o__valid", 0), logic.any(
                 it.hardware.signal("items_count", 0)))]
    later = logic.binary("sub", it.sum(writes, taken[store]), it.wide(ack))
    claims = it.state(1, later)[:4]
    waits = logic.binary("and", port("mem__request__valid", 0),
                         logic.inverted(port("mem__request__ready", 0)))
    any_taken = logic.some(taken.values())
    claims += [
        logic.compared("eq", port("mem__request__valid", 1), logic.binary("or", any_taken, waits)),
        logic.implied(waits, logic.inverted(any_taken)),
        logic.implied(waits, logic.compared("eq", port("mem__request__payload", 0),
                                            port("mem__request__payload", 1))),
        logic.implied(any_taken, logic.inverted(it.hardware.signal("full", 0)))]
    for number, client in enumerate(it.clients):
        asked = port(f"{client}__request__payload", 0)
        sent = port("mem__request__payload", 1)
        width = logic.width(asked)
        claims += [
            *(logic.implied(taken[client], logic.inverted(port(f"{other}__request__valid", 0)))
              for other in it.clients[:number]),
            logic.implied(taken[client], logic.compared("eq", logic.bits(sent, 0, width), asked)),
            logic.implied(taken[client], logic.compared(
                "eq", logic.bits(sent, width, 1), logic.number(client == store, 1)))]
    pushed = logic.binary("and", it.hardware.signal("i__valid", 0),
                          it.hardware.signal("i__ready", 0))
    owner = logic.bits(it.hardware.signal("i__payload", 0), 0, 1)
    last = logic.width(port(f"{load}__request__payload", 0)) - logic.width(
        it.hardware.signal("i__payload", 0)) + 1
    claims.append(logic.compared("eq", pushed, logic.binary("or", taken[fetch], taken[load])))
    for client, place in ((fetch, 0), (load, 1)):
        asked = port(f"{client}__request__payload", 0)
        beats = logic.bits(it.hardware.signal("i__payload", 0), 1, logic.width(asked) - last)
        claims += [logic.implied(taken[client], logic.compared("eq", owner,
                                                               logic.number(place, 1))),
                   logic.implied(taken[client], logic.compared("eq", beats, logic.bits(
                       asked, last, logic.width(asked) - last)))]
    return all_of(logic, claims, given, seconds)


def _answered(arbiter: Arbiter, seconds: float) -> Answer:
    it = _Arbiter(arbiter)
    logic, port, signal = it.logic, it.port, it.hardware.signal
    fetch, store, load = it.clients
    there, owner = signal("o__valid", 0), signal("o__payload", 0)
    mine = {fetch: logic.inverted(logic.bits(owner, 0, 1)), load: logic.bits(owner, 0, 1)}
    comes = it.moved("mem__rdata", 0)
    ends = logic.binary("and", comes, logic.compared(
        "eq", signal("beat", 0), logic.bits(owner, 1, logic.width(owner) - 1)))
    claims, passed = [], []
    for client, own in mine.items():
        moves = it.moved(f"{client}__rdata", 0)
        passed.append(moves)
        claims += [
            logic.implied(moves, logic.every((there, own, comes))),
            logic.compared("eq", moves, port(f"moved_{client}", 0)),
            logic.compared("eq", port(f"{client}__rdata__payload", 0),
                           port("mem__rdata__payload", 0))]
    beat = signal("beat", 0)
    width = logic.width(beat)
    counted = logic.chosen(ends, logic.number(0, width), logic.chosen(
        comes, logic.binary("add", beat, logic.number(1, width)), beat))
    due, write = signal("due", 0), it.moved("mem__wdata", 0)
    bits = logic.width(due) + 1
    accepted = logic.binary("and", it.moved("mem__request", 0), logic.bits(
        port("mem__request__payload", 0), logic.width(port(f"{store}__request__payload", 0)), 1))
    asked = port("mem__request__payload", 0)
    first = logic.width(port(f"{store}__request__payload", 0)) - width
    beats = logic.binary("add", logic.widened(logic.bits(asked, first, width), bits, False),
                         logic.number(1, bits))
    total = logic.binary("sub", logic.binary("add", logic.widened(due, bits, False), logic.chosen(
        accepted, beats, logic.number(0, bits))), logic.widened(write, bits, False))
    room = logic.compared("ult", total, logic.number(1 << bits - 1, bits))
    claims += [
        logic.compared("eq", comes, logic.some(passed)),
        logic.compared("eq", signal("o__ready", 0), ends),
        logic.compared("eq", signal("beat", 1), counted),
        logic.compared("eq", write, it.moved(f"{store}__wdata", 0)),
        logic.implied(write, logic.any(due)),
        logic.compared("eq", port("mem__wdata__payload", 0), port(f"{store}__wdata__payload", 0)),
        logic.implied(room, logic.compared("eq", logic.widened(signal("due", 1), bits, False),
                                           total)),
        logic.implied(room, logic.compared("eq", signal("some_due", 1),
                                           logic.any(signal("due", 1)))),
        logic.compared("eq", port(f"{store}__ack__valid", 0), port("mem__ack__valid", 0)),
        logic.compared("eq", port(f"{store}__ack__payload", 0), port("mem__ack__payload", 0))]
    given = [logic.compared("eq", signal("some_due", 0), logic.any(due))]
    return all_of(logic, claims, given, seconds)
