"""Weights on their way into an array that keeps them."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.datapath.array import SystolicArray
from accel.hw.parts import delayed
from accel.hw.queue import Queue
from accel.machine.config import BufferGeometry
from accel.machine.timing import CoreTiming


class WeightLoader(wiring.Component):
    """Reads the tiles of weights that iterations need, in order, a column a cycle.

    A tile is read while the one before is in use, as soon as that has taken its place. Iterations
    of a tile may follow `load_cycles` after its first column is read. Throughput: one tile in
    `load_cycles`. ::

        t                  a tile comes in (`valid`)
        t + queue_cycles   its last column is read, and so on
        + load_cycles      `full`: its first iteration may be issued (`taken`), in which cycle the
                           last column of the next tile is read

    Parameters
    ----------
    geometry : the buffer of weights as the array sees it: an entry is a column.

    Members
    -------
    valid, tile : an iteration that needs other weights than the one before, and their tile.
    full, taken : the next tile is complete; an iteration that needs it is issued.
    addr, en : to the buffer.
    shift, switch : to the array, with the data of the buffer.
    """

    def __init__(self, array: SystolicArray, geometry: BufferGeometry, timing: CoreTiming):
        self.array, self._timing, self._columns = array, timing, array.load_cycles
        super().__init__({"valid": In(1), "tile": In(range(geometry.depth // self._columns)),
                          "full": Out(1), "taken": In(1), "addr": Out(range(geometry.depth)),
                          "en": Out(1), "shift": Out(1), "switch": Out(1)})

    def elaborate(self, platform):
        m, reading = Module(), self._timing.read_cycles
        m.submodules.tiles = tiles = Queue(self.tile.shape(), self.array.ahead,
                                           self._timing.queue_cycles)
        left = Signal(range(self._columns), init=self._columns - 1)     # columns, after this one
        last = left == 0
        m.d.comb += [
            tiles.i.valid.eq(self.valid), tiles.i.payload.eq(self.tile),
            self.en.eq(tiles.o.valid & (~self.full | self.taken)), tiles.o.ready.eq(self.en & last),
            self.addr.eq(tiles.o.payload * self._columns + left),
            self.shift.eq(delayed(m, self.en, reading, "shift")),
            self.switch.eq(delayed(m, self.taken, reading, "switch")),
        ]
        m.d.sync += self.full.eq(self.en & last | self.full & ~self.taken)
        with m.If(self.en):
            m.d.sync += left.eq(Mux(last, self._columns - 1, left - 1))
        return m
