"""Architectural counters: what each unit did in every cycle of a run, and bytes moved."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.config import UNITS, AccelConfig
from accel.hw.control import BEGIN_CYCLES
from accel.hw.parts import registered
from accel.status import ACTIVITIES

__all__ = ["CLIENTS", "COUNTER_BITS", "COUNTER_CYCLES", "Counters", "counter_outputs"]

COUNTER_BITS = 40

COUNTER_CYCLES = 3
"""From a cycle to when the counters include it."""

CLIENTS = ("fetch", "load", "store")
"""Who moves bytes over the memory port."""


def counter_outputs() -> dict:
    """The counters, by name."""
    return ({f"count_{unit}_{activity}": Out(COUNTER_BITS)
             for unit in UNITS for activity in ACTIVITIES}
            | {f"bytes_{client}": Out(COUNTER_BITS) for client in CLIENTS})


class Counters(wiring.Component):
    """A counter for each unit and activity, and one of bytes for each client of the memory.

    What is counted in cycle t is in the outputs in t + `COUNTER_CYCLES`. The cycles of a run in
    which nothing is counted yet, or no more, in which every unit is without a command, count from
    the beginning.

    Members
    -------
    clear : start over.
    count : this cycle counts.
    activity_{unit} : what the unit does: one-hot in the order of `ACTIVITIES`.
    moved_{client} : a beat passes.
    (those of `counter_outputs`)
    """

    def __init__(self, config: AccelConfig):
        self._bus_bytes = config.bus_bytes
        super().__init__({
            "clear": In(1), "count": In(1),
            **{f"activity_{unit}": In(len(ACTIVITIES)) for unit in UNITS},
            **{f"moved_{client}": In(1) for client in CLIENTS}, **counter_outputs(),
        })

    def elaborate(self, platform):
        m = Module()
        self._count = Signal(name="counting")
        m.d.sync += self._count.eq(self.count)
        for unit in UNITS:
            clear = registered(m, platform, self.clear, f"clear_{unit}")
            activity = getattr(self, f"activity_{unit}")
            for index, name in enumerate(ACTIVITIES):
                first = (BEGIN_CYCLES + COUNTER_CYCLES - 1) * (name == "command")
                self._counter(m, platform, getattr(self, f"count_{unit}_{name}"), activity[index],
                              clear, first)
        clear = registered(m, platform, self.clear, "clear_bytes")
        for client in CLIENTS:
            beats = Signal(COUNTER_BITS, name=f"beats_{client}")
            self._counter(m, platform, beats, getattr(self, f"moved_{client}"), clear)
            m.d.comb += getattr(self, f"bytes_{client}").eq(beats * self._bus_bytes)
        return m

    def _counter(self, m: Module, platform, counter: Signal, event: Value, clear: Value,
                 first: int = 0):
        there = registered(m, platform, event, f"{counter.name}_there")     # events come late
        counts = Signal(name=f"{counter.name}_counts")
        m.d.sync += counts.eq(self._count & there)
        with m.If(clear):
            m.d.sync += counter.eq(first)
        with m.Elif(counts):
            m.d.sync += counter.eq(counter + 1)
