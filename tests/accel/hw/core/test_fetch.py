# amaranth: UnusedElaboratable=no
import random
from dataclasses import replace

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring

from accel.hw.moving.arbiter import Arbiter
from accel.hw.core.fetch import Fetch
from accel.hw.parts import ECP5
from accel.machine.config import UNITS, preset
from accel.machine.machine import FINISH, Machine
from accel.machine.status import Status
from accel.machine.timing import TIMING
from tests.accel.hw.test_parts import Platformed
from tests.support.amaranth_sim import ready, stalls
from tests.support.memory_model import Memory
from tests.support.slow_cases import each_once

MACHINES = {n: Machine(replace(preset("tiny-1x4x4"), bus_bytes=n)) for n in (4, 16, 64)}
BASE = 128


class Bench(Elaboratable):
    """Fetch, with its memory port through the arbiter."""

    def __init__(self, machine: Machine, platform=None):
        self.fetch, self.arbiter = Fetch(machine), Arbiter(machine.config)
        self.platform = platform

    def elaborate(self, _):
        m = Module()
        m.submodules.fetch = Platformed(self.fetch, self.platform)
        m.submodules.arbiter = self.arbiter
        wiring.connect(m, self.fetch.mem, self.arbiter.fetch)
        m.d.comb += [self.fetch.run.eq(1), self.fetch.base.eq(BASE)]
        return m


def words(machine: Machine, count: int) -> list[int]:
    """Random instructions, and FINISH."""
    rng = random.Random(count)
    opcodes = [op for op in machine.units if op != FINISH]
    return [rng.getrandbits(504) << 8 | rng.choice(opcodes) for _ in range(count)] + [FINISH]


def image(program: list[int]) -> bytearray:
    return bytearray(BASE) + b"".join(word.to_bytes(64, "little") for word in program)


def run(machine, program, latency=3, stall=0.0, quiet_after=0, tokens_empty=1, data=None,
        full_until=0, platform=None):
    """Serve until FINISH retires or an error; what each unit got, with the cycles, and events.
    Before `full_until` the queues take nothing.
    """
    bench, simulation = ready(Bench, machine, platform)
    fetch = bench.fetch
    memory = Memory(data or image(program), machine.config.bus_bytes, latency, stalls(1, stall))
    got, events, hold = [], {}, stalls(2, stall)
    rows = {unit: [0] * (64 // machine.config.bus_bytes) for unit in UNITS}     # as queues do
    places = dict.fromkeys(UNITS, -1)

    async def testbench(ctx):
        ctx.set(fetch.count, len(program))
        ctx.set(fetch.tokens_empty, tokens_empty)
        cycle, waited = 0, 0
        while "retired" not in events and "error" not in events:
            for unit in UNITS:
                ctx.set(getattr(fetch, unit).ready, not hold() and cycle >= full_until)
            waited += "started" in events
            ctx.set(fetch.quiet, waited >= quiet_after)
            for name in ("started", "retired", "error"):
                if ctx.get(getattr(fetch, name)):
                    assert name not in events
                    events[name] = (cycle, ctx.get(getattr(fetch, f"{name}_index")))
            events["status"] = ctx.get(fetch.error_status)
            for unit in UNITS:
                port = getattr(fetch, unit)
                for place, written in enumerate(f"{ctx.get(port.lane):b}"[::-1]):
                    if written == "1":
                        rows[unit][place] = ctx.get(port.beat)
                        places[unit] = ctx.get(port.index)
                if ctx.get(port.push & port.ready):
                    word = sum(beat << 8 * machine.config.bus_bytes * place
                               for place, beat in enumerate(rows[unit]))
                    got.append((cycle, unit, places[unit], word))
            await ctx.tick()
            cycle += 1
    simulation.run(testbench, processes=[memory.serve(bench.arbiter.mem)], max_cycles=4000)
    return got, events, memory


@each_once("platform, stall, bus_bytes", (None, ECP5()), (0.5, 0), (4, 16, 64))
def test_hands_the_program_on_in_order(platform, stall, bus_bytes):
    machine = MACHINES[bus_bytes]
    program = words(machine, 30)
    got, events, memory = run(machine, program, 3, stall, platform=platform)
    assert [(index, word) for *_, index, word in got] == list(enumerate(program))[:-1]
    assert [unit for _, unit, *_ in got] == [machine.units[word & 255] for word in program[:-1]]
    assert events["retired"][1] == 30
    assert sum(beats for *_, beats in memory.log) == 31 * 64 // bus_bytes


@pytest.mark.parametrize("bus_bytes", MACHINES)
def test_rate_and_latency(bus_bytes):
    machine = MACHINES[bus_bytes]
    got, _, memory = run(machine, words(machine, 20), latency=0)
    beats = 64 // bus_bytes
    assert memory.log[0][0] == 2                # offered to the arbiter in the second cycle
    last_beat = memory.moved[beats - 1][0]
    cycles = [cycle for cycle, *_ in got]
    assert cycles[0] == last_beat + 3
    assert cycles == list(range(cycles[0], cycles[0] + 20 * (beats + 1), beats + 1))


def test_prefetches():
    machine = MACHINES[4]
    _, _, memory = run(machine, words(machine, 20), latency=100)
    first = [cycle for cycle, *_ in memory.log[:TIMING.prefetch]]
    assert first == list(range(2, TIMING.prefetch + 2))
    assert memory.log[TIMING.prefetch][0] > memory.moved[0][0]


@pytest.mark.parametrize("bus_bytes", MACHINES)
def test_has_room_for_all_that_it_requests(bus_bytes):
    machine = MACHINES[bus_bytes]
    program = words(machine, 20)
    got, _, memory = run(machine, program, full_until=300)
    assert [word for *_, word in got] == program[:-1]
    before = [cycle for cycle, *_ in memory.moved if cycle < 300]
    assert len(before) == (TIMING.prefetch + 1) * 64 // bus_bytes          # and the word at hand


def test_finish_waits_until_all_is_quiet():
    machine = MACHINES[4]
    _, events, _ = run(machine, words(machine, 2), quiet_after=9)
    assert events["retired"] == (events["started"][0] + 9, 2)


def test_finish_with_tokens_left():
    machine = MACHINES[4]
    _, events, _ = run(machine, words(machine, 2), tokens_empty=0)
    assert events["error"][1] == 2 and events["status"] == Status.TOKENS_LEFT


@pytest.mark.parametrize("opcode", [0, 255])
def test_unknown_opcode(opcode):
    machine = MACHINES[16]
    program = words(machine, 5)
    program[3] = opcode
    got, events, _ = run(machine, program)
    assert [index for *_, index, _ in got] == [0, 1, 2]
    assert events["error"][1] == 3 and events["status"] == Status.ILLEGAL


def test_bus_error():
    machine = MACHINES[16]
    program = words(machine, 5)
    got, events, _ = run(machine, program, data=image(program)[:-3 * 64])
    assert [index for *_, index, _ in got] == [0, 1, 2]
    assert events["error"][1] == 3 and events["status"] == Status.BUS
