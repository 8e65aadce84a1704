# amaranth: UnusedElaboratable=no
"""ECP5 primitives against the generic forms, cycle by cycle.

The primitives are played by models of what Lattice documents of them: a DP16KD of which port A
writes and port B reads, and a MULT18X18D with its registers.
"""

import random

import pytest
from amaranth.hdl import Cat, Elaboratable, Fragment, Module, Mux, Signal, Value, signed
from amaranth.lib.memory import Memory

from accel.hw import parts
from accel.hw.parts import ECP5, Multiplier, Ram
from tests.support.amaranth_sim import simulate
from tests.support.effort import tries


class Scarce(ECP5):
    shallow_blocks = False


class Platformed(Elaboratable):
    """A component, elaborated for a platform."""

    def __init__(self, part, platform):
        self.part, self.platform = part, platform

    def elaborate(self, _):
        return self.part.elaborate(self.platform)


class Side(Elaboratable):
    """A generic and an ECP5 form with the same inputs."""

    def __init__(self, make, platform):
        self.forms, self.platform = [make(), make()], platform

    def elaborate(self, _):
        m = Module()
        for form, platform in zip(self.forms, (None, self.platform)):
            m.submodules += Platformed(form, platform)
        return m


def port(pins, name, count):
    return Cat(pins[f"{name}{bit}"] for bit in range(count))


