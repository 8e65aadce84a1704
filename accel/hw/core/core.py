"""The core: five units, their queues, tokens and buffers, one memory port."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.hw.compute.acc import Acc
from accel.hw.moving.arbiter import Arbiter
from accel.hw.core.commands import CommandQueue
from accel.hw.core.control import Control
from accel.hw.core.counters import COUNTER_BITS, Counters
from accel.hw.core.fetch import Fetch
from accel.hw.compute.gemm import Gemm
from accel.hw.interface import INDEX_BITS, memory_port
from accel.hw.moving.load import Load
from accel.hw.parts import registered
from accel.hw.moving.scratchpad import InputScratchpad, OutputScratchpad, TableScratchpad
from accel.hw.moving.store import Store
from accel.hw.core.tokens import Tokens
from accel.hw.vector import Vector
from accel.machine.config import UNITS
from accel.machine.isa import BASES
from accel.machine.machine import Machine
from accel.machine.status import CLIENTS, COUNTERS, REPORTERS, Status


def core_signature(machine: Machine) -> dict:
    """Members of `Core`."""
    members = {
        "start": In(1), "count": In(INDEX_BITS), **{f"base_{name}": In(32) for name in BASES},
        "mem": Out(memory_port(machine.config)),
        "done": Out(1), "status": Out(Status), "status_unit": Out(8),
        "status_index": Out(INDEX_BITS),
    }
    for unit in REPORTERS:
        members |= {f"{unit}_started": Out(1), f"{unit}_started_index": Out(INDEX_BITS),
                    f"{unit}_retired": Out(1), f"{unit}_retired_index": Out(INDEX_BITS)}
    for unit in UNITS:
        members |= {f"{unit}_waiting": Out(1), f"{unit}_waiting_index": Out(INDEX_BITS)}
    return members | {"counter": In(range(len(COUNTERS))), "counter_value": Out(COUNTER_BITS)}


class Core(wiring.Component):
    """The accelerator without its memory.

    A program runs from a pulse of `start` (cycle 0) until `done` rises. `start` is ignored in
    between; after `done` it begins anew, with counters, queues, tokens and status cleared (the
    buffers keep their bytes). `count` and the bases must not change between `start` and `done`;
    `base_program` is a multiple of 64. Results hold from `done` to the next `start`.

    The first request of fetch is offered to the memory in cycle `request_cycle`; `done` rises
    `end_cycles` after FINISH retires, or later if reads beyond it are still open.

    Members
    -------
    start : pulse.
    count : number of instructions, less than 2**`INDEX_BITS`; fetch never reads beyond.
    base_program, base_weights, base_activations, base_io : base registers, byte addresses.
    mem : the memory port (docs/machine.md).
    done : level.
    status, status_unit, status_index : how it ended; the unit is a code in `REPORTERS`.
    {unit}_started, {unit}_started_index, {unit}_retired, {unit}_retired_index : events, for fetch
        those of FINISH.
    {unit}_waiting, {unit}_waiting_index : after a deadlock, whether the unit waits, and where.
    counter, counter_value : position in `accel.machine.status.COUNTERS`, and what that counter is
        at, in the same cycle. The activities of a unit sum to the cycles from `start` to the one
        before `done`; the `begin_cycles` first ones and the last one count as ``command``. Bytes
        are whole beats.
    """

    def __init__(self, machine: Machine):
        self.machine = machine
        super().__init__(core_signature(machine))

    def elaborate(self, platform):
        m = Module()
        machine, config = self.machine, self.machine.config
        m.submodules.control = control = Control(config.timing)
        fetch, arbiter, tokens = Fetch(machine), Arbiter(config), Tokens(config.timing)
        units = {"load": Load(config), "gemm": Gemm(machine), "vector": Vector(machine),
                 "store": Store(config)}
        queues = {unit: CommandQueue(config) for unit in UNITS}
        for name, part in {"fetch": fetch, "arbiter": arbiter, "tokens": tokens, **units,
                           **{f"queue_{unit}": queue for unit, queue in queues.items()}}.items():
            # A run starts from the state after reset. Each part has a register of its own for it.
            clear = registered(m, platform, control.clear, f"clear_{name}")
            m.submodules[name] = ResetInserter(clear)(part)

        m.d.comb += [
            control.start.eq(self.start), self.done.eq(control.done),
            self.status.eq(control.status), self.status_unit.eq(control.status_unit),
            self.status_index.eq(control.status_index),
        ]
        self._memory(m, fetch, arbiter, units, control)
        self._buffers(m, units)
        self._issue(m, fetch, queues, units, tokens, control)
        self._observe(m, fetch, units, arbiter, control)
        return m

    def _memory(self, m: Module, fetch: Fetch, arbiter: Arbiter, units, control: Control):
        for name, client in (("fetch", fetch), ("load", units["load"]), ("store", units["store"])):
            wiring.connect(m, client.mem, getattr(arbiter, name))
        wiring.connect(m, arbiter.mem, wiring.flipped(self.mem))
        bases = Cat(getattr(self, f"base_{name}") for name in BASES)
        m.d.comb += [
            fetch.base.eq(self.base_program), fetch.count.eq(self.count),
            units["load"].bases.eq(bases), units["store"].bases.eq(bases),
            control.memory_open.eq(arbiter.open != 0),
        ]

    def _buffers(self, m: Module, units):
        readers = {"inp": "gemm", "wgt": "gemm", "res": "vector", "par": "vector"}
        config = self.machine.config
        seen = config.buffers | config.parts            # by the unit that reads or writes entries
        for name, reader in readers.items():
            m.submodules[name] = buffer = InputScratchpad(config, seen[name])
            wiring.connect(m, getattr(units["load"], name), buffer.write)
            wiring.connect(m, getattr(units[reader], name), buffer.read)
        if ports := units["vector"].lookups:            # else nothing reads what is loaded
            m.submodules.tab = tab = TableScratchpad(config, ports)
            wiring.connect(m, units["load"].tab, tab.write)
            wiring.connect(m, units["vector"].tab, tab.read)
        m.submodules.out = out = OutputScratchpad(config, seen["out"])
        wiring.connect(m, units["vector"].out, out.write)
        wiring.connect(m, units["store"].out, out.read)
        m.submodules.acc = acc = Acc(self.machine)
        wiring.connect(m, units["gemm"].acc, acc.gemm)
        wiring.connect(m, units["vector"].acc, acc.vector)

    def _issue(self, m: Module, fetch: Fetch, queues, units, tokens: Tokens, control: Control):
        """Connects fetch to queues to units, their tokens, and their reports to control."""
        m.d.comb += [
            fetch.run.eq(control.fetching),
            fetch.tokens_empty.eq(tokens.empty), control.fetch_blocked.eq(fetch.blocked),
            control.fetch_index.eq(fetch.index), control.finished.eq(fetch.retired),
        ]
        m.d.sync += fetch.quiet.eq(Cat(units[u].idle & ~queues[u].some for u in UNITS).all())
        for code, unit in enumerate(UNITS):
            part, port, queue = units[unit], tokens.units[code], queues[unit]
            seen = control.units[code]
            wiring.connect(m, getattr(fetch, unit), queue.i)
            wiring.connect(m, queue.o, part.commands)
            m.d.comb += [
                part.halt.eq(control.halt), part.available.eq(port.available),
                part.signalled.eq(port.signalled), part.refused.eq(port.refused),
                *(getattr(port, name).eq(getattr(part, name))
                  for name in ("waits", "take", "signals", "signal")),
                seen.idle.eq(part.idle), seen.queued.eq(queue.some),
                seen.blocked.eq(part.blocked), seen.blocked_index.eq(part.blocked_index),
            ]
        for code, part in enumerate((*(units[unit] for unit in UNITS), fetch)):
            m.d.comb += [
                control.errors[code].error.eq(part.error),
                control.errors[code].index.eq(part.error_index),
                control.errors[code].status.eq(part.error_status),
            ]

    def _observe(self, m: Module, fetch: Fetch, units, arbiter: Arbiter, control: Control):
        """Events and counters."""
        m.submodules.counters = counters = Counters(self.machine.config)
        for unit, part in (units | {"fetch": fetch}).items():
            for name in ("started", "started_index", "retired", "retired_index"):
                m.d.comb += getattr(self, f"{unit}_{name}").eq(getattr(part, name))
        for code, unit in enumerate(UNITS):
            m.d.comb += [
                getattr(self, f"{unit}_waiting").eq(control.waiting[code]),
                getattr(self, f"{unit}_waiting_index").eq(units[unit].blocked_index),
                getattr(counters, f"activity_{unit}").eq(units[unit].activity),
            ]
        m.d.comb += [counters.clear.eq(control.clear), counters.count.eq(control.running)]
        m.d.comb += [getattr(counters, f"moved_{client}").eq(getattr(arbiter, f"moved_{client}"))
                     for client in CLIENTS]
        m.d.comb += [counters.number.eq(self.counter), self.counter_value.eq(counters.value)]
