"""Runs of the core in Amaranth's simulator, against the memory model."""

from dataclasses import dataclass, field

from amaranth.hdl import Cat

from accel.hw.core import Core
from accel.machine.config import UNITS
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction
from accel.machine.status import COUNTERS, REPORTERS, Counters, Run, Status
from tests.support.amaranth_sim import ready
from tests.support.memory_model import Memory

__all__ = ["Observed", "run_program", "word"]

EVENTS = ("started", "retired")


@dataclass
class Observed:
    """Events of a run, by unit: dictionaries from index to cycle."""

    started: dict = field(default_factory=dict)
    retired: dict = field(default_factory=dict)


def word(machine: Machine, name: str, **fields) -> Instruction:
    """An instruction by name."""
    unit = machine.units[machine.opcodes[name]]
    return Instruction(name, unit, fields)


def observe(ctx, core: Core, observed: Observed, cycle: int) -> None:
    if not ctx.get(Cat(getattr(core, f"{u}_{what}") for u in REPORTERS for what in EVENTS)):
        return
    for unit in REPORTERS:
        for what in EVENTS:
            if ctx.get(getattr(core, f"{unit}_{what}")):
                into = getattr(observed, what)
                index = ctx.get(getattr(core, f"{unit}_{what}_index"))
                assert index not in into, f"instruction {index} {what} twice"
                into[index] = cycle


def counters(ctx, core: Core) -> Counters:
    values = {}
    for number, name in enumerate(COUNTERS):
        ctx.set(core.counter, number)
        values[name] = ctx.get(core.counter_value)
    return Counters.of(values)


def run_program(machine: Machine, programs: list[AccelProgram], latency=4, stall=lambda: False,
                max_cycles=5_000, memory_bytes=None):
    """Run programs one after the other on one core; a (Run, Observed, Memory) for each.

    Every program has its own memory image at address 0.
    """
    (core, simulation), results = ready(Core, machine), []
    memory = Memory(bytearray(), machine.config.bus_bytes, latency, stall)

    async def testbench(ctx):
        for program in programs:
            image = bytearray(program.image().tobytes())
            memory.data = image + bytearray((memory_bytes or len(image)) - len(image))
            for name, base in program.bases.items():
                ctx.set(getattr(core, f"base_{name}"), base)
            ctx.set(core.count, program.count)
            observed, cycle = Observed(), 0
            ctx.set(core.start, 1)
            while cycle == 0 or not ctx.get(core.done):
                if cycle:
                    observe(ctx, core, observed, cycle)
                await ctx.tick()
                ctx.set(core.start, 0)
                cycle += 1
            waiting = {unit: ctx.get(getattr(core, f"{unit}_waiting_index")) for unit in UNITS
                       if ctx.get(getattr(core, f"{unit}_waiting"))}
            run = Run(Status(ctx.get(core.status)),
                      REPORTERS[ctx.get(core.status_unit)], ctx.get(core.status_index),
                      cycles=cycle, counters=counters(ctx, core), waiting=waiting)
            results.append((run, observed, bytes(memory.data)))

    simulation.run(testbench, processes=[memory.serve(core.mem)], max_cycles=max_cycles)
    return results
