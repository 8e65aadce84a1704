"""Float operations of the datapath against NumPy and ml_dtypes, and the rules where these are open.

The graph of an operation is evaluated on arrays of bits; `tests/accel/hw/test_float_datapath.py`
has the hardware, and `python -m bench simulators.exact --only floats` all products of two numbers
of 16 bits.
"""

import warnings

import ml_dtypes
import numpy as np
import pytest

from accel.datapath.dataflow import Dataflow, Interval, meaning, topological
from accel.datapath.floats import FORMATS, Floats, float_bits
from accel.datapath.sharing import share
from compiler.te import bits, is_float, numpy_dtype

COUNT = 20_000
SMALL = tuple(dtype for dtype in FORMATS if bits(dtype) <= 16)
COMPARED = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
            "eq": np.equal, "ne": np.not_equal}


def computed(make, types, values):
    """The result of `make(floats, ...)` for arrays of operands (bits, or integers)."""
    graph = Dataflow()
    leaves = [graph.leaf("imm", (str(k),), Interval.of_type(t)) for k, t in enumerate(types)]
    _, (root,) = share([make(Floats(graph), *leaves)])
    done = {}
    for node in topological((root,)):
        match node.kind:
            case "imm": value = values[int(node.attr[0])]
            case "const": value = np.array([node.attr[0]], np.int64)
            case _: value = meaning(node.kind, node.attr, *(done[arg] for arg in node.args))
        assert (value >= node.interval.low).all() and (value <= node.interval.high).all(), node
        done[node] = value
    return np.broadcast_to(done[root], values[0].shape)


def corners(dtype):
    """Least and greatest numbers and fractions of many exponents, infinities, NaN, zeros."""
    form = FORMATS[dtype]
    ones = (1 << form.fraction_bits) - 1
    fractions = [0, 1, 2, ones // 2, ones // 2 + 1, ones // 2 + 2, ones - 1, ones]
    steps = max(1, (1 << form.exponent_bits) // 16)
    exponents = sorted({*range(0, 1 << form.exponent_bits, steps), 0, 1, 2, form.bias - 1,
                        form.bias, form.bias + 1, 2 * form.bias, 2 * form.bias + 1})
    whole = np.array([e << form.fraction_bits | f for e in exponents for f in fractions], np.int64)
    return np.concatenate((whole, whole | 1 << form.width - 1))


def numbers(rng, dtype, count=COUNT):
    """Random bits, and corners among them."""
    anything = rng.integers(0, 1 << bits(dtype), count, np.int64)
    return np.where(rng.random(count) < 0.5, anything, rng.choice(corners(dtype), count))


def pairs(rng, dtype, count=COUNT):
    """Random pairs; of many the exponents are near, or the sum is nearly zero."""
    form, a, b = FORMATS[dtype], numbers(rng, dtype, count), numbers(rng, dtype, count)
    mask = (1 << form.width) - 1
    fewer = rng.integers(-form.precision - 6, form.precision + 7, count) << form.fraction_bits
    near = a + fewer + rng.integers(-3, 4, count) & mask
    opposite = a ^ 1 << form.width - 1
    nearly = opposite + rng.integers(-3, 4, count) & mask
    chosen = rng.integers(0, 4, count)
    return a, np.choose(chosen, [b, near, nearly, opposite])


def floats(raw, dtype):
    return raw.astype(f"uint{bits(dtype)}").view(numpy_dtype(dtype))


def raw_bits(values, dtype):
    """The bits of floats, with the one NaN."""
    values = np.asarray(values).astype(numpy_dtype(dtype))
    raw = values.view(f"uint{bits(dtype)}").astype(np.int64)
    return np.where(np.isnan(values), FORMATS[dtype].nan, raw)


def assert_equal(make, reference, types, values, result):
    got = computed(make, types, values)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = reference(*(floats(v, t) if is_float(t) else v.astype(t)
                           for v, t in zip(values, types, strict=True)))
        want = raw_bits(want, result) if is_float(result) else np.asarray(want).astype(np.int64)
    wrong = np.flatnonzero(got != want)
    assert not wrong.size, [(*(hex(int(v[k])) for v in values), hex(int(got[k])),
                             hex(int(want[k]))) for k in wrong[:5]]


def single(x):
    return x.astype(np.float32)


def rounded(x, dtype):
    """What NumPy and ml_dtypes make of float32; to 8 bits it saturates."""
    if bits(dtype) == 8:
        most = single(ml_dtypes.finfo(dtype).max)
        x = np.clip(single(x), -most, most)
    return x.astype(numpy_dtype(dtype))


@pytest.mark.parametrize("op", ["add", "sub"])
def test_float32_sums(rng, op):
    """Cancellation, ties, subnormals and overflow are in `pairs`, which the test below holds."""
    assert_equal(lambda f, a, b: f.binary(op, a, b, "float32"),
                 {"add": np.add, "sub": np.subtract}[op], ("float32",) * 2,
                 pairs(rng, "float32", 80_000), "float32")


def test_pairs_hold_every_case_of_a_sum(rng):
    a, b = (floats(x, "float32") for x in pairs(rng, "float32", 80_000))
    with np.errstate(all="ignore"):
        total = a + b
        exact = a.astype(np.float64) + b.astype(np.float64)
        finite, least = np.isfinite(a) & np.isfinite(b), np.finfo(np.float32).tiny
        cases = {
            "overflow": finite & np.isinf(total), "zero": finite & (total == 0) & (a != 0),
            "cancellation": finite & (abs(total) < abs(a) / 1024) & (total != 0),
            "subnormal": finite & (abs(total) < least) & (total != 0) & (abs(a) >= least),
            "tie": finite & (abs(exact - total) * 2 == np.spacing(abs(total))),
            "rounding": finite & (exact != total),
            "nan": np.isnan(total) & ~np.isnan(a) & ~np.isnan(b)}
    counts = {name: int(case.sum()) for name, case in cases.items()}
    assert min(counts.values()) > 20, counts


@pytest.mark.parametrize("dtype", FORMATS)
def test_products_as_float32(rng, dtype):
    values = pairs(rng, dtype, 80_000)
    if dtype in SMALL:      # all pairs of corners, too
        grid = np.meshgrid(corners(dtype), corners(dtype))
        values = tuple(np.concatenate((v, g.ravel())) for v, g in zip(values, grid))
    assert_equal(lambda f, a, b: f.product(a, dtype, b, dtype),
                 lambda a, b: single(a) * single(b), (dtype,) * 2, values, "float32")


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_arithmetic_of_16_and_8_bits(rng, op, dtype):
    exact = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[op]
    assert_equal(lambda f, a, b: f.binary(op, a, b, dtype),
                 lambda a, b: rounded(exact(single(a), single(b)), dtype), (dtype,) * 2,
                 pairs(rng, dtype), dtype)


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_conversions_between_floats(rng, source, target):
    if source == target:
        return
    values = np.arange(1 << bits(source)) if source in SMALL else numbers(rng, source, 80_000)
    assert_equal(lambda f, a: f.cast(a, source, target), lambda a: rounded(a, target),
                 (source,), (values,), target)


@pytest.mark.parametrize("source", ["int8", "int32", "uint32", "int64", "bool"])
@pytest.mark.parametrize("target", FORMATS)
def test_conversions_from_integers(rng, source, target):
    whole = Interval.of_type(source)
    powers = [sign * (1 << k) + less for k in range(63) for sign in (1, -1) for less in (-1, 0, 1)]
    values = np.array([v for v in powers if whole.low <= v <= whole.high], np.int64)
    values = np.concatenate((values, rng.integers(whole.low, whole.high, 5000, np.int64, True)))
    values = values.astype(object)                  # 64 bits are shifted
    assert_equal(lambda f, a: f.cast(a, source, target), lambda a: rounded(single(a), target),
                 (source,), (values,), target)


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "uint32"])
@pytest.mark.parametrize("source", FORMATS)
def test_conversions_to_integers_are_towards_zero_and_saturate(rng, source, target):
    whole = Interval.of_type(target)
    small = float_bits(1.0, "float32") + rng.integers(0, 34 << 23, COUNT)
    values = (np.concatenate((numbers(rng, "float32"), small, small | 1 << 31))
              if source == "float32" else np.arange(1 << bits(source)))
    assert_equal(lambda f, a: f.cast(a, source, target), lambda a: np.where(
        np.isnan(a), 0, np.clip(np.trunc(a.astype(np.float64)), whole.low, whole.high)),
        (source,), (values,), target)


