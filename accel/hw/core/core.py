"""The core: fetch, and the units and buffers of the machine's structure, around memory ports."""

from collections.abc import Mapping

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.hw.compute.acc import Acc
from accel.hw.moving.arbiter import Arbiter
from accel.hw.moving.channels import Channels
from accel.hw.core.commands import CommandQueue
from accel.hw.core.control import Control
from accel.hw.core.counters import COUNTER_BITS, Counters
from accel.hw.core.fetch import Fetch
from accel.hw.compute.gemm import Gemm
from accel.hw.interface import INDEX_BITS, WATCHED, memory_port
from accel.hw.moving.load import Load
from accel.hw.parts import registered
from accel.hw.moving.shared import Shared
from accel.hw.moving.scratchpad import InputScratchpad, OutputScratchpad, TableScratchpad
from accel.hw.moving.store import Store
from accel.hw.core.tokens import Tokens
from accel.hw.stream.unit import StreamUnit
from accel.hw.vector import Vector
from accel.machine.isa import BASES
from accel.machine.machine import Machine
from accel.machine.status import Status
from accel.machine.structure import FETCH, BufferRecord, Unit, UnitKind


def made(machine: Machine, unit: Unit) -> wiring.Component:
    """The hardware of a unit, by its kind."""
    match unit.kind:
        case UnitKind.LOAD: return Load(machine.config, unit.name)
        case UnitKind.STORE: return Store(machine.config, unit.name)
        case UnitKind.GEMM: return Gemm(machine, unit.name)
        case UnitKind.VECTOR: return Vector(machine, unit.name)
        case UnitKind.STREAM: return StreamUnit(machine, unit.name)


def core_signature(machine: Machine, watched: bool = False) -> dict:
    """Members of `Core`."""
    structure = machine.structure
    members = {
        "start": In(1), "count": In(INDEX_BITS), **{f"base_{name}": In(32) for name in BASES},
        **{port: Out(memory_port(machine.config)) for port in machine.config.memory_ports},
        "done": Out(1), "status": Out(Status), "status_unit": Out(8),
        "status_index": Out(INDEX_BITS),
    }
    for unit in structure.reporters:
        members |= {f"{unit}_started": Out(1), f"{unit}_started_index": Out(INDEX_BITS),
                    f"{unit}_retired": Out(1), f"{unit}_retired_index": Out(INDEX_BITS)}
    for unit in structure.names:
        members |= {f"{unit}_waiting": Out(1), f"{unit}_waiting_index": Out(INDEX_BITS)}
        if watched:
            members |= {f"{unit}_activity": Out(len(structure.activities)),
                        f"{unit}_watched": Out(WATCHED.size)}
    return members | {"counter": In(range(len(structure.counters))),
                      "counter_value": Out(COUNTER_BITS)}


