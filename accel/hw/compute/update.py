"""The update of a destination in acc: assignment, sum, maximum, minimum."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.hw.compute.datapath import below
from accel.hw.parts import delayed, follows, spread, trail


class Update(wiring.Component):
    """Reads, combines and writes back an entry a cycle, with full bypass.

    An element that is presented in cycle t reads acc in t, meets its `value`, which comes in
    ``t + old_cycles``, and is written one cycle later. Throughput: one element a cycle, whatever
    the destinations: results not yet in memory are bypassed.

    ::

        t      r_addr; is the destination that of one of the r + 2 elements before?
        t+r-1  take the result of the third element before, or an earlier one, if it is needed
        t+r    r_data: take it, or what was taken, or the result of the second element before
        t+r+1  value: combine with what was taken, or with the last result
        t+r+2  w_addr, w_data

    Parameters
    ----------
    updates : kinds that occur (``assign`` need not be named).
    lanes : lanes of an entry.
    depth : entries of acc.
    tag : shape of what travels along.
    bits : bits of a lane.
    reading : `read_cycles`, r above.

    Members
    -------
    element : in cycle t: `valid` (there is one), `acc` (it is written to acc), `addr`, `assign`
        (it does not read), one-hot `update`, and `tag`.
    value : in cycle t + r + 1.
    r_addr, r_en, r_data, w_addr, w_en, w_data : to acc; w_data is the result of every element.
    tag : of the element that is written now.
    """

    def __init__(self, updates: tuple[str, ...], lanes: int, depth: int, tag: int, bits: int,
                 reading: int):
        self.updates, self.lanes, self.bits, self.reading = updates, lanes, bits, reading
        self.element_layout = data.StructLayout({
            "valid": 1, "acc": 1, "addr": range(depth), "assign": 1, "update": max(len(updates), 1),
            "tag": tag})
        width = lanes * bits
        super().__init__({
            "element": In(self.element_layout), "value": In(width),
            "r_addr": Out(range(depth)), "r_en": Out(1), "r_data": In(width),
            "w_addr": Out(range(depth)), "w_en": Out(1), "w_data": Out(width),
            "tag": Out(tag),
        })

    def elaborate(self, platform):
        m, width, reading = Module(), len(self.w_data), self.reading
        # Elements by their age. Of them only `acc` and the tag must start at zero.
        aged = trail(m, self.element, reading + 2, "element")
        written = aged[-1]
        m.d.comb += [
            self.r_addr.eq(self.element.addr),
            self.r_en.eq(self.element.acc & ~self.element.assign),
            self.w_addr.eq(written.addr), self.w_en.eq(written.acc), self.tag.eq(written.tag),
        ]

        def control(value: Value, name: str) -> list[Signal]:
            return spread(m, platform, value, name, self.lanes)

        # Of the elements before, the last one first.
        meets = Cat(before.acc & (before.addr == self.element.addr) for before in aged[1:])
        meets = delayed(m, meets, reading - 2, "meets", reset_less=True)
        same, same_last = Signal(len(meets), reset_less=True), Signal(reset_less=True)
        m.d.sync += [same.eq(meets), same_last.eq(same[0])]
        nearer = [control(meet, f"nearer{number}") for number, meet in enumerate(meets[2:-1])]
        last, second = control(same_last, "last"), control(same[1], "second")
        early = control(same[2:].any(), "early")
        chosen = control(Mux(aged[reading].assign, 0, aged[reading].update), "chosen")
        earlier, base, result = (Signal(width, name=name, reset_less=True)
                                 for name in ("earlier", "base", "result"))
        m.d.comb += self.w_data.eq(result)
        results = [result]          # of the third element before, and of those before that
        for number in range(reading - 1):
            previous = Signal(width, name=f"previous{number}", reset_less=True)
            with m.If(follows(platform, written.acc) if number == 0 else Const(1)):
                m.d.sync += previous.eq(results[-1])
            results.append(previous)
        for lane in range(self.lanes):
            bits = slice(lane * self.bits, (lane + 1) * self.bits)
            fresh, old = result[bits], results[-1][bits]
            for meet, one in reversed([*zip(nearer, results, strict=False)]):
                old = Mux(meet[lane], one[bits], old)
            with m.If(follows(platform, same[2:].any())):
                m.d.sync += earlier[bits].eq(old)
            with m.If(follows(platform, aged[reading].valid)):
                m.d.sync += base[bits].eq(Mux(second[lane], fresh, Mux(
                    early[lane], earlier[bits], self.r_data[bits])))
            with m.If(follows(platform, aged[reading + 1].valid)):
                m.d.sync += result[bits].eq(self._combine(
                    chosen[lane], last[lane], fresh, base[bits], self.value[bits]))
        return m

    def _combine(self, chosen: Value, last: Value, fresh: Value, base: Value,
                 value: Value) -> Value:
        """Combines the value with the destination: `fresh` if the `last` element wrote it, else
        `base`. Both are compared with the value, as the outcome would come late otherwise. Maximum
        and minimum share a comparison: of equal values either will do."""
        by = {kind: chosen[bit] for bit, kind in enumerate(self.updates)}
        old = Mux(last, fresh, base)
        if self.updates == ("sum",):
            return (Mux(by["sum"], old, 0) + value)[:self.bits]
        result = Mux(by["sum"], (old + value)[:self.bits], value) if "sum" in by else value
        if "max" in by or "min" in by:
            less = Mux(last, *(below(bound.as_signed(), value.as_signed())
                               for bound in (fresh, base)))
            result = Mux(Mux(less, by.get("min", Const(0)), by.get("max", Const(0))), old, result)
        return result


def updates_of(plan, select: Value) -> tuple[tuple[str, ...], Value]:
    """Kinds of update that accumulate among a plan's bodies, and which is selected, one-hot."""
    kinds = tuple(dict.fromkeys(body.update for body in plan.bodies if body.update != "assign"))
    chosen = [Cat(select[number] for number, body in enumerate(plan.bodies)
                  if body.update == kind).any() for kind in kinds]
    return kinds, Cat(chosen) if kinds else Const(0, 1)