def dp16kd(pins):
    width = pins["p_DATA_WIDTH_B"]
    assert pins["p_DATA_WIDTH_A"] == width and pins["p_REGMODE_B"] == "OUTREG"
    low = {36: 5, 18: 4, 9: 3, 4: 2, 2: 1, 1: 0}[width]
    several = width > 9
    m, cells = Module(), Memory(shape=width, depth=1 << 14 - low, init=[])
    m.submodules.cells = cells
    write = cells.write_port(granularity=9 if several else None)
    read, output = cells.read_port(), Signal(width)
    a, b = port(pins, "i_ADA", 14), port(pins, "i_ADB", 14)
    given = Cat(port(pins, "i_DIA", 18), port(pins, "i_DIB", 18))
    enable = a[:width // 9] if several else pins["i_WEA"]
    m.d.comb += [write.addr.eq(a[low:]), write.data.eq(given), write.en.eq(enable),
                 read.addr.eq(b[low:]), read.en.eq(pins["i_CEB"])]
    with m.If(pins["i_OCEB"]):
        m.d.sync += output.eq(read.data)
    out = (Cat(port(pins, "o_DOA", 18), port(pins, "o_DOB", 18)) if width == 36
           else port(pins, "o_DOB", 18))
    m.d.comb += out.eq(output)
    return m


def mult18x18d(pins):
    m = Module()

    def registered(value, shape, name):
        if pins[f"p_REG_{name}_CLK"] == "NONE":
            return value
        register = Signal(shape)
        m.d.sync += register.eq(value)
        return register

    a, b = (registered(port(pins, f"i_{side}", 18).as_signed(), signed(18), f"INPUT{side}")
            for side in "AB")
    product = registered(registered(a * b, signed(36), "PIPELINE"), signed(36), "OUTPUT")
    m.d.comb += port(pins, "o_P", 36).eq(product)
    return m


def ccu2c(pins):
    """Two bits of a carry chain, without injection: LUTs of four inputs, and of A and B for the
    carry that they make."""
    assert pins["p_INJECT1_0"] == pins["p_INJECT1_1"] == "NO"
    m, carry = Module(), pins["i_CIN"]
    for half in range(2):
        table = Value.cast(pins[f"p_INIT{half}"])
        a, b, c, d = (Value.cast(pins[f"i_{name}{half}"])[0] for name in "ABCD")
        propagates = table.bit_select(Cat(a, b, c, d), 1)
        m.d.comb += pins[f"o_S{half}"].eq(propagates ^ carry)
        carry = Mux(propagates, carry, table.bit_select(Cat(a, b), 1))
    m.d.comb += pins["o_COUT"].eq(carry)
    return m


@pytest.fixture(autouse=True)
def primitives(monkeypatch):
    models = {"DP16KD": dp16kd, "MULT18X18D": mult18x18d, "CCU2C": ccu2c}
    monkeypatch.setattr(parts, "Instance", lambda kind, **pins: models[kind](pins))


def compare(make, drive, output, known, platform=None):
    """Both forms get the same; where `known(cycle)` says so, they must show the same."""
    dut = Side(make, platform or ECP5())
    different = []

    async def bench(ctx):
        for cycle in range(tries(300)):
            values = drive(cycle)
            for form in dut.forms:
                for name, value in values.items():
                    ctx.set(getattr(form, name), value)
            a, b = (ctx.get(getattr(form, output)) for form in dut.forms)
            if known(cycle) and a != b:
                different.append((cycle, a, b))
            await ctx.tick()

    simulate(dut, bench)
    assert different == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("platform", [ECP5(), Scarce()], ids=["blocks", "scarce"])
@pytest.mark.parametrize("width, rows, granularity", [
    *((width, rows, granularity) for granularity in (None, 8)
      for width, rows in [(40, 512), (8, 600), (64, 2048), (8, 16384)]),
    *(pytest.param(width, rows, granularity, marks=pytest.mark.slow) for granularity in (None, 8)
      for width, rows in [(64, 16), (72, 1024), (16, 4096), (8, 8192)]),
    pytest.param(512, 16, 32, marks=pytest.mark.slow), (512, 8, 512), (64, 1024, 32),
    (26, 16, None)])
def test_ram(width, rows, granularity, platform):
    rng = random.Random(width + rows)
    written, reads, moves = set(), [], []
    busy = rng.sample(range(rows), 8)
    parts = width // (granularity or width)

    def drive(cycle):
        # Every place is written as a whole first, and read at other times than it is written.
        fresh = [row for row in busy if row not in written]
        w_addr = fresh[0] if fresh else rng.choice(busy)
        w_en = (1 << parts) - 1 if fresh else rng.getrandbits(parts)
        written.add(w_addr)
        r_addr = rng.choice([row for row in busy if row != w_addr])
        r_en = not fresh and rng.random() < 0.9
        reads.append(r_en)
        moves.append(rng.random() < 0.7)
        return {"w_addr": w_addr, "w_data": rng.getrandbits(width), "w_en": w_en,
                "r_addr": r_addr, "r_en": r_en, "r_move": moves[-1]}

    def known(cycle):
        """The row that was shown last is that of an address that was given."""
        last = max((at for at in range(1, cycle) if moves[at]), default=0)
        return last > 0 and reads[last - 1]

    compare(lambda: Ram(width, rows, granularity, shallow=True), drive, "r_data", known,
            platform=platform)


@pytest.mark.parametrize("a_bits, b_bits, latency, soft", [
    (8, 8, 2, False), (8, 8, 3, False), (8, 8, 3, True), (18, 17, 2, False), (33, 17, 3, False),
    (19, 18, 3, False), (9, 5, 3, True), (3, 2, 3, True),
    (12, 11, 3, True)])
def test_multiplier(a_bits, b_bits, latency, soft):
    rng = random.Random(a_bits)

    def number(bits):
        ends = (-1 << bits - 1, (1 << bits - 1) - 1, -1, 0)
        return rng.choice((rng.randrange(-1 << bits - 1, 1 << bits - 1), *ends))

    compare(lambda: Multiplier(a_bits, b_bits, latency, soft),
            lambda cycle: {"a": number(a_bits), "b": number(b_bits)}, "product",
            lambda cycle: cycle >= latency)


def test_blocks_are_as_many_as_the_width_needs(monkeypatch):
    made = []
    monkeypatch.setattr(parts, "Instance", lambda kind, **pins: made.append(pins) or dp16kd(pins))
    for width, rows, count, bits in [(2048, 512, 64, 36), (512, 1024, 32, 18), (64, 2048, 8, 9)]:
        made.clear()
        Fragment.get(Ram(width, rows), ECP5())
        assert (len(made), made[0]["p_DATA_WIDTH_A"]) == (count, bits)