@pytest.mark.parametrize("dtype", FORMATS)
def test_truth_of_a_float(rng, dtype):
    assert_equal(lambda f, a: f.cast(a, dtype, "bool"), lambda a: a != 0, (dtype,),
                 (numbers(rng, dtype),), "bool")


@pytest.mark.parametrize("op", COMPARED)
@pytest.mark.parametrize("dtype", FORMATS)
def test_comparisons(rng, op, dtype):
    assert_equal(lambda f, a, b: f.binary(op, a, b, dtype), COMPARED[op], (dtype,) * 2,
                 pairs(rng, dtype), "bool")


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes_hand_on_nan_and_order_zeros(rng, op, dtype):
    def reference(a, b):
        plain = {"max": np.maximum, "min": np.minimum}[op](a, b)
        sign = {"max": np.signbit(a) & np.signbit(b), "min": np.signbit(a) | np.signbit(b)}[op]
        zero = np.where(sign, a.dtype.type(-0.0), a.dtype.type(0.0))
        return np.where((a == 0) & (b == 0), zero, plain)

    assert_equal(lambda f, a, b: f.binary(op, a, b, dtype), reference, (dtype,) * 2,
                 pairs(rng, dtype), dtype)


@pytest.mark.parametrize("dtype", FORMATS)
def test_absolute_values(rng, dtype):
    assert_equal(lambda f, a: f.absolute(a, dtype), np.abs, (dtype,), (numbers(rng, dtype),), dtype)


def test_constants():
    assert float_bits(1.0, "bfloat16") == 0x3F80 and float_bits(-2.0, "float16") == 0xC000
    assert {dtype: float_bits(float("nan"), dtype) for dtype in FORMATS} == {
        "float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float8_e4m3fn": 0x7F,
        "float8_e5m2": 0x7E}


def test_products_of_float16_need_no_subnormals():
    """Their exponents lie within those of float32: intervals leave rounding and its shifts out."""
    def kinds(dtype):
        graph = Dataflow()
        leaves = [graph.leaf("imm", (n,), Interval.of_type(dtype)) for n in "ab"]
        root = Floats(graph).product(leaves[0], dtype, leaves[1], dtype)
        return [node.kind for node in topological((root,))]

    assert "rshift" in kinds("bfloat16") and "rshift" not in kinds("float16")