class Core(wiring.Component):
    """The accelerator without its memory.

    A program runs from a pulse of `start` (cycle 0) until `done` rises. `start` is ignored in
    between; after `done` it begins anew, with counters, queues, tokens and status cleared (the
    buffers keep their bytes). `count` and the bases must not change between `start` and `done`;
    `base_program` is a multiple of 64, and so is `base_activations` where there is a shared
    scratchpad (`Shared`). Results hold from `done` to the next `start`.

    The first request of fetch is offered to the memory in cycle `request_cycle`; `done` rises
    `end_cycles` after FINISH retires, or later if reads beyond it are still open.

    Members
    -------
    start : pulse.
    count : number of instructions, less than 2**`INDEX_BITS`; fetch never reads beyond.
    base_program, base_weights, base_activations, base_io : base registers, byte addresses.
    mem : the memory port (docs/machine.md); with several channels `mem0` and so on.
    done : level.
    status, status_unit, status_index : how it ended; the unit is a code in `Structure.reporters`.
    {unit}_started, {unit}_started_index, {unit}_retired, {unit}_retired_index : events, for fetch
        those of FINISH.
    {unit}_waiting, {unit}_waiting_index : after a deadlock, whether the unit waits, and where.
    counter, counter_value : position in `Structure.counters`, and what that counter is at, in the
        same cycle. The activities of a unit sum to the cycles from `start` to the one
        before `done`; the `begin_cycles` first ones and the last one count as ``command``. Bytes
        are whole beats.
    {unit}_activity, {unit}_watched : only with `watched`, for simulators that record timelines:
        those of the unit (`unit_signature`) in this cycle.
    """

    def __init__(self, machine: Machine, watched: bool = False):
        self.machine, self._watched = machine, watched
        super().__init__(core_signature(machine, watched))

    def elaborate(self, platform):
        m = Module()
        machine, config, structure = self.machine, self.machine.config, self.machine.structure
        m.submodules.control = control = Control(config.timing, structure)
        arbiter = Channels(config) if config.channels > 1 else Arbiter(config)
        fetch, tokens = Fetch(machine), Tokens(config.timing, structure)
        units = {unit.name: made(machine, unit) for unit in structure.units}
        queues = {unit: CommandQueue(config) for unit in units}
        shared = Shared(config) if config.shared_bytes else None
        between = {} if shared is None else {"shared": shared}
        for name, part in {FETCH: fetch, "arbiter": arbiter, **between, "tokens": tokens, **units,
                           **{f"queue_{unit}": queue for unit, queue in queues.items()}}.items():
            # A run starts from the state after reset. Each part has a register of its own for it.
            clear = registered(m, platform, control.clear, f"clear_{name}")
            m.submodules[name] = ResetInserter(clear)(part)

        m.d.comb += [
            control.start.eq(self.start), self.done.eq(control.done),
            self.status.eq(control.status), self.status_unit.eq(control.status_unit),
            self.status_index.eq(control.status_index),
        ]
        self._memory(m, fetch, arbiter, shared, units, control)
        for buffer in structure.buffers:
            self._buffer(m, buffer, units)
        self._issue(m, fetch, queues, units, tokens, control)
        self._observe(m, fetch, units, arbiter, control)
        return m

    def _memory(self, m: Module, fetch: Fetch, arbiter: Arbiter | Channels,
                shared: Shared | None, units, control: Control):
        bases = Cat(getattr(self, f"base_{name}") for name in BASES)
        ports = {client: getattr(arbiter, client) for client in self.machine.structure.clients}
        if shared is not None:
            roles = self.machine.structure.roles
            wiring.connect(m, shared.reader_mem, ports[roles.load])
            wiring.connect(m, shared.writer_mem, ports[roles.store])
            ports |= {roles.load: shared.reader, roles.store: shared.writer}
            m.d.comb += shared.base.eq(self.base_activations)
        for client, port in ports.items():
            part = units.get(client, fetch)
            wiring.connect(m, part.mem, port)
            if client in units:
                m.d.comb += part.bases.eq(bases)
        for port in self.machine.config.memory_ports:
            wiring.connect(m, getattr(arbiter, port), wiring.flipped(getattr(self, port)))
        m.d.comb += [
            fetch.base.eq(self.base_program), fetch.count.eq(self.count),
            control.memory_open.eq(arbiter.open != 0),
        ]

    def _buffer(self, m: Module, buffer: BufferRecord, units: Mapping[str, wiring.Component]):
        """Puts a buffer between the units that write and read it."""
        name, users = buffer.name, self.machine.structure.users(buffer.name)
        if buffer.banks == 2:
            m.submodules[name] = banks = Acc(self.machine, name)
            for unit in users:
                wiring.connect(m, getattr(units[unit.name], name), getattr(banks, unit.name))
            return
        (writer,) = (unit for unit in users if name in unit.writes)
        readers = [unit for unit in users if name in unit.reads
                   and hasattr(units[unit.name], name)]     # a unit without lookups reads no table
        for number, reader in enumerate(readers):
            part = self._between(buffer, writer, reader, units[reader.name])
            m.submodules[f"{name}_{reader.name}" if number else name] = part
            wiring.connect(m, getattr(units[writer.name], name), part.write)
            wiring.connect(m, getattr(units[reader.name], name), part.read)

    def _between(self, buffer: BufferRecord, writer: Unit, reader: Unit,
                 part: wiring.Component) -> wiring.Component:
        """The memory of a buffer as one reader sees it; every reader has a copy of its own."""
        config, name = self.machine.config, buffer.name
        if reader.kind.moves:
            return OutputScratchpad(config, config.seen(writer, name))
        if reader.kind is UnitKind.VECTOR and name in reader.at("table"):
            return TableScratchpad(config, config.seen(reader, name), part.lookups)
        return InputScratchpad(config, config.seen(reader, name))

    def _issue(self, m: Module, fetch: Fetch, queues, units, tokens: Tokens, control: Control):
        """Connects fetch to queues to units, their tokens, and their reports to control."""
        m.d.comb += [
            fetch.run.eq(control.fetching),
            fetch.tokens_empty.eq(tokens.empty), control.fetch_blocked.eq(fetch.blocked),
            control.fetch_index.eq(fetch.index), control.finished.eq(fetch.retired),
        ]
        m.d.sync += fetch.quiet.eq(Cat(units[u].idle & ~queues[u].some for u in units).all())
        for code, (unit, part) in enumerate(units.items()):
            port, queue, seen = tokens.units[code], queues[unit], control.units[code]
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
        for code, part in enumerate((*units.values(), fetch)):
            m.d.comb += [
                control.errors[code].error.eq(part.error),
                control.errors[code].index.eq(part.error_index),
                control.errors[code].status.eq(part.error_status),
            ]

    def _observe(self, m: Module, fetch: Fetch, units, arbiter: Arbiter | Channels,
                 control: Control):
        """Events and counters."""
        m.submodules.counters = counters = Counters(self.machine.config)
        for unit, part in (units | {FETCH: fetch}).items():
            for name in ("started", "started_index", "retired", "retired_index"):
                m.d.comb += getattr(self, f"{unit}_{name}").eq(getattr(part, name))
        for code, (unit, part) in enumerate(units.items()):
            m.d.comb += [
                getattr(self, f"{unit}_waiting").eq(control.waiting[code]),
                getattr(self, f"{unit}_waiting_index").eq(part.blocked_index),
                getattr(counters, f"activity_{unit}").eq(part.activity),
            ]
            if self._watched:
                m.d.comb += [getattr(self, f"{unit}_activity").eq(part.activity),
                             getattr(self, f"{unit}_watched").eq(part.watched)]
        m.d.comb += [counters.clear.eq(control.clear), counters.count.eq(control.running)]
        m.d.comb += [getattr(counters, f"moved_{client}").eq(getattr(arbiter, f"moved_{client}"))
                     for client in self.machine.structure.clients]
        m.d.comb += [counters.number.eq(self.counter), self.counter_value.eq(counters.value)]
