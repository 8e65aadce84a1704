"""Conversions to integers need no check where the expression says that they fit."""

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import build
from compiler.cpu_gpu_backends.llvm.emitting.float_ranges import FloatRange, float_range, limits
from compiler.schedule import Schedule

INF = float("inf")
x, k = te.placeholder((16,), "float64", "x"), te.placeholder((16,), "int16", "k")
I = te.Var("i")


def raised(value):
    return te.select(value > -100.0, value, -100.0)


@pytest.mark.parametrize(("expr", "low", "high", "nan"), [
    (x[I], -INF, INF, True),
    (te.maximum(x[I], 0.0), 0.0, INF, True),
    (te.clamp(x[I], -3.5, 2.5), -3.5, 2.5, True),
    (te.rint(te.clamp(x[I], -3.5, 2.5)), -4.0, 2.0, True),
    (raised(x[I]), -100.0, INF, False),
    (te.minimum(raised(x[I]), 9.0), -100.0, 9.0, False),
    (te.select(x[I] < 5.0, x[I], 5.0), -INF, 5.0, False),
    (te.select(x[I] < 5.0, x[I], 6.0), -INF, INF, True),
    (te.select(x[I] < x[I], x[I], x[I]), -INF, INF, True),
    (te.maximum(k[I].astype("float64"), x[I]), -32768.0, INF, True),
    (k[I].astype("float64"), -32768.0, 32767.0, False),
    (k[I].astype("float64") * -2.0 - 1.0, -65535.0, 65535.0, False),
    (k[I].astype("float64") + x[I], -INF, INF, True),
    (te.clamp(x[I], -3.5, 2.5) * 2.0, -INF, INF, True),
])
def test_what_an_expression_tells(expr, low: float, high: float, nan: bool) -> None:
    assert float_range(expr) == FloatRange(low, high, nan)


def test_a_type_that_rounds_holds_no_more_than_itself() -> None:
    n = te.placeholder((16,), "int64", "n")
    found = float_range(n[I].astype("float32"))
    assert (found.low, found.high) == (-2.0**63, 2.0**63)           # 2**63 - 1 rounds up
    assert not found.within(limits("int64"))


def test_float32_rounds_ends_outwards() -> None:
    near = te.clamp(k[I].astype("float32"), 0.0, 3.0) * te.const(0.1, "float32")
    found = float_range(near)
    assert found.low <= 0.0
    assert found.high >= float(np.float32(3) * np.float32(0.1))
    assert not found.nan
    assert float_range(k[I].astype("float16")) == FloatRange()


NUMBERS = np.array([np.nan, INF, -INF, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 200.0,
                    -128.5, -129.0, 1e300, -1e300])


@pytest.mark.parametrize("bounds", [None, (-128.0, 127.0), (-300.0, 127.0)])
def test_conversions_are_those_of_every_number(bounds) -> None:
    def element(i):
        value = te.rint(x[i] if bounds is None else te.clamp(x[i], *bounds))
        return value.astype("int8")

    s = Schedule([te.compute((16,), lambda i: element(i), "y")])
    s["y"].vectorize("i")
    kernel = build(s.program)
    wanted = np.nan_to_num(np.clip(np.rint(NUMBERS), -128, 127)).astype(np.int8)
    np.testing.assert_array_equal(kernel.compute({"x": NUMBERS})["y"], wanted)
    assert (".sat." in kernel.text) == (bounds != (-128.0, 127.0))
