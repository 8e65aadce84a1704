"""Plans: the meaning of bodies, widths, stages, sharing, refusals."""

from dataclasses import replace

import numpy as np
import pytest

from accel.datapath.dataflow import Interval, meaning
from accel.datapath.lowering import bus_of
from accel.datapath.plan import PlanError, plan
from accel.machine.config import preset, preset_names
from accel.machine.intrinsics import SHIPPED, Declaration, vector_op
from accel.machine.machine import Machine
from compiler import te
from compiler.te import Axis, Var
from compiler.tensorize import Intrinsic, Operand
from tests.support.bodies import body_value
from tests.support.machines import HALVED, SPARSE

TINY = preset("tiny-1x4x4")
BATCHED = replace(TINY, name="batched-2x8x8", batch=2, block_in=8, block_out=8, stage_depth=1)

absdiff = vector_op("absdiff", lambda a, b: te.abs(a - b))


def numbers(rng, interval, shape):
    """Random numbers of an interval, its ends and zero among them."""
    values = rng.integers(interval.low, interval.high, shape, dtype=np.int64, endpoint=True)
    small = rng.integers(max(interval.low, -3), min(interval.high, 3), shape, endpoint=True)
    ends = rng.choice([interval.low, interval.high], shape)
    return np.choose(rng.integers(0, 4, shape), [values, values, small, ends])


def operands_of(rng, body):
    """Random operands by name of operand and immediate."""
    found = {}
    for operand in body.operands:
        stored = [dtype.rpartition(".")[2] for _, dtype in operand.storage]
        dtype = {"bias": "int32", "mult": "uint16", "shift": "uint8"}.get(stored[0], stored[0])
        found[operand.name] = numbers(rng, Interval.of_type(dtype), operand.shape)
    for immediate in body.immediates:
        interval = Interval(immediate.low, immediate.high)
        found[immediate.name] = int(numbers(rng, interval, (1,))[0])
    return found


def assert_plan_means_body(rng, machine, unit, rounds=40):
    made, tables = plan(machine, unit), machine.config.buffers["tab"].depth
    for opcode, body in zip(made.opcodes, made.bodies, strict=True):
        for _ in range(rounds):
            operands = operands_of(rng, body)
            buses = {bus_of(operand): operands[operand.name] for operand in body.operands}
            immediates = {i.name: operands[i.name] for i in body.immediates}
            if "table" in buses:
                number = int(rng.integers(tables))
                tab = rng.integers(-128, 128, (tables, 256))
                tab[number] = operands["table"]
                buses |= {"table": number, "tab": tab}
            assert (made.evaluate(opcode, buses | immediates)
                    == body_value(body, operands)).all(), body.name


@pytest.mark.parametrize("config", [TINY, BATCHED], ids=lambda config: config.name)
@pytest.mark.parametrize("unit", ["gemm", "vector"])
def test_plan_means_the_bodies(rng, config, unit):
    assert_plan_means_body(rng, Machine(config, (*SHIPPED, absdiff)), unit)


LANE = Var("lane_o", "int64").astype("int32")

