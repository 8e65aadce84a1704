"""What the tests of load and store share: a bench around one unit, and what its programs mean."""

import itertools
import random
from dataclasses import dataclass, field

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring

from accel.hw.moving.arbiter import Arbiter
from accel.hw.interface import COMMAND
from accel.machine.config import BUFFERS, WEIGHT_BITS, AccelConfig
from accel.machine.isa import BASES, DMA, FULL_DMA, PACKED, encode, formats
from tests.support.amaranth_sim import put
from tests.support.memory_model import Memory

__all__ = ["BASE", "Bench", "Events", "feed_commands", "grant", "instruction", "iterations",
           "random_instruction", "watch"]

BASE = {"program": 0, "weights": 0x400, "activations": 0x800, "io": 0x1000}
"""Base registers of the bench."""


class Bench(Elaboratable):
    """A DMA unit whose memory port goes through the arbiter."""

    def __init__(self, config: AccelConfig, make, client: str):
        self.unit, self.client = make(config), client
        self.arbiter = Arbiter(config)
        self.mem = wiring.flipped(self.arbiter.mem)

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit, m.submodules.arbiter = self.unit, self.arbiter
        wiring.connect(m, self.unit.mem, getattr(self.arbiter, self.client))
        m.d.comb += [self.unit.bases[BASES.index(name)].eq(at) for name, at in BASE.items()]
        return m

    def retired(self, count: int, events: "Events", memory: Memory):
        """A testbench that ends when `count` instructions have retired and the unit is idle."""
        async def testbench(ctx):
            while len(events.retired) < count:
                await ctx.tick()
            while not ctx.get(self.unit.idle):
                await ctx.tick()
            assert not memory.outstanding
        return testbench


def instruction(config: AccelConfig, buffer: str, **fields) -> dict:
    """Fields of a DMA instruction."""
    return {"buffer": BUFFERS.index(buffer), **fields}


def iterations(fields: dict):
    """(dram, address, is padding) of every iteration, in order: what the instruction means."""
    loops = fields.get("loops", [])
    for at in itertools.product(*(range(loop.get("extent", 1)) for loop in loops)):
        dram = BASE[BASES[fields.get("base", 0)]] + fields.get("dram", 0) + sum(
            i * loop.get("dram", 0) for i, loop in zip(at, loops))
        address = fields.get("address", 0) + sum(
            i * loop.get("buffer", 0) for i, loop in zip(at, loops))
        pad = any(i < loop.get("before", 0) or i >= loop["extent"] - loop.get("after", 0)
                  for i, loop in zip(at, loops))
        yield dram % (1 << 32), address % (1 << 24), pad


def random_instruction(rng: random.Random, config: AccelConfig, buffer: str, memory_bytes: int,
                       pads: bool) -> dict:
    """An instruction that stays inside its buffer and its memory, of any alignment."""
    bits = rng.choice(config.weight_bits) if buffer == "wgt" else 8
    packed = {} if config.weight_bits == (8,) else {"bits": WEIGHT_BITS.index(bits)}
    if pads and "pad_high" in dict(formats(config)["load"]):
        packed |= {"pad_high": rng.randrange(256)}
    size = config.buffers[buffer].size_bytes * bits // 8
    while True:
        loops = [{"extent": rng.choice((1, 1, 2, 3, 5)), "dram": rng.randrange(-200, 200),
                  "buffer": rng.randrange(-60, 90) % (1 << 24)} for _ in range(4)]
        if pads:
            for loop in loops:
                loop |= {"before": rng.choice((0, 0, 0, 1)), "after": rng.choice((0, 0, 0, 1, 9))}
        run = rng.choice((1, 2, 3, 21, rng.randrange(1, 40), rng.randrange(1, 200)))
        base = rng.randrange(4)
        fields = instruction(config, buffer, base=base, run=run, loops=loops,
                             dram=rng.randrange(memory_bytes // 2), address=rng.randrange(size),
                             pad_value=rng.randrange(256), **packed)
        if all(address + run <= size and dram + run <= memory_bytes
               for dram, address, _ in iterations(fields)):
            return fields


@dataclass
class Events:
    """What a unit did: pairs (cycle, index)."""

    started: list = field(default_factory=list)
    retired: list = field(default_factory=list)
    errors: list = field(default_factory=list)      # (cycle, index, status)
    signalled: list = field(default_factory=list)   # masks, in order
    activity: list = field(default_factory=list)    # of every cycle
    blocked: list = field(default_factory=list)     # (cycle, index)


def watch(unit, events: Events):
    """A background testbench that records."""
    async def testbench(ctx):
        cycle = 0
        async for sample in ctx.tick().sample(
                unit.started, unit.started_index, unit.retired, unit.retired_index, unit.error,
                unit.error_index, unit.error_status, unit.signals, unit.activity, unit.blocked,
                unit.blocked_index):
            (_, _, started, s_index, retired, r_index, error, e_index, status, signals, activity,
             blocked, b_index) = sample
            if started:
                events.started.append((cycle, s_index))
            if retired:
                events.retired.append((cycle, r_index))
                events.signalled.append(signals)
            if error:
                events.errors.append((cycle, e_index, status))
            if blocked:
                events.blocked.append((cycle, b_index))
            events.activity.append(activity)
            cycle += 1
    return testbench


def grant(unit, stall=lambda: False):
    """A background testbench: tokens and signals, withheld at random. A request is answered in the
    cycle after it."""
    async def testbench(ctx):
        while True:
            held = stall()
            ctx.set(unit.available, 0 if held else 0xF)
            asks, fits = ctx.get(unit.signal & ~unit.signalled), not stall()
            await ctx.tick()
            ctx.set(unit.signalled, asks and fits)
            ctx.set(unit.refused, asks and not fits)
    return testbench


def feed_commands(unit, programs: list[dict], stall=lambda: False):
    """Hand instructions over, numbered from 0, as a queue with a pause does."""
    async def testbench(ctx):
        for index, fields in enumerate(programs):
            while stall():
                await ctx.tick()
            word = encode(FULL_DMA if "pad_high" in fields else PACKED if "bits" in fields
                          else DMA, fields)
            await put(ctx, unit.commands, {"index": index, "word": word})
            await ctx.tick()            # what has left is shown
            ctx.set(unit.commands.payload.as_value(), (1 << COMMAND.size) - 1)
    return testbench
