"""Bodies of the shipped instructions against plain NumPy formulas of docs/machine.md."""

import numpy as np
import pytest

from accel.machine.intrinsics import SHIPPED, Declaration
from accel.machine.machine import Machine
from accel.sim.meaning.evaluate import evaluate
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import numpy_dtype, record_fields
from tests.support.machines import TINY, machine

COUNT = 64
MACHINES = [TINY, machine("2x8x8")]
VECTOR = {d.name: d for d in SHIPPED if d.unit == "vector"}

in_machines = pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.config.name)


def wrapped(value) -> np.ndarray:
    return np.asarray(value).astype(np.int64).astype(np.int32)


def clamped(scaled, f) -> np.ndarray:
    return np.clip(np.rint(scaled) + f["zp"], f["lo"], f["hi"])


def requantized(f):
    """Requantizes in float64: the sum has 33 bits, the product 49, and ldexp is exact."""
    product = (f["a"].astype(np.float64) + f["bias"]) * f["mult"]
    return clamped(np.ldexp(product, -(f["shift"].astype(np.int32) & 63)), f)


def added_scaled(f):
    total = f["a"].astype(np.float64) * f["ma"] + f["b"].astype(np.float64) * f["mb"] + f["imm"]
    return clamped(np.ldexp(total, -f["s"]), f)


FORMULAS = {
    "add": lambda f: wrapped(f["a"].astype(np.int64) + f["b"]),
    "sub": lambda f: wrapped(f["a"].astype(np.int64) - f["b"]),
    "max": lambda f: np.maximum(f["a"], f["b"]),
    "min": lambda f: np.minimum(f["a"], f["b"]),
    "mul": lambda f: wrapped(f["a"].astype(np.int64) * f["b"].astype(np.int16)),
    "shr": lambda f: np.floor_divide(f["a"].astype(np.int64), 1 << (f["b"] & 31).astype(np.int64)),
    "clamp": lambda f: np.minimum(np.maximum(f["a"], f["lo"]), f["hi"]),
    "copy": lambda f: f["b"],
    "requantize": requantized,
    "add_scaled": added_scaled,
    "reduce_add": lambda f: f["a"], "reduce_max": lambda f: f["a"],
    "reduce_min": lambda f: f["a"],
    "lookup": lambda f: np.take_along_axis(
        f["table"], (f["a"].reshape(COUNT, -1) % 256).astype(int), 1).reshape(f["a"].shape),
}
UPDATES = {"reduce_add": "sum", "reduce_max": "max", "reduce_min": "min"}


def operands(intrinsic, rng) -> dict[str, np.ndarray]:
    """Numbers of all sizes, the ends of the range among them."""
    tiles = {}
    for operand in intrinsic.operands:
        bounds = np.iinfo(numpy_dtype(operand.dtype))
        if operand.name == "shift":
            tile = rng.integers(0, 47, (COUNT, *operand.shape))
        elif operand.name == "table":
            tile = rng.integers(-128, 128, (COUNT, *operand.shape))
        else:
            width = rng.integers(1, bounds.bits + 1, (COUNT, *operand.shape))
            tile = rng.integers(bounds.min, bounds.max, (COUNT, *operand.shape), endpoint=True)
            tile >>= bounds.bits - width
            tile.flat[:2] = bounds.min, bounds.max
        tiles[operand.name] = tile.astype(numpy_dtype(operand.dtype))
    return tiles


def scalars(intrinsic, rng) -> dict[str, int]:
    values = {i.name: int(rng.integers(i.low, i.high, endpoint=True))
              for i in intrinsic.immediates}
    if "s" in values:
        values["s"] %= 47
    if "lo" in values:
        values["lo"], values["hi"] = sorted((values["lo"], values["hi"]))
    return values


@in_machines
@pytest.mark.parametrize("name", VECTOR)
def test_a_body_is_its_formula(machine: Machine, name: str, rng) -> None:
    intrinsic = machine.intrinsic(name)
    for _ in range(20):
        tiles, given = operands(intrinsic, rng), scalars(intrinsic, rng)
        found = evaluate(intrinsic.value, intrinsic.axes, tiles, given, COUNT)
        rows = {key: tile if tile.ndim == 3 or key == "table" else tile[:, None]
                for key, tile in tiles.items()}
        assert found.dtype == np.int32
        assert found.shape == (COUNT, machine.config.batch, machine.config.block_out)
        wanted = FORMULAS[name](rows | given)
        np.testing.assert_array_equal(found, np.broadcast_to(wanted, found.shape))
    assert intrinsic.update == UPDATES.get(name, "assign")


@in_machines
def test_gemm_is_a_product_of_blocks(machine: Machine, rng) -> None:
    gemm = machine.intrinsic("gemm")
    tiles = {o.name: rng.integers(-128, 128, (COUNT, *o.shape)).astype(np.int8)
             for o in gemm.operands}
    found = evaluate(gemm.value, gemm.axes, tiles, {}, COUNT)
    wanted = np.einsum("nbi,noi->nbo", tiles["inp"].astype(int), tiles["wgt"].astype(int))
    np.testing.assert_array_equal(found, wanted)
    assert gemm.update == "sum" and gemm.loops == 6
    assert [o.scopes for o in (gemm.dst, *gemm.operands)] == [("acc",), ("inp",), ("wgt",)]


def test_ties_go_to_the_even_side() -> None:
    """A half is where requantization could differ: 5/2 is 2, 7/2 is 4, -5/2 is -2."""
    intrinsic = TINY.intrinsic("requantize")
    acc = np.array([5, 7, -5, -7], np.int32).reshape(1, 1, 4)
    tiles = {"a": acc, "bias": np.zeros((1, 4), np.int32),
             "mult": np.full((1, 4), 1 << 15, np.uint16), "shift": np.full((1, 4), 16, np.uint8)}
    found = evaluate(intrinsic.value, intrinsic.axes, tiles, {"zp": 0, "lo": -128, "hi": 127}, 1)
    assert found.reshape(-1).tolist() == [2, 4, -2, -4]


def test_copies_move_one_element() -> None:
    plain, padded, records = TINY.forms["load"]
    for form in (plain, padded, records, *TINY.forms["store"]):
        assert form.dst.shape == () and form.update == "assign" and form.loops == 4
    assert [form.operand("dst").scopes for form in (plain, padded, records)] == [
        ("inp", "wgt", "res", "tab"), ("inp", "wgt", "res", "tab"), ("par",)]
    assert records.dst.dtype == PARAM and record_fields(PARAM) == {
        "bias": "int32", "mult": "uint16", "shift": "uint8"}
    src = {"src": np.array([7], np.int8)}
    for valid, wanted in ((1, 7), (0, -3)):
        found = evaluate(padded.value, (), src, {"valid": valid, "pad": -3}, 1)
        assert found.tolist() == [wanted]
    (store,) = TINY.forms["store"]
    assert (store.operand("src").scopes, store.dst.scopes) == (("out",), ("global",))


def test_the_table_of_formulas_is_complete() -> None:
    assert set(FORMULAS) == set(VECTOR)
    assert all(isinstance(d, Declaration) for d in SHIPPED)
