"""Claims about acc: the update with its bypass, and the hazards that hold an iteration back.

Both hold in every state: inputs are anything in all cycles, and registers begin with anything,
as many cycles before as they remember.
"""

from collections.abc import Iterator
from typing import Any

from accel.formal.claims import Claim, all_of
from accel.formal.logic import Answer, Logic, Term
from accel.formal.meaning import combined
from accel.formal.unrolled import Unrolled
from accel.hw.compute.hazards import SOURCES, Hazards
from accel.hw.compute.update import Update


def update_claims(update: Update, name: str) -> Iterator[Claim]:
    """An entry is combined with what the last element before wrote there, or with memory."""
    yield Claim(f"{name}: each element meets what the last one before left in its entry", "",
                lambda seconds: _updated(update, seconds))


def hazard_claims(hazards: Hazards, name: str) -> Iterator[Claim]:
    """An iteration waits exactly while one of its sources is not yet written."""
    yield Claim(f"{name}: an iteration waits as long as an entry that it reads is pending", "",
                lambda seconds: _pending(hazards, seconds))


def _updated(update: Update, seconds: float) -> Answer:
    """The element of cycle `now` beside those whose writes its read of memory cannot see."""
    logic, reading = Logic(), update.reading
    hardware = Unrolled(logic, update)
    writing, now = reading + 2, reading + 2         # cycles to the write; elements before are known

    def part(name: str, cycle: int) -> Any:
        return hardware.part("element", update.element_layout, name, cycle)

    given = []
    for cycle in range(now + writing + 1):
        # Only an element is written, and it has one update at most.
        given.append(logic.implied(part("acc", cycle), part("valid", cycle)))
        if update.updates:
            kinds, one = part("update", cycle), logic.number(1, len(update.updates))
            below = logic.binary("sub", kinds, one)
            given.append(logic.inverted(logic.any(logic.binary("and", kinds, below))))
    valid, written = part("valid", now), now + writing
    given.append(valid)

    def same(before: int) -> Term:
        if part("addr", now) is None:
            return part("acc", before)
        return logic.binary("and", part("acc", before), logic.compared(
            "eq", part("addr", before), part("addr", now)))

    claims = [logic.compared("eq", hardware.output(port, cycle), part(name, now))
              for port, cycle, name in (("w_en", written, "acc"), ("w_addr", written, "addr"),
                                        ("r_addr", now, "addr"), ("tag", written, "tag"))
              if part(name, now) is not None]
    claims.append(logic.compared("eq", hardware.output("r_en", now), logic.binary(
        "and", part("acc", now), logic.inverted(part("assign", now)))))
    for lane in range(update.lanes):
        def of(term: Term, lane: int = lane) -> Term:
            return logic.bits(term, lane * update.bits, update.bits)

        old = of(hardware.input("r_data", now + reading))
        for before in range(now - writing, now):
            old = logic.chosen(same(before), of(hardware.output("w_data", before + writing)), old)
        value = of(hardware.input("value", now + reading + 1))
        meant = value
        for bit, kind in enumerate(update.updates):
            chosen = logic.binary("and", logic.bits(part("update", now), bit, 1),
                                  logic.inverted(part("assign", now)))
            meant = logic.chosen(chosen, combined(logic, kind, old, value), meant)
        claims.append(logic.compared("eq", of(hardware.output("w_data", written)), meant))
    return all_of(logic, claims, given, seconds)


def _pending(hazards: Hazards, seconds: float) -> Answer:
    """The iteration that enters in cycle `now`, in each cycle in which it may still wait."""
    logic, cycles = Logic(), hazards.write_cycles
    hardware = Unrolled(logic, hazards)
    now, entries = cycles + 1, (hazards.depth - 1).bit_length()

    def meets(before: int) -> Term:
        """A destination of cycle `before` is a source of the iteration."""
        entry = logic.bits(hardware.input("entry", before), 0, entries)
        both = [logic.binary("and", hardware.part("incoming", SOURCES, f"{place}_acc", now),
                             logic.compared("eq", entry, logic.bits(hardware.part(
                                 "incoming", SOURCES, place, now), 0, entries)))
                for place in "ab"]
        return logic.binary("and", hardware.input("writes", before), logic.some(both))

    given, claims = [hardware.input("enters", now)], []
    for later in range(now + 1, now + cycles + 2):
        pending = logic.some(meets(before) for before in range(later - cycles, now + 1))
        claims.append(logic.every((
            logic.compared("eq", hardware.output("pending", later), pending),)))
        # Until it is issued nothing enters and nothing is written.
        claims[-1] = logic.implied(logic.every(
            logic.inverted(hardware.input(name, cycle)) for cycle in range(now + 1, later)
            for name in ("enters", "writes")), claims[-1])
    return all_of(logic, claims, given, seconds)
