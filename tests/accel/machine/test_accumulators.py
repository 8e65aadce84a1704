"""Accumulators of 16 to 48 bits: what instructions mean on such machines, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import lockstep
from accel.datapath.plan import plan
from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, gemm_op, instructions, vector_op
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.rules import DeclarationError
from accel.proof.access import touches
from accel.sim.meaning import functional
from accel.sim.timed import cycle
from accel.sim.meaning.evaluate import evaluate
from accel.sim.meaning.units import Buffers, perform
from compiler import te
from compiler.schedule import Schedule

TINY = preset("tiny-1x4x4")
WIDTHS = (16, 24, 32, 40, 48)
MACHINES = {bits: Machine(TINY, instructions("int16", "int16", "int16", f"int{bits}"))
            for bits in WIDTHS}
COUNT = 32


def wrapped(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def halved_to_even(value: int, shift: int) -> int:
    floor, rest = value >> shift, value % (1 << shift)
    return floor + (2 * rest > 1 << shift or (2 * rest == 1 << shift and floor % 2))


def requantized(f) -> int:
    scaled = halved_to_even((f["a"] + f["bias"]) * f["mult"], f["shift"] % 64)
    return min(max(scaled + f["imm"], f["lo"]), f["hi"])


def added_scaled(f) -> int:
    scaled = halved_to_even(f["a"] * f["ma"] + f["b"] * f["mb"] + f["imm"], f["s"])
    return min(max(scaled + f["zp"], f["lo"]), f["hi"])


def shifted(f, bits) -> int:
    return f["a"] >> min(f["b"] % (1 << (bits - 1).bit_length()), bits - 1)


FORMULAS = {
    "add": lambda f, bits: f["a"] + f["b"], "sub": lambda f, bits: f["a"] - f["b"],
    "mul": lambda f, bits: f["a"] * wrapped(f["b"], 16), "shr": shifted,
    "max": lambda f, bits: max(f["a"], f["b"]),
    "requantize": lambda f, bits: requantized(f), "add_scaled": lambda f, bits: added_scaled(f)}
"""In Python's integers, which have no width."""


