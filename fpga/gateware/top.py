"""Core, registers and host link around one memory: what every board has in common."""

from dataclasses import replace

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.hw.core import Core
from accel.hw.interface import memory_port
from accel.hw.queue import Relay
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from fpga.gateware.link import LinkServer
from fpga.gateware.registers import Registers
from fpga.gateware.uart import Uart, divisor

RELAY_CYCLES, RELAY_ITEMS = 1, 2        # of a `Relay`: its latency, and what it holds


def relayed(dram: Dram) -> Dram:
    """A memory as the core has it: requests and beats pass a `Relay` each."""
    return replace(dram, latency=dram.latency + 2 * RELAY_CYCLES,
                   outstanding=dram.outstanding + RELAY_ITEMS)


class Accelerator(wiring.Component):
    """Everything but the memory.

    While a run is on, the memory port is the core's; the link has it otherwise. All its signals are
    registered, so that no path of the core continues in the memory.

    Members
    -------
    rx, tx : the serial line.
    mem : the memory.
    busy, starts : a run is on; a run is on from the next cycle.

    Parameters
    ----------
    machine : the machine of the core.
    memory_bytes : the size of the memory behind `mem`.
    clock_hz, baud : the clock of the core, which everything shares, and the rate of the line.
    core : another elaboratable with the signals of `accel.hw.core.Core`.
    """

    def __init__(self, machine: Machine, memory_bytes: int, clock_hz: int, baud: int, core=None):
        self.machine = machine
        self._core = core or Core(machine)
        self._registers = Registers(machine, memory_bytes, clock_hz)
        self._uart = Uart(divisor(clock_hz, baud))
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1),
                          "mem": Out(memory_port(machine.config)), "busy": Out(1),
                          "starts": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.registers = registers = self._registers
        m.submodules.uart = uart = self._uart
        m.submodules.link = link = LinkServer(self.machine.config)
        m.d.comb += [uart.rx.eq(self.rx), self.tx.eq(uart.tx)]
        wiring.connect(m, uart.received, link.received)
        wiring.connect(m, link.sent, uart.sent)
        m.d.comb += [
            registers.addr.eq(link.addr), link.r_data.eq(registers.r_data),
            registers.w_en.eq(link.w_en), registers.w_data.eq(link.w_data),
            link.busy.eq(registers.busy), self.busy.eq(registers.busy),
            self.starts.eq(registers.core.start),
        ]
        registers.attach(m, core)
        self._share(m, core.mem, link.mem)
        return m

    def _share(self, m: Module, core, link) -> None:
        """Connects the port's streams to its owner. Nothing is in flight when the owner changes."""
        busy = self._registers.busy
        for name in ("request", "wdata"):
            theirs = getattr(self.mem, name)
            m.submodules[name] = relay = Relay(theirs.payload.shape())
            wiring.connect(m, relay.o, wiring.flipped(theirs))
            for client, has in ((core, busy), (link, ~busy)):
                ours = getattr(client, name)
                with m.If(has):
                    m.d.comb += [relay.i.payload.eq(ours.payload), relay.i.valid.eq(ours.valid),
                                 ours.ready.eq(relay.i.ready)]
        m.submodules.rdata = rdata = Relay(self.mem.rdata.payload.shape())
        wiring.connect(m, wiring.flipped(self.mem.rdata), rdata.i)
        ack = Signal.like(self.mem.ack.payload, reset_less=True)
        acked = Signal()
        m.d.sync += [ack.eq(self.mem.ack.payload), acked.eq(self.mem.ack.valid)]
        m.d.comb += self.mem.ack.ready.eq(1)            # so are core and link
        for client, has in ((core, busy), (link, ~busy)):
            m.d.comb += [client.rdata.payload.eq(rdata.o.payload), client.ack.payload.eq(ack)]
            with m.If(has):
                m.d.comb += [client.ack.valid.eq(acked), rdata.o.ready.eq(client.rdata.ready)]
        m.d.comb += [core.rdata.valid.eq(rdata.o.valid),        # between runs it requests nothing
                     link.rdata.valid.eq(rdata.o.valid & ~busy)]
