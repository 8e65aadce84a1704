"""Bytes over two wires: 8 data bits, no parity, one stop bit."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

MOST_OFF = 0.02         # of a baud rate: both sides together may deviate by half a bit in ten


def divisor(clock_hz: int, baud: int) -> int:
    """The cycles of a bit. Refuses rates that the clock cannot keep."""
    cycles = round(clock_hz / baud)
    if cycles < 4 or abs(clock_hz / cycles / baud - 1) > MOST_OFF:
        raise ValueError(f"Baud rate must be one that {clock_hz} Hz divided by at least 4 comes "
                         f"within {MOST_OFF:.0%} of, not {baud}")
    return cycles


class Uart(wiring.Component):
    """Sends and receives. A received byte is offered for one cycle: a line cannot wait. A byte
    whose stop bit is missing is not offered.

    Members
    -------
    rx, tx : the lines, high when idle. `rx` may change at any time.
    received, sent : bytes; of `received`, `ready` is ignored.
    """

    def __init__(self, cycles: int):
        self._cycles = cycles
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1),
                          "received": Out(stream.Signature(8, always_ready=True)),
                          "sent": In(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        self._receive(m)
        self._send(m)
        return m

    def _receive(self, m: Module) -> None:
        line = Signal(init=1)
        m.submodules.sync = FFSynchronizer(self.rx, line, init=1)
        timer, bits, left = Signal(range(self._cycles)), Signal(9), Signal(range(11))
        m.d.sync += self.received.valid.eq(0)
        with m.If(left == 0):
            with m.If(~line):               # look again in the middle of the start bit
                m.d.sync += [left.eq(10), timer.eq(self._cycles // 2)]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [timer.eq(self._cycles - 1), left.eq(left - 1),
                         bits.eq(Cat(bits[1:], line))]
            with m.If((left == 10) & line):                         # it was a glitch
                m.d.sync += left.eq(0)
            with m.If(left == 1):                                   # the stop bit
                m.d.sync += [self.received.payload.eq(bits[1:]), self.received.valid.eq(line)]

    def _send(self, m: Module) -> None:
        timer, bits, left = Signal(range(self._cycles)), Signal(9, init=1), Signal(range(11))
        m.d.comb += self.sent.ready.eq((left == 0) & (timer == 0))
        with m.If(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Elif(left != 0):
            m.d.sync += [self.tx.eq(bits[0]), bits.eq(Cat(bits[1:], 1)), left.eq(left - 1),
                         timer.eq(self._cycles - 1)]
        with m.Elif(self.sent.valid):
            m.d.sync += [self.tx.eq(0), bits.eq(Cat(self.sent.payload, 1)), left.eq(9),
                         timer.eq(self._cycles - 1)]
