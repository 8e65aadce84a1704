"""A stream unit on its own: its queue, tokens and buffers played by a testbench."""

import random
from collections import deque
from collections.abc import Sequence

import numpy as np

from accel.hw.stream.unit import StreamUnit
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.status import Status
from accel.proof.access import touches
from accel.sim.meaning.units import Buffers, perform
from tests.support.amaranth_sim import ready

STEP = 7
"""Positions between two instructions of the bench."""


class StreamBench:
    """Runs instructions on a unit, and keeps what came of it; cycles count from the first one.

    `refuse` is the probability that a token, a signal or the next command does not come in a cycle.
    """

    def __init__(self, machine: Machine, unit: str, instructions: Sequence[Instruction],
                 seed: int = 0, refuse: float = 0.0):
        self.machine, self.unit = machine, machine.structure.unit(unit)
        self.random, self.refuse = random.Random(seed), refuse
        self.buffers = Buffers(machine.config)
        generator = np.random.default_rng(seed)
        for raw in self.buffers.raw.values():
            raw[:] = generator.integers(0, 256, raw.size, np.uint8)
        self.queue = deque((STEP * number, one.encode(machine))
                           for number, one in enumerate(instructions))
        self.count = len(self.queue)
        self.started: dict[int, int] = {}
        self.retired: dict[int, int] = {}
        self.taken: list[int] = []
        self.errors: list[tuple[int, str]] = []
        self.writes: list[tuple[int, int]] = []
        self.activity: list[str] = []
        self._read = {name: deque([0] * machine.config.timing.read_cycles)
                      for name in self.unit.reads}
        self._offered, self._paused, self._asks = False, False, False

    def run(self, max_cycles: int = 20_000) -> "StreamBench":
        self.dut, simulation = ready(StreamUnit, self.machine, self.unit.name)
        simulation.run(self._run, max_cycles=max_cycles)
        return self

    def _yes(self) -> bool:
        return self.random.random() >= self.refuse

    async def _run(self, ctx):
        dut, cycle = self.dut, 0
        while len(self.retired) < self.count:
            self._offer(ctx)
            ctx.set(dut.available, (1 << len(dut.available)) - 1 if self._yes() else 0)
            ctx.set(dut.signalled, self._asks and (fits := self._yes()))
            ctx.set(dut.refused, self._asks and not fits)
            for name, data in self._read.items():
                ctx.set(getattr(dut, name).data, data[0])
            self._see(ctx, cycle)
            self._move(ctx, cycle)
            await ctx.tick()
            cycle += 1
        assert ctx.get(dut.idle)

    def _offer(self, ctx):
        """The next command comes two cycles after one that was taken; it is shown till then."""
        self._offered = bool(self.queue) and not self._paused and (self._offered or self._yes())
        self._paused = False
        ctx.set(self.dut.commands.valid, self._offered)
        if self._offered:
            index, word = self.queue[0]
            ctx.set(self.dut.commands.payload, {"index": index, "word": word})

    def _see(self, ctx, cycle: int):
        dut = self.dut
        if ctx.get(dut.take):
            self.queue.popleft()
            self._offered, self._paused = False, True
            self.taken.append(cycle)
        if ctx.get(dut.started):
            self.started[ctx.get(dut.started_index) // STEP] = cycle
        if ctx.get(dut.retired):
            self.retired[ctx.get(dut.retired_index) // STEP] = cycle
        if ctx.get(dut.error):
            self.errors.append((ctx.get(dut.error_index) // STEP,
                                Status(ctx.get(dut.error_status)).name))
        self._asks = bool(ctx.get(dut.signal)) and not ctx.get(dut.signalled)
        activity = ctx.get(dut.activity)
        assert activity.bit_count() == 1
        self.activity.append(self.machine.structure.activities[activity.bit_length() - 1])

    def _move(self, ctx, cycle: int):
        for name, data in self._read.items():
            port = getattr(self.dut, name)
            entry = self._raw(name)[ctx.get(port.addr)].tobytes() if ctx.get(port.en) else (
                self.random.randbytes(self.machine.config.buffers[name].entry_bytes))
            data.popleft()
            data.append(int.from_bytes(entry, "little"))
        (name,) = self.unit.writes
        port = getattr(self.dut, name)
        if ctx.get(port.w_en):
            place, raw = ctx.get(port.w_addr), self._raw(name)
            raw[place] = np.frombuffer(ctx.get(port.w_data).to_bytes(raw.shape[1], "little"),
                                       np.uint8)
            self.writes.append((cycle, place))

    def _raw(self, name: str) -> np.ndarray:
        return self.buffers.raw[name].reshape(-1, self.machine.config.buffers[name].entry_bytes)


def assert_means(machine: Machine, unit: str, instructions: Sequence[Instruction], seed: int = 0,
                 refuse: float = 0.0) -> StreamBench:
    """Hardware and meaning leave the same results; every instruction ran in order, in peace."""
    bench = StreamBench(machine, unit, instructions, seed, refuse)
    expected = Buffers(machine.config)
    for name, raw in bench.buffers.raw.items():
        expected.raw[name][:] = raw
    for one in instructions:
        perform(machine, expected, np.zeros(0, np.uint8), {}, one, touches(machine, one))
    bench.run()
    for name, raw in expected.raw.items():
        assert np.array_equal(bench.buffers.raw[name], raw), name
    assert bench.errors == []
    assert [*bench.started] == [*bench.retired] == [*range(len(instructions))]
    return bench
