import random

from accel.hw.core.tokens import Tokens
from accel.machine.config import UNITS
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import simulate

N = len(UNITS)


def places(mask: int) -> list[int]:
    return [unit for unit in range(N) if mask >> unit & 1]


class Counters:
    """The meaning of `Tokens`: a matrix of counters, and for each unit what it asks for."""

    def __init__(self):
        self.count = [[0] * N for _ in range(N)]
        self.taken = [0] * N                    # in the cycle before
        self.answer: list[bool | None] = [None] * N

    def available(self, unit: int) -> int:
        return sum(1 << source for source in range(N) if self.count[source][unit])

    def step(self, takes: list[int], asked: list[int | None]):
        granted = [asked[unit] if self.answer[unit] else None for unit in range(N)]
        self.answer = [None if mask is None or granted[unit] is not None else
                       all(self.count[unit][target] < 255 for target in places(mask))
                       for unit, mask in enumerate(asked)]
        for unit in range(N):
            for source in places(self.taken[unit]):
                self.count[source][unit] -= 1
            for target in places(granted[unit] or 0):
                self.count[unit][target] += 1
        self.taken = takes


def run(steps: int, p_take: float, seed: int = 0) -> tuple[Counters, int]:
    rng, model, dut = random.Random(seed), Counters(), Tokens(TIMING)
    asked: list[int | None] = [None] * N
    refusals = 0

    async def testbench(ctx):
        nonlocal refusals
        for _ in range(steps):
            takes = [0] * N
            for unit, port in enumerate(dut.units):
                if asked[unit] is None and rng.random() < 0.9:
                    asked[unit] = rng.randrange(1 << N)
                waits = rng.randrange(1 << N)
                ctx.set(port.waits, waits)
                ctx.set(port.signals, asked[unit] or 0)
                ctx.set(port.signal, asked[unit] is not None)
                have = ctx.get(port.available)
                assert have == model.available(unit)
                # A unit takes again two cycles later at the earliest.
                if not model.taken[unit] and not waits & ~have and rng.random() < p_take:
                    takes[unit] = waits
                ctx.set(port.take, takes[unit] != 0)
                assert ctx.get(port.signalled) == (model.answer[unit] is True)
                assert ctx.get(port.refused) == (model.answer[unit] is False)
                refusals += model.answer[unit] is False
            assert ctx.get(dut.empty) == (not any(map(any, model.count)))
            answers = list(model.answer)
            await ctx.tick()
            model.step(takes, asked)
            for unit in range(N):
                if answers[unit]:
                    asked[unit] = None
    simulate(dut, testbench)
    return model, refusals


def test_matches_counters():
    run(600, 0.9)


def test_a_full_counter_waits():
    model, refusals = run(1600, 0.02)
    assert max(map(max, model.count)) == 255 and refusals > 100
