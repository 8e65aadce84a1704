import random

from accel.config import UNITS
from accel.hw.tokens import Tokens
from tests.support.amaranth_sim import simulate

N = len(UNITS)


class Counters:
    """The meaning of `Tokens`: a matrix of counters."""

    def __init__(self):
        self.count = [[0] * N for _ in range(N)]

    def available(self, unit: int) -> int:
        return sum(1 << source for source in range(N) if self.count[source][unit])

    def grants(self, unit: int, signals: int) -> bool:
        return all(self.count[unit][target] < 255 for target in range(N) if signals >> target & 1)

    def step(self, takes: dict[int, int], signals: dict[int, int]):
        granted = {unit: mask for unit, mask in signals.items() if self.grants(unit, mask)}
        for unit, mask in takes.items():
            for source in range(N):
                self.count[source][unit] -= mask >> source & 1
        for unit, mask in granted.items():
            for target in range(N):
                self.count[unit][target] += mask >> target & 1


def run(steps: int, p_take: float, seed: int = 0) -> Counters:
    rng, model, dut = random.Random(seed), Counters(), Tokens()

    async def testbench(ctx):
        for _ in range(steps):
            takes, signals = {}, {}
            for unit, port in enumerate(dut.units):
                waits, wants = rng.randrange(1 << N), rng.randrange(1 << N)
                ctx.set(port.waits, waits)
                ctx.set(port.signals, wants)
                have = ctx.get(port.available)
                assert have == model.available(unit)
                if not waits & ~have and rng.random() < p_take:
                    takes[unit] = waits
                if rng.random() < 0.9:
                    signals[unit] = wants
                ctx.set(port.take, unit in takes)
                ctx.set(port.signal, unit in signals)
            for unit, port in enumerate(dut.units):
                granted = unit in signals and model.grants(unit, signals[unit])
                assert ctx.get(port.signalled) == granted
            assert ctx.get(dut.empty) == (not any(map(any, model.count)))
            await ctx.tick()
            model.step(takes, signals)
    simulate(dut, testbench)
    return model


def test_matches_counters():
    run(400, 0.9)


def test_a_full_counter_waits():
    model = run(800, 0.02)
    assert max(map(max, model.count)) == 255
