"""The functional simulator against a meaning written out: one iteration, one lane at a time."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.config import WEIGHT_BITS, preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, ProgramError, TensorSlot, finish
from accel.machine.status import Status
from accel.sim.meaning.functional import _Execution, simulate
from tests.support.machines import PACKED
from tests.support.random_vectors import vector_fields

MACHINE = Machine(replace(preset("tiny-1x4x4"), tab_bytes=1 << 13))
CONFIG = MACHINE.config
VECTOR = [i.name for i in MACHINE.of_unit("vector")]


def wrap(value, width, signed=True):
    value &= (1 << width) - 1
    return value - (1 << width) if signed and value >> (width - 1) else value


def rhe(value, amount):
    """value / 2**amount, half to even, by the textbook: exact fractions."""
    from fractions import Fraction
    return round(Fraction(value, 1 << amount))


def clamp(value, low, high):
    return min(max(value, low), high)


LANE = {
    "add": lambda f, a, b: a + b, "sub": lambda f, a, b: a - b,
    "max": lambda f, a, b: max(a, b), "min": lambda f, a, b: min(a, b),
    "mul": lambda f, a, b: a * wrap(b, 16), "shr": lambda f, a, b: a >> (b & 31),
    "clamp": lambda f, a, b: clamp(a, f["lo"], f["hi"]), "copy": lambda f, a, b: b,
    "requantize": lambda f, a, p: clamp(f["zp"] + rhe((a + p[0]) * p[1], p[2] & 63),
                                        f["lo"], f["hi"]),
    "add_scaled": lambda f, a, b: clamp(f["zp"] + rhe(a * f["ma"] + b * f["mb"] + f["imm"],
                                                      f["s"] & 63), f["lo"], f["hi"]),
    "reduce_add": lambda f, a, b: a, "reduce_max": lambda f, a, b: a,
    "reduce_min": lambda f, a, b: a, "lookup": lambda f, a, t: int(t[a & 255]),
}
UPDATE = {"reduce_add": lambda x, y: x + y, "reduce_max": max, "reduce_min": min}


def slow_compute(execution, instruction):
    """One gemm or vector instruction, iteration by iteration, in plain integers."""
    e, f = execution.buffers.entries, instruction.fields
    loops = f["loops"]
    for index in itertools.product(*(range(loop["extent"]) for loop in loops)):
        at = {k: (f["base"].get(k, 0) + sum(i * loop.get(k, 0) for i, loop in
                                            zip(index, loops))) % (1 << 16)
              for k in ("dst", "a", "b")}
        begins = f.get("reset", 0) and all(i == 0 or loop.get("dst", 0)
                                           for i, loop in zip(index, loops))
        for b, o in itertools.product(range(CONFIG.batch), range(CONFIG.block_out)):
            if instruction.name == "gemm":
                value = sum(int(x) * int(w) for x, w in zip(e["inp"][at["a"], b],
                                                            e["wgt"][at["b"], o]))
                old = 0 if begins else int(e["acc"][at["dst"], b, o])
                e["acc"][at["dst"], b, o] = wrap(old + value, 32)
                continue
            slow_lane(e, instruction, at, begins, b, o)


def slow_lane(e, instruction, at, begins, b, o):
    f, name = instruction.fields, instruction.name
    first = int(e[isa.SOURCES_A[f["a_source"]]][at["a"], b, o])
    second = isa.SOURCES_B[f["b_source"]]
    record = e["par"][at["b"] % len(e["par"]), o]
    if name == "lookup":
        other = e["tab"][at["b"]]
    elif name == "requantize":
        other = tuple(int(x) for x in record)
    elif second == "imm":
        other = f["imm"]
    else:
        other = int(record["bias"] if second == "par" else e[second][at["b"], b, o])
    value = LANE[name](f, first, other)
    target = isa.DESTINATIONS[f["destination"]]
    if name in UPDATE and not begins:
        value = UPDATE[name](int(e[target][at["dst"], b, o]), wrap(value, 32))
    e[target][at["dst"], b, o] = wrap(value, 8 if target == "out" else 32)


def filled(rng, instruction):
    """An execution of one instruction, its buffers full of random bytes."""
    program = AccelProgram.assemble(MACHINE, [instruction, finish()])
    execution = _Execution(MACHINE, program, program.image())
    for raw in execution.buffers.raw.values():
        raw[:] = rng.integers(0, 256, raw.size, np.uint8)
    execution.buffers.entries["par"]["shift"] &= 63
    return execution


def same_as_slow(rng, instruction):
    fast = filled(rng, instruction)
    slow = filled(rng, instruction)
    for name, raw in fast.buffers.raw.items():
        slow.buffers.raw[name][:] = raw
    run = fast.run()
    assert run.ok, run.describe()
    slow_compute(slow, instruction)
    for name in fast.buffers.raw:
        np.testing.assert_array_equal(fast.buffers.raw[name], slow.buffers.raw[name], name)


def compute_fields(rng, loops, spread):
    """Loops with small extents, and strides that make entries meet often or not at all."""
    choices = [0, 1, 1, 2, 3] if spread else [0, 0, 1]
    return {"banks": 3, "reset": int(rng.integers(2)),
            "base": {key: int(rng.integers(0, 8)) for key in ("dst", "a", "b")},
            "loops": [{"extent": int(rng.integers(1, 4)), "dst": int(rng.choice(choices)),
                       "a": int(rng.choice(choices)), "b": int(rng.choice([0, 1, 2]))}
                      for _ in range(loops)]}


@pytest.mark.parametrize("seed", range(30))
def test_gemm_is_its_iterations(seed):
    rng = np.random.default_rng(seed)
    same_as_slow(rng, Instruction("gemm", "gemm", compute_fields(rng, 6, seed % 2)))


def test_gemm_with_distinct_destinations_is_its_iterations(rng):
    for order in itertools.permutations(range(4)):
        loops = [{"extent": 3, "dst": 4, "a": 3}, {"extent": 4, "dst": 1, "b": 5},
                 {"extent": 2, "a": 1, "b": 1}, {"extent": 2, "dst": 12, "a": 2, "b": 3}]
        fields = {"banks": 3, "reset": order[0] % 2, "base": {"dst": 5, "a": 1, "b": 2},
                  "loops": [loops[k] for k in order]}
        same_as_slow(rng, Instruction("gemm", "gemm", fields))


@pytest.mark.parametrize("name", VECTOR)
@pytest.mark.parametrize("seed", range(6))
def test_vector_is_its_iterations(name, seed):
    rng = np.random.default_rng(seed)
    fields = compute_fields(rng, 5, seed % 2) | vector_fields(rng, MACHINE.intrinsic(name))
    same_as_slow(rng, Instruction(name, "vector", fields))


def dma(name, **fields):
    fields["buffer"] = isa.BUFFERS.index(fields["buffer"])
    fields["base"] = isa.BASES.index(fields["base"])
    return Instruction(name, name, fields)


def one_segment(instructions, io_bytes, inputs=()):
    return AccelProgram.assemble(MACHINE, [*instructions, finish()], io_bytes=io_bytes,
                                 inputs=inputs)


@pytest.mark.parametrize("seed", range(40))
def test_load_is_its_iterations(seed):
    rng = np.random.default_rng(seed)
    close = seed % 3 == 0                   # runs that overlap
    loops = []
    for _ in range(4):
        extent = int(rng.integers(1, 5))
        loops.append({"extent": extent, "dram": int(rng.integers(-9, 10)),
                      "buffer": int(rng.integers(0, 3 if close else 80)),
                      "before": int(rng.integers(0, 3) * (seed % 2)),
                      "after": int(rng.integers(0, 3) * (seed % 2))})
    run, pad = int(rng.integers(1, 8)), int(rng.integers(256))
    load = dma("load", buffer="inp", base="io", dram=150, address=3, run=run, pad_value=pad,
               loops=loops)
    program = one_segment([load], 320)
    image = program.image()
    image[program.bases["io"]:] = rng.integers(0, 256, 320, np.uint8)
    execution = _Execution(MACHINE, program, image.copy())
    assert execution.run().ok
    expected = np.zeros(CONFIG.inp_bytes, np.uint8)
    for index in itertools.product(*(range(loop["extent"]) for loop in loops)):
        here = 3 + sum(i * loop["buffer"] for i, loop in zip(index, loops))
        there = program.bases["io"] + 150 + sum(i * loop["dram"] for i, loop in zip(index, loops))
        padded = any(i < loop["before"] or i >= loop["extent"] - loop["after"]
                     for i, loop in zip(index, loops))
        expected[here:here + run] = pad if padded else image[there:there + run]
    np.testing.assert_array_equal(execution.buffers.raw["inp"], expected)


@pytest.mark.parametrize("stride", [1, 5, -5])
def test_store_is_its_iterations(rng, stride):
    store = dma("store", buffer="out", base="io", dram=40, address=7, run=3,
                loops=[{"extent": 4, "dram": stride, "buffer": 2},
                       {"extent": 2, "dram": 20, "buffer": 16, "before": 1}])
    execution = filled(rng, store)
    program = one_segment([store], 128)
    execution.memory, execution.bases = program.image(), program.bases
    assert execution.run().ok
    expected = program.image()
    for i, j in itertools.product(range(4), range(2)):
        here, there = 7 + 2 * i + 16 * j, program.bases["io"] + 40 + stride * i + 20 * j
        expected[there:there + 3] = execution.buffers.raw["out"][here:here + 3]
    np.testing.assert_array_equal(execution.memory, expected)


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_load_unpacks(bits, rng):
    """Runs of 3 bytes, that overlap in the buffer, and one of padding."""
    code, group = WEIGHT_BITS.index(bits), 8 // bits
    load = Instruction("load", "load", {
        "buffer": 1, "base": 3, "run": 3, "dram": 4, "address": 5, "bits": code, "pad_value": 0x6D,
        "loops": [{"extent": 4, "dram": 7, "buffer": 2, "after": 1}]})
    slot = TensorSlot("x", "io", 0, (64,), "uint8")
    program = AccelProgram.assemble(PACKED, [load, finish()], io_bytes=128, inputs=(slot,))
    data = rng.integers(0, 256, 64, np.uint8)
    execution = _Execution(PACKED, program, program.image({"x": data}))
    assert execution.run().ok
    expected = np.zeros(4096, np.int8)
    for turn in range(4):
        run = data[4 + 7 * turn:][:3] if turn < 3 else [0x6D] * 3
        for at, byte in enumerate(run):
            for part in range(group):
                value = int(byte) >> bits * part & (1 << bits) - 1
                value -= (value >> bits - 1) << bits
                expected[(5 + 2 * turn + at) * group + part] = value
    np.testing.assert_array_equal(execution.buffers.raw["wgt"].view(np.int8), expected)


def chain(*, drop=(), inp=0):
    """Load, multiply, copy out and store: tokens between neighbours. `drop`: no such signals."""
    def masks(waits, signals):
        return {"waits": isa.unit_mask(waits),
                "signals": isa.unit_mask(s for s in signals if s not in drop)}
    io = TensorSlot("x", "io", 0, (64,), "uint8")
    stream = [
        Instruction("load", "load", {"buffer": 0, "base": 3, "run": 16, "dram": inp}),
        Instruction("load", "load", {"buffer": 1, "base": 3, "run": 16, "dram": 16,
                                     **masks((), ("gemm",))}),
        Instruction("gemm", "gemm", {"banks": 1, "reset": 1, "loops": [{"extent": 4, "dst": 1,
                                                                        "a": 1}],
                                     **masks(("load",), ("vector",))}),
        Instruction("copy", "vector", {"banks": 1, "b_source": 0, "destination": 1,
                                       "loops": [{"extent": 4, "dst": 1, "b": 1}],
                                       **masks(("gemm",), ("store",))}),
        Instruction("store", "store", {"buffer": 5, "base": 3, "dram": 64, "run": 16,
                                       **masks(("vector",), ())}),
        finish()]
    return AccelProgram.assemble(MACHINE, stream, io_bytes=128, inputs=(io,))


def test_a_chain_of_units_computes_a_product(rng):
    x = rng.integers(0, 256, 64, np.uint8)
    program = chain()
    run = simulate(MACHINE, program, inputs={"x": x})
    assert run == run.__class__(Status.DONE, "fetch", 5, run.memory, start=run.start,
                                counters=run.counters, retire=run.retire)
    a, w = x[:16].view(np.int8).reshape(4, 4), x[16:32].view(np.int8).reshape(4, 4)
    expected = (a.astype(int) @ w.T.astype(int)).astype(np.int8)
    start = program.bases["io"] + 64
    np.testing.assert_array_equal(run.memory[start:start + 16].view(np.int8).reshape(4, 4),
                                  expected)
    assert run.describe() == "done"


def test_memory_that_is_given_is_not_changed():
    program = chain()
    image = program.image()
    before = image.copy()
    simulate(MACHINE, program, image)
    np.testing.assert_array_equal(image, before)


@pytest.mark.parametrize(("program", "status", "unit", "index"), [
    (chain(drop=("gemm",)), Status.DEADLOCK, "gemm", 2),
    (chain(drop=("store",)), Status.DEADLOCK, "store", 4),
    (chain(inp=1 << 20), Status.BUS, "load", 0),
], ids=["no signal to gemm", "no signal to store", "far address"])
def test_faults(program, status, unit, index):
    run = simulate(MACHINE, program)
    assert (run.status, run.unit, run.index) == (status, unit, index)


def run_stream(*instructions, end=True):
    stream = [*instructions, *([finish()] if end else [])]
    run = simulate(MACHINE, AccelProgram.assemble(MACHINE, stream))
    return run.status, run.unit, run.index


def nothing(unit, waits=(), signals=(), **fields):
    """An instruction that does no harm."""
    name = "copy" if unit == "vector" else unit
    fields = {"banks": 1, "b_source": 3, **fields} if unit == "vector" else {"banks": 1, **fields}
    if unit in ("load", "store"):
        fields = {"buffer": 0 if unit == "load" else 5}
    return Instruction(name, unit, {**fields, "waits": isa.unit_mask(waits),
                                    "signals": isa.unit_mask(signals)})


def test_illegal_opcode():
    word = np.zeros((1, 64), np.uint8)
    run = simulate(MACHINE, AccelProgram(MACHINE.hash, word))
    assert (run.status, run.unit, run.index) == (Status.ILLEGAL, "fetch", 0)


def test_illegal_selector():
    bad = Instruction("load", "load", {"buffer": 4})
    assert run_stream(bad) == (Status.ILLEGAL, "load", 0)
    reduce = Instruction("reduce_add", "vector", {"banks": 3, "a_source": 1, "destination": 1})
    assert run_stream(reduce) == (Status.ILLEGAL, "vector", 0)


def test_address_outside_a_buffer():
    gemm = nothing("gemm", base={"a": 511}, loops=[{"extent": 2, "a": 1}])
    assert run_stream(nothing("gemm"), gemm) == (Status.ADDRESS, "gemm", 1)


def test_bank_that_is_not_named():
    gemm = nothing("gemm", base={"dst": 128})
    assert run_stream(gemm) == (Status.ADDRESS, "gemm", 0)


def test_addresses_wrap_at_sixteen_bits():
    gemm = nothing("gemm", base={"dst": 2}, loops=[{"extent": 3, "dst": 0xFFFF}])
    assert run_stream(gemm) == (Status.DONE, "fetch", 1)


def test_tokens_left():
    assert run_stream(nothing("gemm", signals=("load",))) == (Status.TOKENS_LEFT, "fetch", 1)


def test_a_later_signal_may_feed_an_earlier_wait():
    stream = nothing("gemm", waits=("load",)), nothing("load", signals=("gemm",))
    assert run_stream(*stream) == (Status.DONE, "fetch", 2)


def test_a_full_queue_keeps_the_signal_away():
    depth = CONFIG.queue_depth
    stream = [nothing("gemm", waits=("load",))] * (depth + 1)
    late = [nothing("load", signals=("gemm",))] * (depth + 1)
    assert run_stream(*stream[:-1], *late[:-1]) == (Status.DONE, "fetch", 2 * depth)
    assert run_stream(*stream, *late) == (Status.DEADLOCK, "gemm", 0)


def test_a_full_counter_holds_its_unit():
    signals = [nothing("load", signals=("gemm",))] * 256
    waits = [nothing("gemm", waits=("load",))] * 256
    assert run_stream(*signals, *waits) == (Status.DONE, "fetch", 512)
    assert run_stream(*signals)[:2] == (Status.DEADLOCK, "load")


def test_a_stream_without_finish_ends_in_deadlock():
    assert run_stream(nothing("load"), end=False) == (Status.DEADLOCK, "fetch", 1)


def test_program_of_another_machine():
    program = AccelProgram("0" * 64, np.zeros((0, 64), np.uint8))
    with pytest.raises(ProgramError, match="^Program was compiled for machine 000000000000, not "
                                           f"{MACHINE.hash[:12]} \\(tiny-1x4x4\\); "
                                           "compile it again$"):
        simulate(MACHINE, program)
