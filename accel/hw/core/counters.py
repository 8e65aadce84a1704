"""Architectural counters: what each unit did in every cycle of a run, and bytes moved."""

from amaranth.hdl import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from accel.hw.parts import delayed, registered
from accel.machine.config import AccelConfig

COUNTER_BITS = 40

_ROWS = 16


class Counters(wiring.Component):
    """A counter for each unit and activity, and one of bytes for each client of the memory.

    What is counted in cycle t can be read in t + `counter_cycles`. The cycles of a run in which
    nothing is counted yet, or no more, in which every unit is without a command, count from the
    beginning.

    A unit has one activity in a cycle, so that its counters share an adder and a memory of a row
    for each. What is in a row from before `clear` does not count.

    Members
    -------
    clear : start over.
    count : this cycle counts.
    activity_{unit} : what the unit does: one-hot in the order of `Structure.activities`.
    moved_{client} : a beat passes.
    number, value : position in `Structure.counters`, and what that counter is at, in the same
        cycle.
    """

    def __init__(self, config: AccelConfig):
        self._bus_bytes, self._timing = config.bus_bytes, config.timing
        self._structure = structure = config.structure
        super().__init__({
            "clear": In(1), "count": In(1),
            **{f"activity_{unit}": In(len(structure.activities)) for unit in structure.names},
            **{f"moved_{client}": In(1) for client in structure.clients},
            "number": In(range(len(structure.counters))), "value": Out(COUNTER_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        self._counting = Signal(name="counting")
        m.d.sync += self._counting.eq(self._late(m, self.count, "count"))
        units, clients = self._structure.names, self._structure.clients
        activities = len(self._structure.activities)
        groups = [self._activities(m, platform, unit, activities * place)
                  for place, unit in enumerate(units)]
        clear = registered(m, platform, self.clear, "clear_bytes")
        groups += [self._beats(m, platform, client, clear) * self._bus_bytes for client in clients]
        sizes = [activities] * len(units) + [1] * len(clients)
        group = Array(group for group, size in enumerate(sizes) for _ in range(size))[self.number]
        m.d.comb += self.value.eq(Array(groups)[group])
        return m

    def _late(self, m: Module, event: Signal, name: str) -> Signal:
        """An event, later by what the counters need not."""
        return delayed(m, event, self._timing.extra("counter_cycles"), name)

    def _activities(self, m: Module, platform, unit: str, first: int) -> Value:
        """The counter of a unit that `number` chooses; they begin at position `first`. A row is
        the position modulo `_ROWS`.
        """
        activity = getattr(self, f"activity_{unit}")
        clear = registered(m, platform, self.clear, f"clear_{unit}")
        here = registered(m, platform, self._late(m, activity, f"activity_{unit}"),
                          f"activity_{unit}_here")
        begun = Signal(_ROWS, name=f"begun_{unit}", init=-1)        # zeros, until a run begins
        row, fresh, counts = (Signal(width, name=f"{name}_{unit}") for name, width in
                              (("row", range(_ROWS)), ("fresh", 1), ("counts", 1)))
        rows = [(first + place) % _ROWS for place in range(len(activity))]
        command = rows[self._structure.activities.index("command")]
        at = Cat(here[rows.index(row)] if row in rows else Const(0) for row in range(_ROWS))
        m.submodules[f"kept_{unit}"] = kept = memory.Memory(
            shape=COUNTER_BITS, depth=_ROWS, init=[], attrs={"ram_style": "distributed"})
        write, old, chosen = kept.write_port(), *(kept.read_port(domain="comb") for _ in range(2))

        begin = self._timing.begin_cycles + self._timing.counter_cycles - 1

        def counter(begun: Value, row: Value, value: Value) -> Value:
            """The value of a row: a counter begins with the cycles that are not counted."""
            beginning = Mux(row == command, begin, 0)
            return Mux(begun, value, beginning)

        m.d.sync += [
            row.eq(Cat(Cat(here[place] for place, line in enumerate(rows) if line >> bit & 1).any()
                       for bit in range(len(row)))),
            fresh.eq(~(at & begun).any()), counts.eq(self._counting & here.any()),
        ]
        with m.If(clear):
            m.d.sync += begun.eq(0)
        with m.Elif(self._counting):
            m.d.sync += begun.eq(begun | at)
        m.d.comb += [
            old.addr.eq(row), write.addr.eq(row), write.en.eq(counts),
            write.data.eq(counter(~fresh, row, old.data) + 1),
            chosen.addr.eq(self.number[:len(row)]),
        ]
        return counter(begun.bit_select(chosen.addr, 1), chosen.addr, chosen.data)

    def _beats(self, m: Module, platform, client: str, clear: Value) -> Signal:
        moved = self._late(m, getattr(self, f"moved_{client}"), f"moved_{client}")
        there = registered(m, platform, moved, f"beat_{client}_there")
        counts = Signal(name=f"counts_{client}")
        beats = Signal(COUNTER_BITS, name=f"beats_{client}")
        m.d.sync += counts.eq(self._counting & there)
        with m.If(clear):
            m.d.sync += beats.eq(0)
        with m.Elif(counts):
            m.d.sync += beats.eq(beats + 1)
        return beats