def drawn(rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of all sizes, the ends of the range among them."""
    bits, low = te.bits(dtype), 0 if dtype.startswith("u") else 1
    sizes = rng.integers(1, bits + 1, shape)
    numbers = [wrapped(int(rng.integers(1 << 62)) % (1 << int(size)), int(size)) if low
               else int(rng.integers(1 << int(size))) for size in sizes.reshape(-1)]
    tile = np.array(numbers).reshape(shape)
    tile.flat[:2] = -(1 << bits - 1) * low, (1 << bits - low) - 1
    return tile.astype(te.numpy_dtype(dtype))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_body_is_its_formula(bits, name, rng):
    """So is the datapath, which is planned from it."""
    machine = MACHINES[bits]
    body, made = machine.intrinsic(name), plan(machine, "vector")
    tiles = {}
    for operand in body.operands:
        here = "int16" if operand.scopes == ("res",) else operand.dtype
        tiles[operand.name] = drawn(rng, here, (COUNT, *operand.shape)).astype(
            te.numpy_dtype(operand.dtype))
    scalars = {"imm": -(1 << 31), "ma": 65535, "mb": 65534, "s": 46, "zp": -128, "lo": -32768,
               "hi": 32767}
    for pick in (0, 1, 17, 30):
        scalars["s"] = pick
        given = {one.name: scalars[one.name] for one in body.immediates}
        found = evaluate(body.value, body.axes, tiles, given, COUNT)
        for number, lanes in enumerate(found[:, 0]):
            lane = number % 4
            f = {key: int(tile[number].reshape(-1)[lane]) for key, tile in tiles.items()} | given
            assert lanes[lane] == wrapped(FORMULAS[name](f, bits), bits), f
        entry = {key: tile[pick] for key, tile in tiles.items()} | given
        planned = made.evaluate(machine.opcodes[name], {
            bus: entry.get(bus, np.zeros(shape, int)) for bus, shape in made.buses.items()}
            | {key: given.get(key, 0) for key in made.immediates})
        np.testing.assert_array_equal(planned, found[pick])


@pytest.mark.parametrize("bits", WIDTHS)
def test_sums_of_products_wrap_at_the_width(bits, rng):
    gemm = MACHINES[bits].intrinsic("gemm")
    x, w = (np.full((1, *operand.shape), -32768, np.int16) for operand in gemm.operands)
    found = evaluate(gemm.value, gemm.axes, {"inp": x, "wgt": w}, {}, 1)
    assert (found == wrapped(4 << 30, bits)).all()


@pytest.mark.parametrize("bits, depth, size", [(16, 512, 64), (24, 256, 96), (32, 256, 128),
                                               (40, 128, 160), (48, 128, 192)])
def test_entries_are_a_power_of_two(bits, depth, size):
    config = MACHINES[bits].config
    acc = config.buffers["acc"]
    assert (config.accumulator, acc.depth, acc.entry_bits) == (f"int{bits}", depth, size)
    assert Buffers(config).entries["acc"].shape == (depth, 1, 4)
    parts = Machine(replace(TINY, batch=2, vector_beats=4), MACHINES[bits].declarations).config
    assert parts.parts["acc"].entry_bits == size // 2


REFUSED = {
    "two widths": (lambda: (*instructions(accumulator="int48"), vector_op("own", lambda a: a)),
                   "Operand dst of own must be stored in acc as int48, as the buffer is, "
                   "not as int32"),
    "gemm of another width": (
        lambda: (gemm_op("wide", accumulator="int40"), *SHIPPED),
        "Operand dst of gemm must be stored in acc as int40, as the buffer is, not as int32"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_width_for_all_instructions(case):
    declarations, message = REFUSED[case]
    with pytest.raises(DeclarationError) as refused:
        Machine(TINY, declarations())
    assert str(refused.value) == message


@pytest.mark.parametrize("declared, message", [
    (lambda: gemm_op("own", accumulator="int64"),
     "Accumulator of own must be int32, int16, int24, int40 or int48, as its operands are "
     "integers, not 'int64'"),
    (lambda: gemm_op("own", "bfloat16", accumulator="int48"),
     "Accumulator of own must be float32, as its operands are floats, not 'int48'"),
    (lambda: vector_op("own", lambda a: a, stored="bfloat16", accumulator="int16"),
     "Accumulator of own must be float32, as its operands are floats, not 'int16'"),
    (lambda: vector_op("own", lambda a: a, accumulator="float32"),
     "Accumulator of own must be int32, int16, int24, int40 or int48, as its operands are "
     "integers, not 'float32'"),
    (lambda: vector_op("own", lambda a: a.astype("int32"), accumulator="int48").build(TINY),
     "Result of vector operation own must be int48, not int32"),
])
def test_another_accumulator_is_refused(declared, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        declared()


def by_hand(machine: Machine, dtype: str, product: bool):
    """The highest 16 bits of a long sum, of products by gemm or of cubes by vector, where it is
    positive."""
    bits, k = te.bits(dtype), te.reduce_axis(6, "k")
    x = te.placeholder((6, 1, 4), "int16", "x")
    w, i = te.placeholder((4, 4), "int16", "w"), te.reduce_axis(4, "i")
    again = te.reduce_axis(1 << 15, "again")        # the same products once more
    if product:
        sums = te.compute((1, 4), lambda n, o: te.sum(
            x[k.var, n, i.var].astype(dtype) * w[o, i.var].astype(dtype), (k, again, i)), "sums")
    else:
        sums = te.compute((1, 4), lambda n, o: te.sum(
            x[k.var, n, o].astype(dtype) * x[k.var, n, o].astype(dtype)
            * x[k.var, n, o].astype(dtype), k), "sums")
    positive = te.compute((1, 4), lambda n, o: te.maximum(sums[n, o], 0), "positive")
    high = te.compute((1, 4), lambda n, o: (positive[n, o] >> bits - 16).astype("int16"), "high")
    out = te.compute((1, 4), lambda n, o: high[n, o], "out")
    s = Schedule([out])
    s[sums].set_scope("acc")
    s[positive].set_scope("acc")
    s[high].set_scope("out")
    for source, buffer in ((x, "inp"), (w, "wgt")) if product else ((x, "res"),):
        s[source].cache_read(buffer).tensorize(None, machine.forms["load"][0])
    s[sums].reorder("k", "again", "n", "o", "i") if product else s[sums].reorder("k", "n", "o")
    s[sums].tensorize("n", machine.intrinsic("gemm" if product else "cube"))
    s[positive].tensorize("n", machine.intrinsic("max"))
    s[high].tensorize("n", machine.intrinsic("shr"))
    s[out].tensorize(None, machine.intrinsic("store"))
    return s.program


@pytest.mark.parametrize("bits", [24, pytest.param(40, marks=pytest.mark.slow), 48])
@pytest.mark.parametrize("unit", ["gemm", "vector"])
def test_long_sums_wrap_in_every_simulator(bits, unit, rng):
    dtype, product = f"int{bits}", unit == "gemm"
    machine = Machine(TINY, (*MACHINES[bits].declarations, vector_op(
        "cube", lambda a: a * a * a, update="sum", stored="int16", accumulator=dtype)))
    loops = by_hand(machine, dtype, product)
    program = lockstep.assemble(machine, loops)
    arrays = {"x": rng.integers(-32768, -32700, (6, 1, 4)).astype(np.int16)}
    if product:
        arrays["w"] = rng.integers(-32768, -32700, (4, 4)).astype(np.int16)
    exact = arrays["x"].astype(object)
    total = (((exact[:, :, None] * arrays["w"].astype(object)).sum(axis=3).sum(axis=0) << 15)
             if product else (exact ** 3).sum(axis=0))
    wanted = [max(wrapped(int(number), bits), 0) >> bits - 16 for number in total.reshape(-1)]
    assert any((wrapped(int(number), bits) > 0) != (number > 0) for number in total.reshape(-1))
    for simulate in (functional.simulate, cycle.simulate):
        run = simulate(machine, program, inputs=arrays)
        assert run.ok and program.extract(run.memory, "out").reshape(-1).tolist() == wanted


@pytest.mark.parametrize("bits", [24, 48])
@pytest.mark.parametrize("name", ["gemm", "reduce_add"])
def test_an_update_of_what_is_there_wraps(bits, name):
    """By NumPy: once for all iterations, and one after the other where an entry is met again."""
    machine = MACHINES[bits]
    unit = machine.intrinsic(name).unit
    for step in (0, 1):
        buffers = Buffers(machine.config)
        buffers.entries["acc"][:] = (1 << bits - 1) - 2
        for buffer in ("inp", "wgt", "res"):
            buffers.entries[buffer][:] = 1
        loops = [{"extent": 2, "dst": step}, {"extent": 2, "dst": 1 - step}]
        instruction = Instruction(name, unit, {
            "banks": 3, "reset": 0, "base": {}, "loops": loops, "a_source": 1})
        perform(machine, buffers, np.zeros(0, np.uint8), {}, instruction,
                touches(machine, instruction))
        terms = 2 * (4 if name == "gemm" else 1)
        assert buffers.entries["acc"][0, 0].tolist() == [wrapped((1 << bits - 1) - 2 + terms,
                                                                 bits)] * 4
