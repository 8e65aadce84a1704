"""Schedules that the generic template makes: legal, as text, and with the same results."""

from collections.abc import Sequence

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import build
from compiler.ir import Program, interpret, lower, loops, program_text
from compiler.plans import Task
from compiler.schedule import Schedule
from compiler.te import Tensor, numpy_dtype
from compiler.tune import generic
from compiler.tune.accesses import VectorCore
from compiler.tune.chooser import OWN
from compiler.tune.generic import GenericSpace, generic_schedule
from compiler.tune.space import PointRefused, neighbours
from tests.support.effort import Effort

CORE = VectorCore(8, 16, (1 << 15, 1 << 20))
SHARED = VectorCore(8, 16, (1 << 15, 1 << 20), 2)


def product(dtype: str = "float32", turned: bool = False) -> Tensor:
    x = te.placeholder((13, 12), dtype, name="x")
    y = te.placeholder((40, 12) if turned else (12, 40), dtype, name="y")
    k = te.reduce_axis(12, name="k")
    return te.compute((13, 40), lambda i, j: te.sum(
        x[i, k] * (y[j, k] if turned else y[k, j]), axis=k), name="z")


def convolution() -> Tensor:
    x, w = (te.placeholder(shape, "float32", name=name)
            for name, shape in (("x", (3, 9, 9)), ("w", (6, 3, 3, 3))))
    p = te.compute((3, 11, 11), lambda c, h, v: te.select(
        te.all_of(h >= 1, h < 10, v >= 1, v < 10), x[c, h - 1, v - 1], 0.0), name="p")
    c, a, b = (te.reduce_axis(3, name=name) for name in ("c", "a", "b"))
    total = te.compute((6, 9, 9), lambda f, h, v: te.sum(
        p[c, h + a, v + b] * w[f, c, a, b], axis=(c, a, b)), name="total")
    return te.compute((6, 9, 9), lambda f, h, v: total[f, h, v] + 0.5, name="y")


def strided() -> Tensor:
    x, w = (te.placeholder(shape, "int8", name=name)
            for name, shape in (("x", (4, 12, 12)), ("w", (5, 4))))
    c = te.reduce_axis(4, name="c")
    return te.compute((5, 6, 6), lambda f, h, v: te.sum(
        te.cast(x[c, 2 * h, 2 * v], "int32") * te.cast(w[f, c], "int32"), axis=c), name="y")


def pool() -> Tensor:
    x = te.placeholder((3, 12, 14), "int8", name="x")
    a, b = te.reduce_axis(2, name="a"), te.reduce_axis(2, name="b")
    return te.compute((3, 6, 7), lambda c, h, v: te.max(
        x[c, 2 * h + a, 2 * v + b], axis=(a, b)), name="y")


def softmax() -> Tensor:
    x = te.placeholder((5, 37), "float32", name="x")
    k, l = te.reduce_axis(37, name="k"), te.reduce_axis(37, name="l")
    top = te.compute((5,), lambda i: te.max(x[i, k], axis=k), name="top")
    power = te.compute((5, 37), lambda i, j: te.exp(x[i, j] - top[i]), name="power")
    total = te.compute((5,), lambda i: te.sum(power[i, l], axis=l), name="total")
    return te.compute((5, 37), lambda i, j: power[i, j] / total[i], name="y")


def elementwise() -> Tensor:
    x, b = te.placeholder((13, 21), "float32", name="x"), te.placeholder((21,), "float32", name="b")
    t = te.compute((13, 21), lambda i, j: x[i, j] * 2.0 + b[j], name="t")
    return te.compute((21, 13), lambda j, i: te.tanh(t[i, j]) - t[i, j], name="z")


def gathered() -> Tensor:
    x = te.placeholder((30, 20), "float32", name="x")
    where = te.placeholder((17,), "int32", name="where")
    return te.compute((17, 20), lambda i, j: x[te.cast(where[i], te.INDEX), j] + 1.0, name="y")


