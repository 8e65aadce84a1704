"""Tokens: counters hold what was signalled less what was taken, and never wrap.

By induction over cycles. What units promise is given: a unit takes tokens that are available, not
in two cycles on end, and a request to signal stands, and names the same units, until it is granted
or refused.
"""

from collections.abc import Iterator
from functools import partial

from accel.formal.claims import Claim, all_of
from accel.formal.logic import Answer, Logic, Term
from accel.formal.unrolled import Unrolled
from accel.hw.core.tokens import Tokens


def token_claims(tokens: Tokens, name: str) -> Iterator[Claim]:
    """For each unit, one of the counters of its signals."""
    for number, source in enumerate(tokens.names):
        yield Claim(f"{name}: the tokens of {source} are what it signals less what others take", "",
                    partial(_counted, tokens, number))


def _counted(tokens: Tokens, source: int, seconds: float) -> Answer:
    logic = Logic()
    hardware = Unrolled(logic, tokens)
    names = tokens.names
    port = partial(_port, hardware, source)
    signalled, before = port("signalled", 0), port("signals", 0)
    stands = logic.binary("and", port("signal", 0), logic.inverted(signalled))
    given, claims, fulls = [], [], []
    given.append(logic.implied(stands, logic.binary("and", port("signal", 1), logic.compared(
        "eq", port("signals", 1), before))))
    for place, target in enumerate(names):
        pair = f"{names[source]}_to_{target}"
        count, taken, some, full = (partial(hardware.signal, f"{pair}_{part}")
                                    for part in ("count", "taken", "some", "full"))
        takes, waits, available = (
            logic.bits(term, 0 if logic.width(term) == 1 else source, 1)
            for term in (_port(hardware, place, name, 0) for name in (
                "take", "waits", "available")))
        up = logic.binary("and", signalled, logic.bits(before, place, 1))
        width = logic.width(count(0))
        limit = logic.number((1 << width) - 1, width)

        def state(cycle: int, count=count, taken=taken, some=some, full=full, limit=limit
                  ) -> list[Term]:
            return [logic.compared("eq", some(cycle), logic.any(count(cycle))),
                    logic.compared("eq", full(cycle), logic.compared("eq", count(cycle), limit)),
                    logic.implied(taken(cycle), logic.any(count(cycle)))]

        given += [*state(0), logic.implied(up, logic.inverted(full(0))),
                  logic.implied(taken(0), logic.inverted(takes)),
                  logic.implied(logic.binary("and", takes, waits), available)]
        more, less = (logic.widened(one, width + 1, False) for one in (up, taken(0)))
        exact = logic.binary("sub", logic.binary("add", logic.widened(
            count(0), width + 1, False), more), less)
        fits = logic.binary("and", logic.bits(port("signals", 1), place, 1), full(1))
        claims += [*state(1),
                   logic.compared("eq", logic.widened(count(1), width + 1, False), exact),
                   logic.compared("eq", available, logic.any(count(0))),
                   logic.compared("eq", taken(1), logic.binary("and", takes, waits)),
                   logic.implied(port("signalled", 1), logic.inverted(fits))]
        fulls.append(logic.binary("and", logic.bits(before, place, 1), full(0)))
    free = logic.inverted(logic.some(fulls))
    claims += [logic.compared("eq", port("signalled", 1), logic.binary("and", stands, free)),
               logic.compared("eq", port("refused", 1), logic.binary(
                   "and", stands, logic.inverted(free)))]
    empty = logic.implied(hardware.output("empty", 0), logic.inverted(logic.some(
        logic.any(hardware.signal(f"{names[source]}_to_{target}_count", 0)) for target in names)))
    fresh = Unrolled(logic, tokens, started=True)
    begun = [logic.inverted(logic.any(fresh.signal(f"{names[source]}_to_{target}_{part}", 0)))
             for target in names for part in ("count", "taken", "some", "full")]
    begun.append(logic.inverted(_port(fresh, source, "signalled", 0)))
    return all_of(logic, (*claims, empty, *begun), given, seconds)


def _port(hardware: Unrolled, unit: int, name: str, cycle: int) -> Term:
    return hardware.port(f"units__{unit}__{name}", cycle)

