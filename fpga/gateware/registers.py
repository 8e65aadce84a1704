"""The registers of `fpga.link.registers`, between a link and the core."""

from struct import iter_unpack

from amaranth.hdl import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.core import core_signature
from accel.machine.config import UNITS, ConfigError
from accel.machine.machine import Machine
from accel.machine.status import COUNTERS
from accel.machine.structure import SHIPPED_STRUCTURE
from fpga.link.identity import encoded
from fpga.link.registers import ADDRESSES, MAGIC, RECORD, REGISTERS, VERSION, WORDS

READ_CYCLES = 3
"""Cycles from an address to its word: select a word among neighbours, a group among these, then
between words, the core's counters and the machine's record, which is in a memory. A register
follows each step, so the words may be anywhere on the chip.
"""

_GROUP = 16


class Registers(wiring.Component):
    """Words for reading and writing, and a run for each new number in ``run``.

    Members
    -------
    addr, r_data : a word address in cycle t, its word in t + `READ_CYCLES`; any beyond the last.
    w_en, w_data : write the word at `addr`; words that are not writable stay.
    core : the core's own signals but for its memory port.
    busy : a run is on.
    interrupt : high while no run is on, if the register of this name says so. From a register.

    Parameters
    ----------
    machine, memory_bytes, clock_hz : the values that registers give for the board.
    """

    def __init__(self, machine: Machine, memory_bytes: int, clock_hz: int):
        if machine.structure != SHIPPED_STRUCTURE:
            raise ConfigError(f"Structure of {machine.config.name} must be the shipped one on a "
                              f"board: its registers have these units by name")
        if machine.config.channels > 1:
            raise ConfigError(f"channels of {machine.config.name} must be 1 on a board, not "
                              f"{machine.config.channels}: there is one memory behind its core")
        self._machine = machine
        self._constants = {"magic": MAGIC, "version": VERSION, "machine": int(machine.hash, 16),
                           "memory_bytes": memory_bytes, "clock_hz": clock_hz}
        core = {name: member for name, member in core_signature(machine).items() if name != "mem"}
        super().__init__({
            "addr": In(range(WORDS)), "r_data": Out(32), "w_en": In(1), "w_data": In(32),
            "core": In(wiring.Signature(core)), "busy": Out(1), "interrupt": Out(1),
        })

    def attach(self, m: Module, core) -> None:
        """Connects `core` to a core."""
        for name, member in self.core.signature.members.items():
            ours, theirs = getattr(self.core, name), getattr(core, name)
            m.d.comb += theirs.eq(ours) if member.flow == Out else ours.eq(theirs)

    def elaborate(self, platform):
        m = Module()
        values = self._values(m)
        words = [Cat(values[register.name], Const(0, 32 * register.words))[32 * i:32 * (i + 1)]
                 for register in REGISTERS if register.name in values
                 for i in range(register.words)]
        groups = [words[first:first + _GROUP] for first in range(0, len(words), _GROUP)]
        chosen = Array(Signal(32, name=f"group{number}", reset_less=True)
                       for number in range(len(groups)))
        for group, target in zip(groups, chosen, strict=True):
            padded = [*group, *[Const(0, 32)] * (_GROUP - len(group))]
            m.d.sync += target.eq(Array(padded)[self.addr[:exact_log2(_GROUP)]])
        group, word = Signal(range(len(groups))), Signal(32, reset_less=True)
        (counter, counted), (record, recorded) = self._counter(m), self._record(m)
        m.d.sync += [
            group.eq(self.addr >> exact_log2(_GROUP)),
            word.eq(chosen[group]),
            self.r_data.eq(Mux(counted, counter, Mux(recorded, record, word))),
        ]
        return m

    def _counter(self, m: Module) -> tuple[Signal, Signal]:
        """The half of a counter at `addr`, and whether one exists there, two cycles later."""
        core, first = self.core, ADDRESSES[COUNTERS[0]]
        upper, there, half, counted = Signal(), Signal(), Signal(32, reset_less=True), Signal()
        place = self.addr - first
        m.d.sync += [
            core.counter.eq(place >> 1), upper.eq(place[0]),
            there.eq((self.addr >= first) & (self.addr < ADDRESSES["record"])),
            half.eq(Mux(upper, core.counter_value[32:], core.counter_value[:32])),
            counted.eq(there),
        ]
        return half, counted

    def _record(self, m: Module) -> tuple[Signal, Signal]:
        """The word of the record at `addr`, and whether one exists there, two cycles later. The
        lower bits of the address index it, so nothing is subtracted.
        """
        turn = ADDRESSES["record"] % RECORD.words
        words = [word for word, in iter_unpack("<I", encoded(self._machine.record))]
        m.submodules.record = kept = memory.Memory(shape=32, depth=RECORD.words,
                                                   init=words[-turn:] + words[:-turn])
        port = kept.read_port()
        there, word, recorded = Signal(), Signal(32, reset_less=True), Signal()
        m.d.comb += port.addr.eq(self.addr)
        m.d.sync += [there.eq(self.addr >= ADDRESSES["record"]),
                     word.eq(port.data), recorded.eq(there)]        # a block RAM's output is late
        return word, recorded

    def _values(self, m: Module) -> dict[str, Value]:
        """The value of each register."""
        core = self.core
        values: dict[str, Value] = {name: Const(value, 256 if name == "machine" else 32)
                                    for name, value in self._constants.items()}
        for register in REGISTERS:
            if register.writable:
                values[register.name] = kept = Signal(register.bits, name=register.name)
                with m.If(self.w_en & (self.addr == ADDRESSES[register.name])):
                    m.d.sync += kept.eq(self.w_data)
        self._runs(m, values)
        m.d.comb += [core.count.eq(values["count"]),
                     *(getattr(core, name).eq(value) for name, value in values.items()
                       if name.startswith("base_"))]
        values |= {
            "status": Cat(core.status, Const(0, 8))[:8] | core.status_unit << 8,
            "index": core.status_index,
            "waiting": Cat(getattr(core, f"{unit}_waiting") for unit in UNITS),
            **{f"waiting_{unit}": getattr(core, f"{unit}_waiting_index") for unit in UNITS},
        }
        return values

    def _runs(self, m: Module, values: dict[str, Value]) -> None:
        """Starts a run for a number other than the last run's, once that run is over."""
        started, done, busy = Signal(32), Signal(32), self.busy
        values["done"] = done
        m.d.comb += self.core.start.eq(~busy & (values["run"] != started))
        with m.If(self.core.start):             # from the next cycle on, `done` is that of this run
            m.d.sync += [started.eq(values["run"]), busy.eq(1)]
        with m.Elif(busy & self.core.done):
            m.d.sync += [done.eq(started), busy.eq(0)]
        m.d.sync += self.interrupt.eq(values["interrupt"] & ~busy)
