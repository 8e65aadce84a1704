"""gemm and vector on their own: their buffers, queue, tokens and banks played by a testbench.

`Bench` plays what surrounds a unit, with random refusals; `interpret` is what instructions mean;
`random_gemm` and `random_vector` make instructions whose addresses are in range.
"""

import random
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from accel.hw.interface import COMMAND
from accel.machine import isa
from accel.machine.config import UNITS, preset
from accel.machine.immediates import fields_in
from accel.machine.intrinsics import (SHIPPED, gemm_op, instructions, operand_field,
                                      vector_op)
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.status import ACTIVITIES, Status
from accel.sim.meaning.floats import apply_fold
from compiler import te
from tests.support.amaranth_sim import ready
from tests.support.bodies import body_value

TINY = replace(preset("tiny-1x4x4"), acc_bytes=1024, inp_bytes=64, wgt_bytes=256, res_bytes=64,
               par_bytes=256, out_bytes=64, tab_bytes=1024)
BATCHED = replace(TINY, name="batched-2x8x8", batch=2, block_in=8, block_out=8, stage_depth=1,
                  acc_bytes=1024, inp_bytes=128, wgt_bytes=512, res_bytes=128, par_bytes=256,
                  out_bytes=256)
SPLIT = replace(BATCHED, name="split-2x8x8", vector_beats=4)        # half a row of an entry
ROWS = replace(BATCHED, name="rows-2x8x8", vector_beats=2)          # a row of an entry
OWN = (vector_op("absdiff", lambda a, b: te.abs(a - b)),
       vector_op("between", lambda a, s, table: (table[a & 255] + table[(a >> 8) & 255])
                 * (a & s.astype("int32"))))
LANES = (vector_op("row_sum", lambda a: a, lanes="sum"),
         vector_op("row_max", lambda a, bias: (a << 16) | (bias & 0xFFFF), lanes="max",
                   update="max"))
THREE = (vector_op("difference", lambda a, b, table: table[(a - b) & 255]),
         vector_op("affine", lambda a, b, mult, bias: a * mult.astype("int32") + b - bias),
         vector_op("slope", lambda a, bias, table: table[(a >> 3) & 255] + bias))
MACHINES = tuple(
    Machine(config, (*SHIPPED, *OWN, *(LANES if config.vector_tile[1] == config.block_out else ()),
                     *(THREE if config.batch > 1 else ())))
    for config in (TINY, BATCHED, SPLIT, ROWS))

SHORT_SUMS = Machine(replace(BATCHED, name="short-2x4x4", block_in=4, block_out=4),
                     instructions(accumulator="int16"))
"""Accumulators of 16 bits."""

READ_LATENCY = 2


FLOATS = Machine(replace(TINY, name="floats-1x2x2", block_in=2, block_out=2, stage_depth=6,
                         inp_bytes=64, wgt_bytes=128, acc_bytes=256), (
    *(instruction for instruction in SHIPPED if instruction.unit in ("load", "store")),
    gemm_op("gemm", "bfloat16", "bfloat16"),
    vector_op("mix", lambda a, b: a * b - a, stored="bfloat16"),
    vector_op("round", lambda a, b: te.maximum(a, b).astype("bfloat16"), stored="bfloat16")))
"""Sums of products of bfloat16 in float32."""


def tile_types(config):
    """Type of an element and shape of an entry of each buffer."""
    return {name: (te.numpy_dtype(dtype), shape)
            for name, (shape, dtype) in config.tiles.items()}


def random_buffers(config, seed):
    """Buffers of random bytes."""
    rng = np.random.default_rng(seed)
    buffers = {}
    for name, (dtype, shape) in tile_types(config).items():
        raw = rng.integers(0, 256, config.buffers[name].size_bytes, np.uint8).view(dtype)
        if te.is_float(dtype.name):         # mostly near each other, so that sums depend on order
            near = np.where(rng.random(len(raw)) < 0.1, raw, rng.normal(size=len(raw)))
            raw = near.astype(dtype)
        buffers[name] = raw.reshape(-1, *shape)
    return buffers


def addresses(fields, name, counts=(0,) * 6):
    total = fields["base"][name] + sum(loop[name] * count
                                       for loop, count in zip(fields["loops"], counts))
    return total % (1 << 16)


def iterations(fields):
    return product(*(range(loop["extent"]) for loop in fields["loops"]))


