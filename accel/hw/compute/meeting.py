"""The meeting of floats with their destination in acc: in a datapath, as an addition takes long."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.datapath.plan import DatapathPlan
from accel.hw.compute.datapath import Datapath
from accel.hw.parts import delayed


class Meeting(wiring.Component):
    """Reads, combines and writes back an entry a cycle, without bypass.

    An element that is presented in cycle t reads acc in t, meets its `value`, which comes in
    ``t + read_cycles``, in the datapath of `plan`, and is written ``plan.latency`` later. An
    element that reads must not be presented before the write of those with its destination is over.

    Parameters
    ----------
    plan : of the bodies ``assign`` and all updates that occur (`DatapathPlan.meeting`).
    lanes : lanes of an entry.
    depth : entries of acc.
    tag : shape of what travels along.

    Members
    -------
    element : in cycle t: `valid` (there is one), `acc` (it is written to acc), `addr`, `assign`
        (it does not read), one-hot `update` of all but ``assign``, and `tag`.
    value : in cycle t + 2.
    r_addr, r_en, r_data, w_addr, w_en, w_data : to acc; w_data is the result of every element.
    tag : of the element that is written now.
    """

    def __init__(self, plan: DatapathPlan, lanes: int, depth: int, tag: int):
        self.plan = plan
        self.element_layout = data.StructLayout({
            "valid": 1, "acc": 1, "addr": range(depth), "assign": 1,
            "update": len(plan.bodies) - 1, "tag": tag})
        width = lanes * plan.value_bits
        super().__init__({
            "element": In(self.element_layout), "value": In(width),
            "r_addr": Out(range(depth)), "r_en": Out(1), "r_data": In(width),
            "w_addr": Out(range(depth)), "w_en": Out(1), "w_data": Out(width),
            "tag": Out(tag),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.datapath = datapath = Datapath(self.plan)
        reading = self.plan.timing.read_cycles
        select = Signal(len(self.plan.bodies))
        written = delayed(m, self.element, reading + self.plan.latency, "element")
        m.d.comb += [
            select.eq(Cat(self.element.assign, Mux(self.element.assign, 0, self.element.update))),
            self.r_addr.eq(self.element.addr),
            self.r_en.eq(self.element.acc & ~self.element.assign),
            datapath.valid.eq(delayed(m, self.element.valid, reading - 1, "there")),
            datapath.select.eq(delayed(m, select, reading - 1, "select")),
            datapath.old.eq(self.r_data), datapath.new.eq(self.value),
            self.w_addr.eq(written.addr), self.w_en.eq(written.acc), self.tag.eq(written.tag),
            self.w_data.eq(datapath.value),
        ]
        return m
