"""float64 between float32 arrays in Metal, which has none: pairs of floats, tried as C++."""

import numpy as np
import pytest

from compiler import te
from tests.support.gpu_schedules import schedule_elementwise
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.cpu_gpu_backends.simt.generate import generate, generate_all
from compiler.cpu_gpu_backends.simt.kernels import SimtError
from compiler.graph import Builder, TensorType, evaluate
from compiler.ir import interpret, lower
from tests.support.metal import computed_as_cxx

SIZE = 256
ENDS = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e38, -1e38, 1e-30]


def combined(name: str, rule, dtype: str = "float32"):
    a, b, c = (te.placeholder((SIZE,), "float32", letter) for letter in "abc")
    y = te.compute((SIZE,), lambda i: rule(*(one[i].astype("float64") for one in (a, b, c))
                                           ).astype(dtype), "y")
    return schedule_elementwise(y, name, 16).program


PROGRAMS = [
    combined("sums", lambda a, b, c: (a + b) - c),
    combined("products", lambda a, b, c: a * b + c),
    combined("quotients", lambda a, b, c: (a + b) / c),
    combined("constants", lambda a, b, c: (a + 0.1) * (b - c * 3.0)),
    combined("less", lambda a, b, c: te.select(a + b * 1e-9 < c, a, b - c)),
    combined("equal", lambda a, b, c: te.select((a + b).equal(b + a), c, a)),
    combined("whole", lambda a, b, c: a * 1000.0 + b, "int32"),
    combined("from_whole", lambda a, b, c: (a * 1e5).astype("int64").astype("float64") / 3.0),
]


def test_pairs_are_rounded_as_float64_is(rng: np.random.Generator) -> None:
    arrays = [(rng.normal(size=SIZE) * 10.0 ** rng.integers(-4, 5, SIZE)).astype(np.float32)
              for _ in "abc"]
    for program, code in zip(PROGRAMS, generate_all(PROGRAMS, "metal"), strict=True):
        inputs = {b.name: arrays["abc".index(b.name)] for b in program.inputs}
        found, wanted = computed_as_cxx(code, inputs)["y"], interpret(program, inputs)["y"]
        np.testing.assert_array_equal(found, wanted, program.name)


def test_infinity_and_nan(rng: np.random.Generator) -> None:
    ends = np.array(np.meshgrid(ENDS, ENDS, ENDS[:4])).reshape(3, -1).astype(np.float32)
    program = PROGRAMS[0]
    code, = generate_all([program], "metal")
    arrays = {b.name: ends["abc".index(b.name)] for b in program.inputs}
    with np.errstate(all="ignore"):
        wanted = interpret(program, arrays)["y"]
    found = computed_as_cxx(code, arrays)["y"]
    near = np.isfinite(wanted)
    np.testing.assert_array_equal(found[near], wanted[near])
    assert not np.isfinite(found[~near]).any()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))


@pytest.mark.parametrize(("op", "attrs"), [
    pytest.param("globalavgpool", {}, marks=pytest.mark.slow),
    ("avgpool", {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "include_pad": 0})])
def test_averages_are_rounded_once(op: str, attrs: dict, rng: np.random.Generator) -> None:
    net = Builder("net")
    net.add_input("x", TensorType((2, 3, 16, 16), "float32"))
    net.emit(op, "pool", ["x"], "y", **attrs)
    graph = net.finish(["y"])
    x = (rng.normal(size=(2, 3, 16, 16)) * 10.0 ** rng.integers(-6, 7, (2, 3, 16, 16))).astype(
        np.float32)
    step, = GpuTarget("metal", "metal").compile(graph).steps
    assert step.code is not None and "float_pair" in step.code.text
    found = computed_as_cxx(step.code, {b.name: x.reshape(b.shape) for b in step.code.inputs})
    wanted = evaluate(graph, {"x": x})["y"]
    np.testing.assert_array_equal(next(iter(found.values())).reshape(wanted.shape), wanted)


def test_arrays_and_functions_of_float64_are_refused() -> None:
    x = te.placeholder((4,), "float64", "x")
    with pytest.raises(ValueError, match="^Type of x must be one that metal has, not float64$"):
        generate(lower([te.compute((4,), lambda i: x[i].astype("float32"), "y")], "p"), "metal")
    a = te.placeholder((4,), "float32", "a")
    root = lower([te.compute((4,), lambda i: te.sqrt(a[i].astype("float64")).astype("float32"),
                             "y")], "root")
    with pytest.raises(SimtError, match="^root: sqrt must be of a type that metal has, not "
                                        "float64\n"):
        generate(root, "metal")
