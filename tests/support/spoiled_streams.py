"""Components of stream units with an error planted."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring

from tests.support.streams import Reverse


class Around(wiring.Component):
    """`Reverse`, and something of its own between it and the unit."""

    def __init__(self, shape):
        self.inner = Reverse(shape)
        super().__init__(shape.members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = self.inner
        m.d.comb += [
            inner.i.payload.eq(self.i.payload), inner.i.valid.eq(self.i.valid),
            self.i.ready.eq(inner.i.ready), self.o.payload.eq(inner.o.payload),
            self.o.valid.eq(inner.o.valid), inner.o.ready.eq(self.o.ready)]
        self.changed(m, inner)
        return m


class Wrong(Around):
    """One bit of the third entry of a row is another."""

    def changed(self, m, inner):
        at = Signal(4)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += at.eq(at + 1)
            with m.If(self.o.p.last):
                m.d.sync += at.eq(0)
        with m.If(at == 2):
            m.d.comb += self.o.p.data[5].eq(~inner.o.p.data[5])


class Lost(Around):
    """The end of a row of three entries is lost: the next row's entries are of the same row."""

    def changed(self, m, inner):
        at = Signal(4)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += at.eq(at + 1)
            with m.If(self.i.p.last):
                m.d.sync += at.eq(0)
        with m.If(at == 2):
            m.d.comb += inner.i.p.last.eq(0)


class Late(Around):
    """A row is offered a cycle later."""

    def changed(self, m, inner):
        waited = Signal()
        with m.If(inner.o.valid & ~waited):
            m.d.sync += waited.eq(1)
            m.d.comb += [self.o.valid.eq(0), inner.o.ready.eq(0)]
        with m.If(self.o.valid & self.o.ready & self.o.p.last):
            m.d.sync += waited.eq(0)
