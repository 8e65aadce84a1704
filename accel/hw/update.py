"""How values meet their destination in acc: assignment, sum, maximum, minimum."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.hw.interface import READ_LATENCY

__all__ = ["Update"]

LANE_BITS = 32


class Update(wiring.Component):
    """Reads, combines and writes back an entry a cycle, with full bypass.

    An element that is presented in cycle t reads acc in t, meets its `value`, which comes in
    ``t + READ_LATENCY``, and is written in ``t + READ_LATENCY + 1``. Throughput: one element a
    cycle, whatever the destinations: results not yet in memory are bypassed.

    ::

        t      r_addr; is the destination that of one of the three elements before?
        t + 1  take the result of the second or third element before, if it is needed
        t + 2  r_data, value: combine with it, with the last result, or with r_data
        t + 3  w_addr, w_data

    Parameters
    ----------
    updates : kinds that occur (``assign`` need not be named).
    lanes : int32 lanes of an entry.
    depth : entries of acc.
    tag : shape of what travels along.

    Members
    -------
    element : in cycle t: `valid` (there is one), `acc` (it is written to acc), `addr`, `assign`
        (it does not read), one-hot `update`, and `tag`.
    value : in cycle t + 2.
    r_addr, r_en, r_data, w_addr, w_en, w_data : to acc; w_data is the result of every element.
    tag : of the element that is written now.
    """

    def __init__(self, updates: tuple[str, ...], lanes: int, depth: int, tag: int):
        assert READ_LATENCY == 2
        self.updates, self.lanes = updates, lanes
        self.element_layout = data.StructLayout({
            "valid": 1, "acc": 1, "addr": range(depth), "assign": 1, "update": max(len(updates), 1),
            "tag": tag})
        width = lanes * LANE_BITS
        super().__init__({
            "element": In(self.element_layout), "value": In(width),
            "r_addr": Out(range(depth)), "r_en": Out(1), "r_data": In(width),
            "w_addr": Out(range(depth)), "w_en": Out(1), "w_data": Out(width),
            "tag": Out(tag),
        })

    def elaborate(self, platform):
        m = Module()
        width = len(self.w_data)
        # Elements in t + 1, t + 2 and t + 3. Of them only `acc` and the tag must start at zero.
        line = [Signal(self.element_layout, name=f"element{k}") for k in (1, 2, 3)]
        for element, before in zip(line, (self.element, *line), strict=False):
            m.d.sync += element.eq(before)
        m.d.comb += [
            self.r_addr.eq(self.element.addr),
            self.r_en.eq(self.element.acc & ~self.element.assign),
            self.w_addr.eq(line[2].addr), self.w_en.eq(line[2].acc), self.tag.eq(line[2].tag),
        ]

        same = [Signal(name=f"same{k}", reset_less=True) for k in (1, 2, 3)]
        for flag, before in zip(same, line, strict=True):
            m.d.sync += flag.eq(before.acc & (before.addr == self.element.addr))
        last, earlier = Signal(reset_less=True), Signal(reset_less=True)
        earlier_data = Signal(width, reset_less=True)
        previous = Signal(width, reset_less=True)
        m.d.sync += [
            last.eq(same[0]), earlier.eq(same[1] | same[2]),
        ]
        with m.If(line[2].acc):
            m.d.sync += previous.eq(self.w_data)
        with m.If(same[1] | same[2]):
            m.d.sync += earlier_data.eq(Mux(same[1], self.w_data, previous))

        old, result = Signal(width), Signal(width, reset_less=True)
        m.d.comb += old.eq(Mux(last, self.w_data, Mux(earlier, earlier_data, self.r_data)))
        lanes = [slice(lane * LANE_BITS, (lane + 1) * LANE_BITS) for lane in range(self.lanes)]
        with m.If(line[1].valid):
            m.d.sync += result.eq(Cat(self._combine(line[1], old[bits], self.value[bits])
                                      for bits in lanes))
        m.d.comb += self.w_data.eq(result)
        return m

    def _combine(self, element, old: Value, value: Value) -> Value:
        result = value
        for bit, kind in enumerate(self.updates):
            chosen = element.update[bit] & ~element.assign
            match kind:
                case "sum" if len(self.updates) == 1:
                    return (Mux(element.assign, 0, old) + value)[:LANE_BITS]
                case "sum":
                    result = Mux(chosen, (old + value)[:LANE_BITS], result)
                case "max":
                    keep = chosen & (old.as_signed() > value.as_signed())
                    result = Mux(keep, old, result)
                case "min":
                    keep = chosen & (old.as_signed() < value.as_signed())
                    result = Mux(keep, old, result)
        return result