def greatest() -> Tensor:
    """The place of the maximum of what is computed before: a reducer of two values."""
    x = te.placeholder((9, 24), "int32", name="x")
    a = te.compute((9, 24), lambda i, j: x[i, j] * 2 + 1, name="a")
    def combine(a, b):
        earlier = te.any_of(a[0] > b[0], te.all_of(a[0].equal(b[0]), a[1] < b[1]))
        return te.select(earlier, a[0], b[0]), te.select(earlier, a[1], b[1])

    first = te.reducer("first", combine, (te.Const(-2 ** 31, "int32"),
                                          te.Const(2 ** 31 - 1, "int32")))
    k = te.reduce_axis(24, name="k")
    _, place = te.compute((9,), lambda i: first((a[i, k], te.cast(k.var, "int32")), k),
                          name=("most", "place"))
    return te.compute((9,), lambda i: place[i] + 1, name="y")


def recurrence() -> Tensor:
    x = te.placeholder((7, 20), "int32", name="x")
    total = te.scan((7, 20), lambda j: x[0, j], lambda s, t: te.compute(
        (20,), lambda j: s[t - 1, j] + x[t, j], name="step"), "total")
    return te.compute((7, 20), lambda i, j: total[i, j] * 2, name="y")


EXPRESSIONS = {
    "product": product, "product of integers": lambda: product("int32"),
    "turned product": lambda: product(turned=True), "convolution": convolution,
    "strided": strided, "pool": pool, "softmax": softmax, "elementwise": elementwise,
    "gathered": gathered, "greatest": greatest, "recurrence": recurrence}


def space_of(name: str, core: VectorCore = CORE) -> GenericSpace:
    return GenericSpace(Task("", name, name), lower([EXPRESSIONS[name]()], "main"), core)


def inputs_of(program: Program) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {buffer.name: (random.normal(size=buffer.shape).astype(numpy_dtype(buffer.dtype))
                          if buffer.dtype == "float32" else
                          random.integers(0, 9, buffer.shape).astype(numpy_dtype(buffer.dtype)))
            for buffer in program.inputs}


def drawn(space: GenericSpace, count: int, seed: int = 0) -> Sequence[str]:
    random, plans = np.random.default_rng(seed), [space.candidate({}).plan]
    while len(plans) < count:
        try:
            plans.append(space.candidate({}, random).plan)
        except PointRefused:
            pass
    return plans


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "core"), [
    *((name, CORE) for name in EXPRESSIONS), ("product", SHARED), ("softmax", SHARED)])
def test_random_schedules_compute_the_same_bits(name: str, core: VectorCore) -> None:
    """In the interpreter, whose sums keep the order of the schedule, and on this processor."""
    space = space_of(name, core)
    inputs, out = inputs_of(space.program), space.program.outputs[0].name
    expected = interpret(space.program, inputs)[out]
    for number, plan in enumerate(drawn(space, 2 if Effort.quick else 5)):
        program = Schedule.replay(space.program, plan).program
        assert interpret(program, inputs)[out].tobytes() == expected.tobytes(), plan
        if number in (0, 4):
            np.testing.assert_allclose(build(program).compute(inputs)[out], expected,
                                       rtol=1e-5, atol=1e-5, err_msg=plan)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_points_lead_to_their_plans_again(name: str) -> None:
    space, random = space_of(name), np.random.default_rng(1)
    candidate = space.candidate({}, random)
    assert space.candidate(candidate.point) == candidate
    assert Schedule.replay(space.program, candidate.plan).text() == candidate.plan
    assert "reassociate" not in candidate.plan


def test_extents_that_are_symbols_leave_nothing_to_decide() -> None:
    n = te.symbol("n")
    x = te.placeholder((n,), "float32", name="x")
    y = te.compute((n,), lambda i: x[i] + 1.0, name="y")
    candidate = GenericSpace(Task("", "", ""), lower([y], "main"), CORE).candidate({})
    assert candidate.plan == "" and candidate.decisions == ()