def interpret(machine, buffers, instruction):
    """Perform an instruction, one iteration after the other."""
    body, fields = machine.intrinsic(instruction.name), instruction.fields
    immediates = {one.name: fields[one.name] for one in body.immediates}
    for counts in iterations(fields):
        a, b, dst = (addresses(fields, name, counts) for name in ("a", "b", "dst"))
        operands = dict(immediates)
        for operand in body.operands:
            other = fields["c"] if operand_field(body, operand.name) == "c" else b
            match operand.name:
                case "inp": value = buffers["inp"][a]
                case "wgt": value = buffers["wgt"][b]
                case "a": value = buffers[isa.SOURCES_A[fields["a_source"]]][a]
                case "b":
                    scope = isa.SOURCES_B[fields["b_source"]]
                    value = (np.full(operand.shape, fields["imm"]) if scope == "imm" else
                             np.broadcast_to(buffers["par"]["bias"][b], operand.shape)
                             if scope == "par" else buffers[scope][b])
                case "table": value = buffers["tab"][other]
                case name: value = buffers["par"][name][other]
            operands[operand.name] = value
        value = body_value(body, operands)
        scope = isa.DESTINATIONS[fields.get("destination", 0)]
        first = fields["reset"] and not any(
            count for count, loop in zip(counts, fields["loops"]) if loop["dst"] == 0)
        if body.update != "assign" and not first:
            value = apply_fold(body.update, buffers[scope][dst], value)
        buffers[scope][dst] = value.astype(buffers[scope].dtype)


def random_loops(rng, depths, levels, longest=40, near=None):
    """Loops and bases with every address inside the buffers; `near`: dst stays among so many."""
    while True:
        extents = [rng.choice((1, 1, 1, 2, 2, 3, 5)) for _ in range(levels)]
        if np.prod(extents) > longest:
            continue
        loops, base = [{"extent": extent} for extent in extents], {}
        for name, depth in depths.items():
            room = min(depth, near) if name == "dst" and near else depth
            for loop in loops:
                loop[name] = rng.choice((0, 0, 1, 1, 2, 3, -1, -2))
            low, high = (sum(pick((loop["extent"] - 1) * loop[name], 0) for loop in loops)
                         for pick in (min, max))
            if high - low >= room:
                break
            base[name] = rng.randrange(-low, room - high)
        else:
            for loop in loops:
                for name in depths:
                    loop[name] %= 1 << 16
            return {"base": base, "loops": loops}


def banks_touched(config, fields, names):
    return sum({1 << addresses(fields, name, counts) // config.bank_depth
                for counts in iterations(fields) for name in names})


def random_own(machine, rng, name):
    """Numbers for the immediates of one's own of an instruction."""
    body = machine.intrinsic(name)
    return {one.name: rng.randint(one.low, one.high) for one in body.immediates
            if one.name in machine.immediates[body.unit]}


def random_gemm(machine, rng, name="gemm"):
    config = machine.config
    depths = {"dst": config.buffers["acc"].depth, "a": config.buffers["inp"].depth,
              "b": config.buffers["wgt"].depth}
    fields = random_loops(rng, depths, 6, near=rng.choice((1, 2, 4, None)))
    banks = banks_touched(config, fields, ["dst"]) | rng.choice((0, 0, 3))
    return Instruction(name, "gemm", {**fields, **_header(rng), "banks": banks,
                                      "reset": rng.randrange(2), **random_own(machine, rng, name)})


def random_vector(machine, rng, name=None):
    config, depth = machine.config, {k: b.depth for k, b in machine.config.buffers.items()}
    name = name or rng.choice([body.name for body in machine.of_unit("vector")])
    body = machine.intrinsic(name)
    scopes = {operand.name: rng.choice(operand.scopes) for operand in (*body.operands, body.dst)}
    places = {operand_field(body, name): scope for name, scope in scopes.items()}
    b = places.get("b") or rng.choice(isa.SOURCES_B)
    a = scopes.get("a", rng.choice(isa.SOURCES_A))
    fields = random_loops(rng, {"dst": depth[scopes["dst"]], "a": depth[a],
                                "b": depth.get(b, 1 << 16)}, 5, near=rng.choice((2, 8, None)))
    inside = [field for field, scope in (("dst", scopes["dst"]), ("a", scopes.get("a")),
                                         ("b", scopes.get("b"))) if scope == "acc"]
    banks = banks_touched(config, fields, inside) | rng.choice((0, 0, 3))
    third = {"c": rng.randrange(depth[places["c"]])} if "c" in places else {}
    fields = {
        **fields, **third, **_header(rng), "banks": banks, "reset": rng.randrange(2),
        "a_source": isa.SOURCES_A.index(a),
        "b_source": isa.SOURCES_B.index(b) if "b" in scopes else rng.randrange(4),
        "destination": isa.DESTINATIONS.index(scopes["dst"]),
        "imm": rng.choice((rng.randrange(-1 << 31, 1 << 31), rng.randrange(-99, 99))),
        "ma": rng.randrange(1 << 16), "mb": rng.randrange(1 << 16), "s": rng.randrange(64),
        "zp": rng.randrange(-128, 128), "lo": rng.randrange(-128, 128),
        "hi": rng.randrange(-128, 128), **random_own(machine, rng, name)}
    known = fields_in(machine.layouts[name])
    return Instruction(name, "vector", {key: value for key, value in fields.items()
                                        if key in known})