KINDS = {
    "bits": lambda a, b: ((a & b) | (a ^ 0x55)) - (b & 0xFF0),
    "compared": lambda a, b: te.select(a < b, a, te.select((a >= b) ^ a.equal(3), b, -a)),
    "logic": lambda a, b: te.select(te.all_of(a <= b, a.not_equal(0), b > -5), a * 3, b * -7),
    "truth": lambda a, b: (a.astype("bool") | (b > 9)).astype("int32"),
    "unsigned": lambda a, b: (a.astype("uint8") - b.astype("uint8")).astype("int32"),
    "uint32": lambda a, b: (a.astype("uint32") * b.astype("uint32") >> 7).astype("int32"),
    "narrow": lambda a, b: (a.astype("int8") * b.astype("int8")).astype("int32"),
    "wide": lambda a, b: (a.astype("int64") * b.astype("int64") * a.astype("int64")
                          >> 40).astype("int32"),
    "shifts": lambda a, b: (a << (b & 31)) ^ (a >> (b & 7)) ^ (b << 3) ^ (b >> 9),
    "round": lambda a, b: te.rshift_rne(a, b & 31) + te.rshift_rne(b, 5) + te.rshift_rne(a, 0),
    "abs": lambda a, b: te.abs(a) + te.abs(te.maximum(b, -4)),
    "shl64": lambda a, b: (a.astype("int64") << (b & 63).astype("int64")).astype("int32"),
    "order": lambda a, b: (a >> (b & 15)) * b,
    "lanes": lambda a, b: (a >> (LANE & 7)) + (b << LANE) * te.select(LANE < 2, LANE, 5 - LANE),
    "constant": lambda a: a * 8 + te.const(7, "int32") * 6 - te.const(1, "int32"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_every_kind_of_expression(rng, depth):
    declarations = tuple(vector_op(name, value) for name, value in KINDS.items())
    term = Var("lane_i", "int64").astype("int32")
    declarations += (vector_op("weighted", lambda a: (a >> term) * term, lanes="sum"),)
    machine = Machine(replace(TINY, stage_depth=depth), SHIPPED + declarations)
    assert_plan_means_body(rng, machine, "vector")


TABLES = {
    "plain": lambda a, table: table[a & 255],
    "twice": lambda a, table: table[a & 255] * 9 + table[(a >> 8) & 255],
    "nested": lambda a, table: table[table[table[a & 255] & 127] & 255],
    "between": lambda a, s, table: te.rshift_rne(
        te.clamp(table[(a >> 4) & 255], -100, 100) * (a & 15), (s & 15).astype("int32")),
    "around": lambda a, zp, table: table[a.astype("uint8")] + table[128] - table[
        zp.astype("uint8").astype("int32") >> 1],
    "chosen": lambda a, table: te.select(a < 0, table[te.minimum(te.abs(a >> 2), 200) & 0xFF],
                                         a >> (table[a & 3] & 7)),
    "constant": lambda table: table[255] - table[0],
}


@pytest.mark.parametrize("depth, beats", [(1, 1), (2, 2), (5, 4)])
def test_lookups(rng, depth, beats):
    declarations = tuple(vector_op(name, value) for name, value in TABLES.items())
    config = replace(TINY, stage_depth=depth, vector_beats=beats)
    machine = Machine(config, SHIPPED + declarations)
    made = plan(machine, "vector")
    if beats == 1:
        assert_plan_means_body(rng, machine, "vector")
    # Bodies share them; nested and around have three, of which some are the same for all lanes.
    assert machine.config.lanes // beats < made.count("lookup") <= 3 * machine.config.lanes // beats
    for one in made.operations:
        if one.node.kind == "lookup":
            assert one.available == max(made.placed[arg].available for arg in one.node.args) + 2


LANES = {
    "total": (lambda a: a, "sum", "assign"),
    "spread": (lambda a, b: te.abs(a - b), "max", "assign"),
    "least": (lambda a, imm: a ^ imm, "min", "min"),
    "energy": (lambda a: a.astype("int16").astype("int32") * a.astype("int16").astype("int32"),
               "sum", "sum"),
    "weighed": (lambda a, bias, mult, s: te.rshift_rne(
        (a + bias).astype("int64") * mult.astype("int64"), (s & 31).astype("int64"))
        .astype("int32"), "sum", "assign"),
    "looked": (lambda a, table: table[a & 255], "sum", "max"),
}
LANE_OPS = tuple(vector_op(name, value, lanes=lanes, update=update)
                 for name, (value, lanes, update) in LANES.items())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("config", [TINY, BATCHED, replace(BATCHED, vector_beats=2),
                                    replace(TINY, block_out=2, stage_depth=5)],
                         ids=["tiny", "batched", "row by row", "two lanes"])
def test_reductions_over_lanes(rng, config):
    machine = Machine(config, SHIPPED + LANE_OPS)
    made, shipped = plan(machine, "vector"), plan(Machine(config), "vector")
    if config.vector_beats == 1:
        assert_plan_means_body(rng, machine, "vector", 20)
    assert (made.count("mul"), made.count("lookup")) == (shipped.count("mul"),
                                                         shipped.count("lookup"))


def test_a_sum_over_lanes_keeps_32_bits_at_each_level():
    made = plan(Machine(replace(TINY, block_out=64, par_bytes=2048), (
        *SHIPPED, LANE_OPS[0])), "vector")
    assert max(one.node.interval.width for one in made.operations
               if one.node.kind == "fold") == 33


def test_a_value_that_is_the_same_in_all_lanes_is_not_reduced_over_them():
    with pytest.raises(PlanError) as refused:
        plan(Machine(TINY, (*SHIPPED, vector_op("own", lambda imm: imm, lanes="sum"))), "vector")
    assert str(refused.value) == ("Value under a reduction must depend on its indices "
                                  "(body of own)")


def test_a_lookup_of_every_machine_is_one_a_lane_and_adds_no_stage():
    for name in preset_names():
        machine = Machine(preset(name))
        made = plan(machine, "vector")
        without = plan(Machine(machine.config, SHIPPED[:-1]), "vector")
        assert made.count("lookup") == machine.config.lanes // machine.config.vector_beats
        assert without.count("lookup") == without.table_bits == 0
        assert made.latency == without.latency
        assert 1 << made.table_bits == machine.config.buffers["tab"].depth


def reducing(name, value, update="sum"):
    """A gemm body: `value` of an element of inp, an element of wgt and the reduction axis."""
    def build(config):
        b, o = Axis(Var("p"), config.batch), Axis(Var("q"), config.block_out)
        i = te.reduce_axis(config.block_in, "k")
        inp = te.placeholder((b.extent, i.extent), "int8", "x")
        wgt = te.placeholder((o.extent, i.extent), "int8", "w")
        body = value(inp[b.var, i.var].astype("int32"), wgt[o.var, i.var].astype("int32"), i)
        return (Intrinsic(name, "gemm", Operand("dst", (b.extent, o.extent), "int32",
                                                (("acc", "int32"),)),
                          (Operand("x", inp.shape, "int8", (("inp", "int8"),)),
                           Operand("w", wgt.shape, "int8", (("wgt", "int8"),))),
                          (b, o), body, update, loops=6),)
    return Declaration(name, "gemm", build)


REDUCTIONS = (
    reducing("distance", lambda x, w, i: te.sum(te.abs(x - w), i)),
    reducing("nearest", lambda x, w, i: te.min(te.maximum(x, w) * 3, i), "min"),
    reducing("largest", lambda x, w, i: te.max(x * w, i), "max"),
    reducing("wrapping", lambda x, w, i: te.sum((x + 300) * (w + 900) * (x * 77), i)),
)


@pytest.mark.parametrize("config", [TINY, BATCHED], ids=lambda config: config.name)
def test_lane_reductions(rng, config):
    machine = Machine(config, SHIPPED + REDUCTIONS)
    assert_plan_means_body(rng, machine, "gemm")
    # gemm, largest and one of wrapping share a multiplier; wrapping has two more.
    assert plan(machine, "gemm").count("mul") == 3 * config.macs_per_cycle


@pytest.mark.parametrize("config", [TINY, BATCHED], ids=lambda config: config.name)
def test_bodies_of_different_reductions(rng, config):
    """A product of fewer terms takes some of the multipliers of another; an index may be a value,
    and an operand the first elements of an entry."""
    alone = Machine(config, HALVED.declarations)
    beside = Machine(config, (*SPARSE.declarations, *REDUCTIONS))
    for machine in (alone, Machine(config, SPARSE.declarations), beside):
        assert_plan_means_body(rng, machine, "gemm")
    made = plan(alone, "gemm")
    assert made.count("mul") == config.macs_per_cycle // 2 == made.count("element")
    shared = plan(Machine(config, SPARSE.declarations), "gemm")
    assert shared.count("mul") == config.macs_per_cycle
    assert shared.count("fold") == plan(Machine(config), "gemm").count("fold")
    assert plan(beside, "gemm").count("mul") == 3 * config.macs_per_cycle


def gathered(index, name="gathered", place=lambda o: o):
    """A gemm body that reads inp at `index` of the reduction axis and an element of wgt."""
    def build(config):
        b, o = Axis(Var("p"), config.batch), Axis(Var("q"), config.block_out)
        k = te.reduce_axis(config.block_in // 2, "k")
        inp = te.placeholder((b.extent, config.block_in), "int8", "x")
        wgt = te.placeholder((config.block_out, config.block_in), "int8", "w")
        weight = wgt[place(o.var), k.var].astype("int32")
        value = te.sum(inp[b.var, index(k.var, weight)].astype("int32") * weight, k)
        return (Intrinsic(name, "gemm", Operand("dst", (b.extent, o.extent), "int32",
                                                (("acc", "int32"),)),
                          (Operand("x", inp.shape, "int8", (("inp", "int8"),)),
                           Operand("w", wgt.shape, "int8", (("wgt", "int8"),))),
                          (b, o), value, "sum", loops=6),)
    return Declaration(name, "gemm", build)


INDICES = {
    "odd": lambda k, w: 2 * k + 1,
    "backwards": lambda k, w: 3 - k,
    "halves": lambda k, w: te.select(k < 1, k, k + 1),
    "chosen": lambda k, w: 2 * k + (w & 1).astype("int64"),
    "anywhere": lambda k, w: w & 3,
    "from below": lambda k, w: k + 1 - (w & 1).astype("int64"),
    "twice": lambda k, w: (w & 1).astype("int64") * 2 + (w >> 7 & 1).astype("int64"),
}


@pytest.mark.parametrize("config", [TINY, BATCHED], ids=lambda config: config.name)
def test_every_kind_of_index(rng, config):
    bodies = [gathered(index, f"by{n}") for n, index in enumerate(INDICES.values())]
    machine = Machine(config, (*SHIPPED, *bodies))
    assert_plan_means_body(rng, machine, "gemm")


@pytest.mark.parametrize("index, message", [
    (lambda k, w: 2 * k + 2, "Index of x must lie in 0 ... 3, not in 2 ... 4"),
    (lambda k, w: 2 * k + (w & 3).astype("int64"),
     "Index of x must lie in 0 ... 3, not in 0 ... 5; mask it"),
    (lambda k, w: k - (w & 1).astype("int64"),
     "Index of x must lie in 0 ... 3, not in -1 ... 1; mask it"),
    (lambda k, w: w, "Index of x must lie in 0 ... 3, not in -128 ... 127; mask it"),
])
def test_index_wrong(index, message):
    with pytest.raises(PlanError) as refused:
        plan(Machine(TINY, (*SHIPPED, gathered(index, "wrong"))), "gemm")
    assert str(refused.value) == f"{message} (body of wrong)"


@pytest.mark.parametrize("name", ["tiny-1x4x4", "pynq-1x16x16"])
def test_expensive_operators_are_shared(name):
    machine = Machine(preset(name))
    made = plan(machine, "vector")
    lanes = machine.config.lanes
    assert made.count("mul") == 2 * lanes               # mul, requantize and add_scaled's two
    assert made.count("stick") == 3 * lanes             # a shifter of 6 bits: shr and both
    assert made.count("round") == lanes                 # and what follows it
    assert plan(machine, "gemm").count("mul") == machine.config.macs_per_cycle


def test_text(golden):
    machine = Machine(preset("pynq-1x16x16"))
    golden("plan-pynq-1x16x16.txt", "\n\n".join(str(plan(machine, unit))
                                                for unit in ("gemm", "vector")))


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_stages_keep_their_depth(depth):
    made = plan(Machine(replace(TINY, stage_depth=depth)), "vector")
    for one in made.operations:
        assert 0 <= one.level <= depth and one.stage < made.latency
        for arg in one.node.args:
            before = made.placed[arg]
            assert (before.available, before.level if before.available == before.stage else 0) <= (
                one.stage, one.level)
            if one.node.kind == "mul":
                assert before.available < one.stage         # a register before the multiplier


def test_latency_of_shipped_machines():
    assert {name: [(made.latency, made.write_cycles, made.retire_depth) for made in
                   (plan(Machine(preset(name)), unit) for unit in ("gemm", "vector"))]
            for name in ("tiny-1x4x4", "pynq-1x16x16")} == {
        "tiny-1x4x4": [(3, 6, 16), (9, 13, 32)], "pynq-1x16x16": [(4, 7, 16), (9, 13, 32)]}


def last_use(made, node):
    return max(one.stage for one in made.operations if node in one.node.args)


@pytest.mark.parametrize("name", ["tiny-1x4x4", "ecp5-1x8x8"])
def test_what_waits_travels_with_results(name):
    """`shr` takes its operand where requantize has multiplied: among the results of others."""
    made = plan(Machine(preset(name)), "vector")
    a, = (one.node for one in made.operations
          if one.node.kind == "read" and one.node.attr[0] == "a" and one.node.interval.width == 32)
    shifter = next(one for one in made.operations if one.node.kind == "stick")
    assert last_use(made, a) == 1 < shifter.stage - 2


def test_a_term_of_another_sum_is_the_sum_with_zeros():
    """requantize shifts the product that add_scaled adds two more to."""
    made = plan(Machine(TINY), "vector")
    product, = (one for one in made.operations if one.node.kind == "mul"
                and one.node.interval.width > 32)
    takers = {one.node.kind for one in made.operations if product.node in one.node.args}
    assert takers == {"add", "wrap"}            # no multiplexer
    assert last_use(made, product.node) == product.available


def waiting(k, shared):
    """A body that takes its operand after `k` multiplications, in a multiplier of all bodies."""
    def value(a, b):
        x = b
        for number in range(k):
            x = (x.astype("int16").astype("int32") * (number + 3 + k)) ^ b
        return shared(x, a)
    return value


@pytest.mark.one_in(3)
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_several_that_wait(rng, depth):
    shared = {"shift": lambda x, a: a >> (x & 31), "product": lambda x, a: x * a,
              "round": lambda x, a: te.rshift_rne(a, x & 15) + x}
    declarations = tuple(vector_op(f"{name}{k}", waiting(k, value))
                         for name, value in shared.items() for k in range(3))
    machine = Machine(replace(TINY, stage_depth=depth), SHIPPED + declarations)
    assert_plan_means_body(rng, machine, "vector")

def test_what_is_limited_is_clipped_before_it_is_rounded_and_added():
    """Bounds and zero point are int8: values beyond +-384 are as good as +-384."""
    made = plan(Machine(preset("pynq-1x16x16")), "vector")
    widths = {one.node.kind: one.node.interval.width for one in made.operations}
    assert (widths["stick"], widths["clip"], widths["round"]) == (51, 12, 11)
    clip, = (one.node for one in made.operations if one.node.kind == "clip")
    values = np.array([0, 1, -1, 2047, 2048, 10**9, -2048, -2049, -10**9], dtype=object)
    assert (meaning("clip", clip.attr, values).tolist()
            == [0, 1, -1, 2047, 2047, 2047, -2048, -2048, -2048])


def test_widths_follow_from_intervals():
    made = plan(Machine(preset("pynq-1x16x16")), "vector")
    products = sorted(one.node.interval.width for one in made.operations
                      if one.node.kind == "mul")
    assert products == [24, 49]         # mb by an int8; (acc + bias) by mult, in 33 + 16 bits


@pytest.mark.parametrize("value, message", [
    (lambda a, b: a.astype("float64").astype("int32"),
     "Values must be integers or float16, bfloat16, float32, float8_e4m3fn, float8_e5m2, not "
     "float64"),
    (lambda a, b: a.astype("float32").astype("int64").astype("int32"),
     "Integer from float32 must have 32 bits or less, not int64"),
    (lambda a, b: a >> b, "Amount of shr must lie in 0 ... 31, not in -2147483648 ... 2147483647; "
                          "mask it"),
    (lambda a, b: te.rshift_rne(a, b & 63),
     "Amount of rshift_rne must lie in 0 ... 31, not in 0 ... 63; mask it"),
    (lambda a, table: table[a], "Index of table must lie in 0 ... 255, not in -2147483648 ... "
                                "2147483647; mask it"),
    (lambda a, table: table[a.astype("int8")],
     "Index of table must lie in 0 ... 255, not in -128 ... 127; mask it"),
    (lambda table: table[Var("lane_o", "int64") * 90],
     "Index of table must lie in 0 ... 255, not in 0 ... 270; mask it"),
])
def test_vector_body_wrong(value, message):
    machine = Machine(TINY, (*SHIPPED, vector_op("wrong", value)))
    with pytest.raises(PlanError) as refused:
        plan(machine, "vector")
    assert str(refused.value) == f"{message} (body of wrong)"


@pytest.mark.parametrize("value, message", [
    (lambda x, w, i: te.sum(te.const(3, "int32"), i),
     "Value under a reduction must depend on its indices"),
    (lambda x, w, i: te.sum(x.astype("int64"), i), "Value must be int32, not int64"),
])
def test_gemm_body_wrong(value, message):
    with pytest.raises(PlanError) as refused:
        plan(Machine(TINY, (*SHIPPED, reducing("wrong", value))), "gemm")
    assert str(refused.value) == f"{message} (body of wrong)"


def rolled(name, index):
    """A vector body that reads an element of another place."""
    tile = (TINY.batch, TINY.block_out)
    axes = te.Axis(Var("x"), tile[0]), te.Axis(Var("y"), tile[1])
    value = te.placeholder(tile, "int32", "a")[index(axes[0].var, axes[1].var)]
    operand, dst = (Operand(one, tile, "int32", (("acc", "int32"),)) for one in ("a", "dst"))
    return Declaration(name, "vector", lambda config: (
        Intrinsic(name, "vector", dst, (operand,), axes, value, loops=5),))


def test_body_that_cannot_be_computed_by_parts_wrong():
    """An entry in several beats has the elements of each at hand, no others."""
    parts = replace(TINY, vector_beats=2)
    for index in (lambda x, y: (x, 0), lambda x, y: (0, y)):
        other = rolled("other", index)
        assert plan(Machine(TINY, (*SHIPPED, other)), "vector").latency
        with pytest.raises(PlanError) as refused:
            plan(Machine(parts, (*SHIPPED, other)), "vector")
        assert str(refused.value) == ("Body of other must compute each element from its own "
                                      "operands, as vector_beats is 2")


@pytest.mark.parametrize("batch, beats", [(1, 2), (1, 4), (4, 2), (4, 8)])
def test_vector_by_parts(batch, beats):
    """n beats have n times fewer operators and n cycles between tiles; nothing else changes."""
    whole, parts = (plan(Machine(replace(TINY, batch=batch, vector_beats=count)), "vector")
                    for count in (1, beats))
    assert (parts.interval, parts.latency) == (beats, whole.latency)
    assert parts.count("mul") * beats == whole.count("mul")
    assert parts.buses["mult"] == parts.shape[1:]
    assert plan(Machine(replace(TINY, batch=batch, vector_beats=beats)), "gemm").interval == 1


def test_body_of_several_values_wrong():
    first = te.reducer("first", lambda x, y: x, (te.const(0, "int32"),))
    wrong = reducing("wrong", lambda x, w, i: first((x,), i))
    with pytest.raises(TypeError) as refused:
        wrong.build(TINY)
    assert str(refused.value) == "Value of wrong must be one expression, not a reduction"


def test_clamps_compare_side_by_side_whatever_the_bounds(rng):
    machine = Machine(TINY)
    made = plan(machine, "vector")
    assert made.count("limit") == 2 * machine.config.lanes      # clamp; requantize and add_scaled
    body = machine.intrinsic("clamp")
    for lo, hi in ((-3, 5), (5, -3), (7, 7), (-128, 127), (127, -128)):
        operands = operands_of(rng, body) | {"lo": lo, "hi": hi}
        operands["a"] = np.resize([lo - 1, lo, hi, hi + 1, -2**31, 2**31 - 1], body.dst.shape)
        assert (made.evaluate(machine.opcodes["clamp"], operands)
                == body_value(body, operands)).all(), (lo, hi)


def test_extremes_share_the_difference_and_the_choice():
    made = plan(Machine(TINY), "vector")
    lanes = TINY.lanes
    assert made.count("min") + made.count("max") == 0
    assert made.count("pick") == lanes and made.count("lt") == 5 * lanes + 1