def test_the_own_choice_is_a_tile_in_registers() -> None:
    space = space_of("product")
    own = generic_schedule(space.program, CORE, OWN)
    assert own.text() == space.candidate({}).plan
    assert program_text(own.program) == """\
program main(x: float32[13, 12], y: float32[12, 40]) -> z: float32[13, 40]
for z_j_o in 0..5:
  alloc z_sum: float32[13, 8]
  for z_sum_i_init in 0..13 (unroll):
    for z_sum_j_init in 0..8 (vectorize):
      z_sum[z_sum_i_init, z_sum_j_init] = -0.0
  for k in 0..12:
    for z_sum_i in 0..13 (unroll):
      for z_sum_j in 0..8 (vectorize):
        z_sum[z_sum_i, z_sum_j] += x[z_sum_i, k] * y[k, z_j_o*8 + z_sum_j] over(k)
  for z_i in 0..13 (unroll):
    for z_j_i in 0..8 (vectorize):
      z[z_i, z_j_o*8 + z_j_i] = z_sum[z_i, z_j_i]
"""


def test_rows_are_done_one_after_the_other() -> None:
    text = program_text(generic_schedule(space_of("softmax").program, CORE, OWN).program)
    assert text.index("for y_i in 0..5") < text.index("top[") < text.index("total[")
    assert "alloc power: float32[1, 37]" in text


def test_sums_whose_lanes_are_apart_are_kept_few() -> None:
    """Vectors run along the first dimension, since neighbours of the others are read apart."""
    x, w = te.placeholder((16, 28, 28), "float32", name="x"), te.placeholder(
        (16, 16), "float32", name="w")
    c = te.reduce_axis(16, name="c")
    y = te.compute((16, 14, 14), lambda f, h, v: te.sum(
        x[c, 2 * h, 2 * v] * w[c, f], axis=c), name="y")
    point = GenericSpace(Task("", "", ""), lower([y], "main"), CORE).candidate({}).point
    assert point["y vector"] == "y_f"
    assert point["y tile y_h"] == point["y tile y_v"] == "1"


def test_what_is_far_away_costs_more() -> None:
    """Elements of a large stage are needed once each, wherever they are computed."""
    x = te.placeholder((512, 4096), "float32", name="x")
    a = te.compute((512, 4096), lambda i, j: te.exp(x[i, j]), name="a")
    y = te.compute((512, 4096), lambda i, j: a[i, j] + 1.0, name="y")
    asked = GenericSpace(Task("", "", ""), lower([y], "main"), CORE).candidate({}).decisions
    costs = {decision.name: dict(zip(decision.options, decision.costs)) for decision in asked}
    at = costs["a at"]
    assert at["inline"] <= at["y_j_o"] < at["y_i"] < at["alone"]


def test_threads_share_outer_loops() -> None:
    program = generic_schedule(space_of("convolution", SHARED).program, SHARED, OWN).program
    shared = [loop for loop in loops(program.body) if loop.kind == "parallel"]
    assert [loop.var.name for loop in shared] == ["p_c_p_h", "y_f_o"]
    assert {loop.annotations for loop in shared} == {(("num_threads", 2),)}


def test_the_template_asks_what_its_description_lists() -> None:
    space, random = space_of("product"), np.random.default_rng(2)
    names = {decision.name for _ in range(40)
             for decision in space.candidate({}, random).decisions}
    for part in ("at", "vector", "tile z_sum_i", "tile z_sum_j", "reduce", "cut", "begins",
                 "unrolled", "copy of x"):
        assert f"z_sum {part}" in names
    for part in ("apart", "vector", "tile z_i", "order", "unrolled", "reduce", "peel"):
        assert f"z {part}" in names


def test_neighbours_of_the_own_choice_are_other_plans() -> None:
    space = space_of("product")
    own = space.candidate({})
    plans = {space.candidate(point).plan for point in neighbours(own)}
    assert own.plan not in plans and len(plans) >= 20


def test_a_refusal_says_why_and_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generic, "MOST_STATEMENTS", 16)
    with pytest.raises(PointRefused, match="^product: unroll: at most 16 statements may be "
                                           "written out, not 39$") as refusal:
        space_of("product").candidate({})
    assert refusal.value.decisions[0].name == "z apart"


@pytest.mark.parametrize("name", ["z_sum reduce", "z order"])
def test_options_that_there_are_not_are_the_own_ones(name: str) -> None:
    space = space_of("product")
    assert space.candidate({name: "a loop of another program"}) == space.candidate({})
