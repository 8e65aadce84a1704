"""A machine with a unit of one's own: the greatest of each lane, from a row's first entry on.
docs/structure.md says more.

    lockstep check --machine examples/machines/running_max.py --count 20
    lockstep isa --machine examples/machines/running_max.py
"""

from dataclasses import replace

import numpy as np
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, stream_op
from accel.machine.machine import Machine
from accel.machine.streams import StreamShape
from accel.machine.structure import SHIPPED_STRUCTURE, BufferRecord


class RunningMax(wiring.Component):
    """The greatest number of each lane so far; an entry a cycle, in the cycle in which it comes."""

    def __init__(self, shape: StreamShape):
        self.shape = shape
        super().__init__(shape.members)

    def elaborate(self, platform):
        m = Module()
        given = data.View(self.shape.a_elements, self.i.p.data)
        result = data.View(self.shape.dst_elements, self.o.p.data)
        kept, begins = Signal(self.shape.dst_elements), Signal(init=1)
        m.d.comb += [self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready),
                     self.o.p.last.eq(self.i.p.last)]
        m.d.comb += [result[lane].eq(Mux(begins | (given[lane] > kept[lane]), given[lane],
                                         kept[lane])) for lane in range(len(given))]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [kept.eq(result), begins.eq(self.i.p.last)]
        return m


def running_max(rows: np.ndarray) -> np.ndarray:
    """The same of integers of shape (rows, entries, batch, block_out)."""
    return np.maximum.accumulate(rows, axis=1)


structure = SHIPPED_STRUCTURE.with_stream(
    "peaks", [("a", "res"), ("dst", "tops")],
    [BufferRecord("tops", ("batch", "block_out"), "output", 2048)])
machine = Machine(replace(preset("tiny-1x4x4"), name="running-max", structure=structure),
                  (*SHIPPED, stream_op("running_max", "peaks", RunningMax, running_max)))
