"""A first-in first-out queue in distributed RAM."""

from amaranth.hdl import *
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

__all__ = ["Queue"]


class Queue(wiring.Component):
    """Keeps the order and the shape of what passes through it.

    Latency 1: what is accepted in cycle t is offered in t + 1. One item a cycle, as long as the
    queue is neither full nor empty. `i.ready` and `o.valid` are functions of registers.

    Parameters
    ----------
    shape : of the payload.
    depth : items that fit; a power of two.

    Members
    -------
    i, o : streams.
    level : items inside.
    """

    def __init__(self, shape, depth: int):
        if depth < 1 or depth & (depth - 1):
            raise ValueError(f"Depth of a queue must be a power of two, not {depth!r}")
        self.shape, self.depth = shape, depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "level": Out(range(depth + 1))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = storage = memory.Memory(shape=self.shape, depth=self.depth, init=[])
        w_port, r_port = storage.write_port(), storage.read_port(domain="comb")
        tail, head = Signal(exact_log2(self.depth)), Signal(exact_log2(self.depth))
        push, pop = self.i.valid & self.i.ready, self.o.valid & self.o.ready

        m.d.comb += [
            self.i.ready.eq(self.level != self.depth),
            w_port.addr.eq(tail), w_port.data.eq(self.i.payload), w_port.en.eq(push),
            self.o.valid.eq(self.level != 0),
            r_port.addr.eq(head), self.o.payload.eq(r_port.data),
        ]
        m.d.sync += [self.level.eq(self.level + push - pop),
                     tail.eq(tail + push), head.eq(head + pop)]
        return m