def _header(rng):
    return {"waits": rng.choice((0, rng.randrange(16))),
            "signals": rng.choice((0, rng.randrange(16)))}


@dataclass
class Outcome:
    """What a bench saw; cycles count from its first."""

    started: dict[int, int] = field(default_factory=dict)
    retired: dict[int, int] = field(default_factory=dict)
    errors: list[tuple[int, str]] = field(default_factory=list)
    writes: list[tuple[int, str, int]] = field(default_factory=list)
    activity: list[str] = field(default_factory=list)
    taken_waits: list[int] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)
    blocked: list[int | None] = field(default_factory=list)


class Bench:
    """Plays what surrounds a unit, cycle by cycle; `make` makes the unit of a machine.

    `refuse` is the probability that a token, a bank, a signal or the next command does not come in
    a cycle; commands and tokens that are there stay until they are taken. The next command comes
    two cycles after one that is taken, or later; a signal is answered in the next cycle. Each of
    `tokens`, `signalled`, `granted` and `halt`, functions of the cycle, overrides that for its
    input. Checked in every cycle: acc is used only in banks that are held.
    """

    def __init__(self, make, machine, buffers, instructions, *, refuse=0.0, seed=0, tokens=None,
                 signalled=None, granted=None, halt=None, cycles=None):
        self.dut, self.simulation = ready(make, machine)
        dut = self.dut
        self.machine, self.config = machine, machine.config
        self.buffers = buffers
        self.queue = deque((7 * number, one.encode(machine))
                           for number, one in enumerate(instructions))
        self.count = len(self.queue)
        self.seen = {name: self.config.seen(dut.unit, name) for name in dut.unit.buffers}
        self.refuse, self.random = refuse, random.Random(seed)
        self.tokens, self.signalled, self.granted, self.halt = tokens, signalled, granted, halt
        self.cycles = cycles
        self.offered, self.paused, self.have = False, False, 0
        self.asks = self.fits = False
        self.out = Outcome()
        self.ports = {name: getattr(dut, name) for name in ("inp", "wgt", "res", "par")
                      if name in dut.signature.members}
        self.read = {name: deque([0] * READ_LATENCY) for name in (*self.ports, "acc")}
        self.lookups = getattr(dut, "lookups", 0)
        self.looked_up = deque([[0] * self.lookups] * READ_LATENCY)

    def run(self):
        self.simulation.run(self._run, max_cycles=(self.cycles or 40_000) + 10)
        return self.out

    async def _run(self, ctx):
        cycle = 0
        while (cycle < self.cycles if self.cycles else len(self.out.retired) < self.count):
            self._inputs(ctx, cycle)
            self._control(ctx, cycle)
            self._buffers(ctx, cycle)
            await ctx.tick()
            cycle += 1
        if not self.cycles:
            assert ctx.get(self.dut.idle) and not ctx.get(self.dut.acc.hold)

    def _yes(self):
        return self.random.random() >= self.refuse

    def _inputs(self, ctx, cycle):
        dut = self.dut
        self.offered = self.offered or bool(self.queue) and not self.paused and self._yes()
        ctx.set(dut.commands.valid, self.offered)
        if self.offered:
            index, word = self.queue[0]
            ctx.set(dut.commands.payload, {"index": index, "word": word})
        elif not self.paused:           # what has left is shown for one more cycle
            ctx.set(dut.commands.payload.as_value(), self.random.getrandbits(COMMAND.size))
        self.paused = False
        self.have |= sum(self._yes() << bit for bit in range(len(UNITS)))
        ctx.set(dut.available, self.tokens(cycle) if self.tokens else self.have)
        ctx.set(dut.halt, self.halt(cycle) if self.halt else 0)
        for name, data in self.read.items():
            port = dut.acc.r_data if name == "acc" else self.ports[name].data
            ctx.set(port, data[0])
        if self.lookups:
            ctx.set(dut.tab.data, self.looked_up[0])
        if ctx.get(dut.acc.request):
            ctx.set(dut.acc.granted, self.granted(cycle) if self.granted else self._yes())
        else:
            ctx.set(dut.acc.granted, 1)
        ctx.set(dut.signalled, self.asks and self.fits)
        ctx.set(dut.refused, self.asks and not self.fits)

    def _control(self, ctx, cycle):
        dut, out = self.dut, self.out
        if ctx.get(dut.take):
            assert ctx.get(dut.commands.ready) and ctx.get(dut.commands.valid)
            assert ctx.get(dut.waits) & ~ctx.get(dut.available) == 0
            out.taken_waits.append(ctx.get(dut.waits))
            self.queue.popleft()
            self.offered, self.paused = False, True
            self.have &= ~ctx.get(dut.waits)
        if ctx.get(dut.started):
            out.started[ctx.get(dut.started_index) // 7] = cycle
        if ctx.get(dut.retired):
            assert ctx.get(dut.signal) and ctx.get(dut.signalled)
            out.retired[ctx.get(dut.retired_index) // 7] = cycle
            out.signals.append(ctx.get(dut.signals))
        if ctx.get(dut.error):
            status = Status(ctx.get(dut.error_status))
            out.errors.append((ctx.get(dut.error_index) // 7, status.name))
        self.asks = ctx.get(dut.signal) and not ctx.get(dut.signalled)
        self.fits = self.signalled(cycle) if self.signalled else self._yes()
        activity = ctx.get(dut.activity)
        assert activity.bit_count() == 1
        out.activity.append(ACTIVITIES[activity.bit_length() - 1])
        out.blocked.append(ctx.get(dut.blocked_index) // 7 if ctx.get(dut.blocked) else None)

    def _buffers(self, ctx, cycle):
        for name, port in self.ports.items():
            self._fetch(name, ctx.get(port.addr) if ctx.get(port.en) else None)
        if self.lookups:
            self._look_up(ctx.get(self.dut.tab.addr), ctx.get(self.dut.tab.en))
        acc, held = self.dut.acc, ctx.get(self.dut.acc.hold)
        bank_depth = self.seen["acc"].depth // 2
        r_addr = ctx.get(acc.r_addr) if ctx.get(acc.r_en) else None
        self._fetch("acc", r_addr)                  # before the write: a read sees earlier ones
        if r_addr is not None:
            assert self.out.errors or held >> r_addr // bank_depth & 1
        if ctx.get(acc.w_en):
            w_addr = ctx.get(acc.w_addr)
            assert self.out.errors or held >> w_addr // bank_depth & 1
            self._store(cycle, "acc", w_addr, ctx.get(acc.w_data))
        if "out" in self.dut.signature.members and ctx.get(self.dut.out.w_en):
            out = self.dut.out
            self._store(cycle, "out", ctx.get(out.w_addr), ctx.get(out.w_data))

    def _fetch(self, name, address):
        self.read[name].popleft()
        size = self.seen[name].entry_bytes
        data = (self.random.randbytes(size) if address is None else
                self.buffers[name].view(np.uint8).reshape(-1, size)[address].tobytes())
        self.read[name].append(int.from_bytes(data, "little"))

    def _look_up(self, addresses, enabled):
        self.looked_up.popleft()
        table = self.buffers["tab"].reshape(-1)
        self.looked_up.append([
            int(table[addresses[port]]) if enabled >> port & 1 else self.random.randrange(-128, 128)
            for port in range(self.lookups)])

    def _store(self, cycle, name, address, data):
        size = self.seen[name].entry_bytes
        raw = data.to_bytes(size, "little")
        self.buffers[name].view(np.uint8).reshape(-1, size)[address] = np.frombuffer(raw, np.uint8)
        self.out.writes.append((cycle, name, address))


def assert_means_program(make, machine, instructions, *, refuse, seed):
    """Hardware and meaning leave the same buffers; every instruction ran in order, in peace."""
    buffers = random_buffers(machine.config, seed)
    expected = {name: buffer.copy() for name, buffer in buffers.items()}
    for one in instructions:
        interpret(machine, expected, one)
    out = Bench(make, machine, buffers, instructions, refuse=refuse, seed=seed).run()
    for name in expected:
        assert (buffers[name] == expected[name]).all(), name
    assert list(out.started) == list(out.retired) == list(range(len(instructions)))
    assert out.errors == []
    assert out.taken_waits == [one.fields["waits"] for one in instructions]
    assert out.signals == [one.fields["signals"] for one in instructions]
    return out
