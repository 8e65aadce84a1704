"""First-in first-out queues, and counts whose bounds are known early."""

from amaranth.hdl import *
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.parts import ECP5, delayed


def tally(m: Module, name: str, limit: int, up: Value,
          down: Value) -> tuple[Signal, Signal, Signal]:
    """A count of `up` less `down`, and whether it is above zero, and at its limit: registers all.

    `up` must not come at the limit nor `down` at zero, except both together.
    """
    count = Signal(range(limit + 1), name=f"{name}_count")
    some, full = Signal(name=f"{name}_some"), Signal(name=f"{name}_full")
    with m.If(up & ~down):
        m.d.sync += [count.eq(count + 1), some.eq(1), full.eq(count == limit - 1)]
    with m.Elif(down & ~up):
        m.d.sync += [count.eq(count - 1), some.eq(count != 1), full.eq(0)]
    return count, some, full


class Queue(wiring.Component):
    """Keeps the order and the shape of what passes through it, in distributed RAM.

    What is accepted in cycle t is offered in t + `latency`, from two on from an output register.
    One item a cycle, as long as the queue is neither full nor empty; with a pause, one in two
    cycles. `i.ready` and `o.valid` are registers.

    Parameters
    ----------
    shape : of the payload.
    depth : items that fit, that in the output register included; a power of two.
    latency : cycles through the empty queue; with a pause at least two.
    pause : offer nothing in the cycle after an item has left, but still show it: then what takes
        it, which may come late, does not have to enable a wide register in time.

    Members
    -------
    i, o : streams.
    some : there are items inside.
    """

    def __init__(self, shape, depth: int, latency: int = 1, pause: bool = False):
        if depth < 1 or depth & (depth - 1):
            raise ValueError(f"Depth of a queue must be a power of two, not {depth!r}")
        assert latency > pause
        self.shape, self.depth = shape, depth
        self.latency, self.pause = latency, pause
        self.width = Shape.cast(shape).width
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "some": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = storage = memory.Memory(
            shape=self.shape, depth=self.depth, init=[], attrs={"ram_style": "distributed"})
        w_port, r_port = storage.write_port(), storage.read_port(domain="comb")
        tail, head = Signal(exact_log2(self.depth)), Signal(exact_log2(self.depth))
        push, pop = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        _, some, full = tally(m, "items", self.depth, push, pop)

        m.d.comb += [
            self.some.eq(some), self.i.ready.eq(~full),
            w_port.addr.eq(tail), w_port.data.eq(self.i.payload),
            # What is not pushed is overwritten. A wide memory's enable as late as `push` is slow.
            w_port.en.eq(~full if isinstance(platform, ECP5) else push),
            r_port.addr.eq(head),
        ]
        with m.If(push):
            m.d.sync += tail.eq(tail + 1)
        if self.latency == 1:
            m.d.comb += [self.o.valid.eq(some), self.o.payload.eq(r_port.data)]
            with m.If(pop):
                m.d.sync += head.eq(head + 1)
            return m

        move, output = Signal(), Signal(self.width, name="output", reset_less=True)
        _, stored, _ = tally(m, "stored", self.depth,
                             delayed(m, push, self.latency - 2, "pushed"), move)
        free = ~self.o.valid if self.pause else ~self.o.valid | self.o.ready
        m.d.comb += [move.eq(stored & free), Value.cast(self.o.payload).eq(output)]
        with m.If(free):
            m.d.sync += [self.o.valid.eq(stored), output.eq(r_port.data)]
        if self.pause:
            with m.Elif(self.o.ready):
                m.d.sync += self.o.valid.eq(0)
        with m.If(move):
            m.d.sync += head.eq(head + 1)
        return m


def relay(shape, cycles: int) -> "Relay | Queue":
    """A relay of so many cycles, with room for two to the power of them."""
    return Relay(shape) if cycles == 1 else Queue(shape, 1 << cycles, cycles)


class Relay(wiring.Component):
    """Two registers that cut every path between a sender and a receiver. Latency 1, one item a
    cycle; `i.ready`, `o.valid` and the payload are registers.

    Members
    -------
    i, o : streams.
    some : there are items inside.
    """

    def __init__(self, shape):
        self.shape, self.width = shape, Shape.cast(shape).width
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "some": Out(1)})

    def elaborate(self, platform):
        m = Module()
        output, spare = (Signal(self.width, name=name, reset_less=True)
                         for name in ("output", "spare"))
        held = Signal()             # something is in the spare register
        m.d.comb += [self.i.ready.eq(~held), self.some.eq(self.o.valid),
                     Value.cast(self.o.payload).eq(output)]
        with m.If(~held):
            m.d.sync += spare.eq(self.i.payload)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [self.o.valid.eq(held | self.i.valid), held.eq(0),
                         output.eq(Mux(held, spare, self.i.payload))]
        with m.Else():
            m.d.sync += held.eq(held | self.i.valid)
        return m
