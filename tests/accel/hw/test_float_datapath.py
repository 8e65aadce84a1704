"""Datapaths of float bodies: the hardware against NumPy."""

import numpy as np
import pytest

from accel.datapath.plan import arranged
from accel.sim.meaning.evaluate import evaluate
from compiler import te
from tests.accel.datapath.test_floats import numbers, pairs
from tests.accel.hw.compute.test_datapath import run
from tests.support.float_bodies import BODIES, meaning_of, product_sum
from tests.support.verilated_datapath import VerilatedDatapath


def operands_of(rng, body, count):
    """Random operands of a body, bits of floats: pairs of some that cancel, for bodies of two."""
    types = {operand.name: (operand.dtype, operand.shape) for operand in body.operands}
    if len({dtype for dtype, _ in types.values()}) == 1 and "a" in types:
        dtype, shape = types["a"]
        if te.is_float(dtype):
            both = pairs(rng, dtype, count * np.prod(shape))
            return {name: x.reshape(count, *shape) for name, x in zip("ab", both)}
    return {name: (numbers(rng, dtype, count * np.prod(shape)) if te.is_float(dtype) else
                   rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, count * np.prod(shape),
                                np.int64, True)).reshape(count, *shape)
            for name, (dtype, shape) in types.items()}


@pytest.mark.parametrize("name, depth", [
    ("sum", 3), ("product_of_bfloat16", 2), pytest.param("to_int8", 1, marks=pytest.mark.slow)])
def test_matches_plan_one_a_cycle(rng, name, depth):
    body = BODIES[name]
    made = arranged("vector", (body,), (0,), body.dst.shape, stage_depth=depth)
    operands = operands_of(rng, body, 60)
    elements = [(0, {name: x[k] for name, x in operands.items()}) for k in range(60)]
    values = np.array(run(made, elements))
    assert (values == meaning_of(body, operands)).all()
    assert (values[:9] == [made.evaluate(*element) for element in elements[:9]]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_body(rng, name):
    body = BODIES[name]
    core = VerilatedDatapath(arranged("vector", (body,), (0,), body.dst.shape, stage_depth=4))
    operands = operands_of(rng, body, 500_000)
    assert (core.run(operands) == meaning_of(body, operands)).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype, lanes, depth", [
    ("bfloat16", 4, 2), ("float16", 8, 4), ("bfloat16", 5, 3)])
def test_sums_of_products_are_folded_in_order(rng, dtype, lanes, depth):
    """The last of five lanes waits twice."""
    body = product_sum(dtype, 1, 2, lanes)
    core = VerilatedDatapath(arranged("gemm", (body,), (0,), body.dst.shape, stage_depth=depth))
    operands = operands_of(rng, body, 20_000)
    few = rng.random(20_000) < 0.8      # numbers of which sums are not all infinite or NaN
    for raw in operands.values():
        unit = te.numpy_dtype(dtype).type(1).view(np.uint16)
        spread = 1 << (7 if dtype == "bfloat16" else 10)
        near = unit + rng.integers(-12 * spread, 12 * spread, raw.shape) | rng.integers(
            0, 2, raw.shape) << 15
        raw[few] = near[few]
    assert (core.run(operands) == meaning_of(body, operands)).all()
    # Another order gives other sums: so the order was seen.
    tiles = {name: raw.astype(np.uint16).view(te.numpy_dtype(dtype)).astype(np.float32)
             for name, raw in operands.items()}
    with np.errstate(all="ignore"):
        terms = tiles["inp"][:, :, None] * tiles["wgt"][:, None]
        forward = terms[..., 0]
        for lane in range(1, lanes):
            forward = forward + terms[..., lane]
    value = evaluate(body.value, body.axes, {
        name: raw.astype(np.uint16).view(te.numpy_dtype(dtype)) for name, raw in operands.items()},
        {}, 20_000)
    assert (value != forward)[few].mean() > 0.01
