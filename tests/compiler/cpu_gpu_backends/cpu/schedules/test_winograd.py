"""Convolutions by Winograd's products: where they are taken, what they compute, and how exactly."""

from itertools import product

import numpy as np
import pytest

import lockstep
from compiler.cpu_gpu_backends.cpu.segment import HostExecutable
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm import host
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.graph.lowering.winograd import Convolution, best_size
from compiler.ops.families.convolutions import convolved_sums
from compiler.plans import PlanRefused, Recorder, Table, Task
from runtime.artifact.host import sizes_of
from tests.support.float_graphs import assert_near, inputs_of

MOST = {2: 8, 4: 64}
"""The bounds of docs/cpu.md, in roundings of the largest sum of sizes of products."""


def convolution(shape: tuple[int, ...], outputs: int, pads=(1, 1, 1, 1), seed: int = 0) -> Graph:
    """With a bias, a residual sum where shapes agree, and a relu."""
    rng = np.random.default_rng(seed)
    net = Builder("net")
    net.add_input("x", TensorType(shape, "float32"))
    w = net.add_constant("w", rng.standard_normal((outputs, shape[1], 3, 3)).astype(np.float32))
    b = net.add_constant("b", rng.standard_normal(outputs).astype(np.float32))
    y = net.emit("conv2d", "conv", ["x", w, b], "c", strides=(1, 1), pads=pads)
    if net.values[y] == net.values["x"]:
        y = net.emit("add", "add", [y, "x"], "s")
    return net.finish([net.emit("relu", "relu", [y], "y")])


def ops(segment) -> list[str]:
    return [node.op for node in segment.graph.nodes if "winograd" in node.op]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape, outputs, pads, size", [(*image, size) for image in (
    ((2, 5, 7, 13), 33, (0, 2, 1, 0)), ((1, 33, 9, 4), 5, (2, 0, 0, 1)),
    ((1, 16, 8, 8), 16, (1, 1, 1, 1)), ((3, 20, 3, 3), 20, (1, 1, 1, 1))) for size in (2, 4)])
def test_images_of_any_size(shape, outputs: int, pads, size: int) -> None:
    graph = convolution(shape, outputs, pads)
    segment, inputs = CpuTarget().compile(graph, lambda _: size), inputs_of(graph)
    assert ops(segment) == ["winograd_tiles", "winograd_image"]
    found = segment(inputs)["y"]
    assert_near(found, evaluate(graph, inputs)["y"])
    threads = CpuTarget(threads=3).compile(graph, lambda _: size)
    assert threads(inputs)["y"].tobytes() == found.tobytes()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("size, channels, sign", [*product((2, 4), (16, 64, 256), (0, 1))])
def test_errors_are_within_the_bound(size: int, channels: int, sign: int) -> None:
    """The bound holds for numbers of both signs and for positive ones, and is at most 100 times
    the error."""
    rng, window = np.random.default_rng(channels), {"strides": (1, 1), "pads": (1, 1, 1, 1)}
    net = Builder("net")
    net.add_input("x", TensorType((1, channels, 20, 20), "float32"))
    w = rng.standard_normal((32, channels, 3, 3)).astype(np.float32)
    net.add_constant("w", w)
    graph = net.finish([net.emit("conv2d", "conv", ["x", "w"], "y", **window)])
    x = inputs_of(graph)["x"]
    x = np.abs(x) + 1 if sign else x
    exact, largest = (convolved_sums(window, a.astype(np.float64), b.astype(np.float64), 0)
                      for a, b in ((x, w), (np.abs(x), np.abs(w))))
    found = CpuTarget().compile(graph, lambda _: size)({"x": x})["y"]
    error = np.abs(found - exact).max()
    rounding = largest.max() * 2.0 ** -24
    assert rounding * MOST[size] / 100 < error < rounding * MOST[size]


@pytest.mark.parametrize(("weight", "image", "attrs", "wanted"), [
    ((64, 64, 3, 3), (56, 56), {}, 4), ((128, 128, 3, 3), (28, 28), {}, 4),
    ((256, 256, 3, 3), (14, 14), {}, 2), ((512, 512, 3, 3), (7, 7), {}, 2),
    ((512, 512, 3, 3), (2, 2), {}, 0), ((64, 3, 3, 3), (224, 224), {}, 0),
    ((64, 64, 1, 1), (56, 56), {}, 0), ((64, 64, 3, 1), (56, 56), {}, 0),
    ((64, 64, 3, 3), (28, 28), {"strides": (2, 2)}, 0),
    ((64, 64, 3, 3), (56, 56), {"dilations": (1, 2)}, 0),
    ((64, 1, 3, 3), (56, 56), {"group": 64}, 0)])
def test_they_are_taken_where_they_pay(weight, image, attrs, wanted: int) -> None:
    result = (1, weight[0], *image)
    assert best_size(Convolution.of({"strides": (1, 1), **attrs}, weight, result)) == wanted


@pytest.mark.slow
def test_plain_sums_do_without_and_a_file_remembers(tmp_path) -> None:
    graph = convolution((1, 64, 24, 24), 64)
    inputs = inputs_of(graph)
    for target, wanted in (("cpu", 2), ("cpu:plain", 0), ("cpu:2:plain", 0)):
        module = lockstep.compile(graph, target)
        module.save(tmp_path / "net.lockstep")
        loaded = lockstep.load(tmp_path / "net.lockstep")
        assert loaded(inputs)["y"].tobytes() == module(inputs)["y"].tobytes()
        for one in (module, loaded):
            step, = one.steps
            assert isinstance(step.execute, HostExecutable)
            assert len(ops(step.execute.segment)) == wanted


def test_a_plan_decides_and_a_file_remembers(tmp_path) -> None:
    """The plan of a convolution, with what it computes within the bounds; and one that is none."""
    graph = convolution((1, 64, 24, 24), 64)
    inputs, recorder = inputs_of(graph), Recorder()
    own = lockstep.compile(graph, "cpu", plans=recorder)(inputs)["y"]
    task = next(task for task in recorder.recorded if task.title.startswith("products of"))
    assert recorder.recorded[task] == "winograd 4"
    for text, wanted in (("direct", 0), ("winograd 2", 2), ("winograd 4", 2)):
        module = lockstep.compile(graph, "cpu", plans=Table({task.digest: text}))
        module.save(tmp_path / "net.lockstep")
        found = lockstep.load(tmp_path / "net.lockstep")
        assert found(inputs)["y"].tobytes() == module(inputs)["y"].tobytes()
        step = module.steps[0].execute
        assert isinstance(step, HostExecutable) and len(ops(step.segment)) == wanted
        np.testing.assert_allclose(found(inputs)["y"], own, rtol=1e-3, atol=1e-3)
    for text in ("winograd 3", "", "split(y, 4)"):
        with pytest.raises(PlanRefused, match="^Plan of a convolution must be direct or winograd"):
            lockstep.compile(graph, "cpu", plans=Table({task.digest: text}))


@pytest.mark.slow
def test_ways_of_a_convolution_are_a_space() -> None:
    graph, recorder = convolution((1, 32, 12, 12), 32), Recorder()
    CpuTarget(plans=recorder).compile(graph)
    task = next(task for task in recorder.recorded if task.title.startswith("products of"))
    space = CpuTarget().space(task)
    assert space.candidate({}).plan == recorder.recorded[task]
    assert {space.candidate(point).plan for point in (
        {"products": "0"}, {"products": "2"}, {"products": "4"})} == {
        "direct", "winograd 2", "winograd 4"}
    for plan in ("direct", "winograd 2", "winograd 4"):
        CpuTarget().measurable(task, plan, 0)()
    with pytest.raises(PlanRefused, match="^Plan of a convolution must be"):
        CpuTarget().measurable(task, "winograd 5", 0)
    with pytest.raises(PlanRefused, match="^Task must be a convolution as JSON: "):
        CpuTarget().space(Task("", "", "", '{"convolution": 3}'))


# Integers


@pytest.fixture
def words(monkeypatch) -> CpuTarget:
    """The target without instructions for products of bytes."""
    if not host().has("avx2"):
        pytest.skip("needs a processor with avx2")
    monkeypatch.setenv("LOCKSTEP_CPU_WITHOUT", ",".join(
        feature for feature in ("avx512f", "avxvnni") if host().has(feature)))
    target = CpuTarget()
    assert target.vectors.sums_words and target.vectors.fuses
    return target


def of_bytes(shape: tuple[int, ...], outputs: int, pads=(1, 1, 1, 1), most: int = 127,
             residual: bool = False, shift: int = 26) -> Graph:
    """With the greatest weights in some channels, and perhaps a residual that its sums meet."""
    rng = np.random.default_rng(outputs)
    net = Builder("net")
    net.add_input("x", TensorType(shape, "int8"))
    w = rng.integers(-most, most, (outputs, shape[1], 3, 3), np.int8, endpoint=True)
    w[0], w[1:2], w[2:3] = most, -most - 1, most * rng.choice([-1, 1], w[2:3].shape)
    arrays = {"w": w, "b": rng.integers(-9999, 9999, outputs).astype(np.int32),
              "m": rng.integers(1 << 15, 1 << 16, outputs).astype(np.int32),
              "s": rng.integers(shift, shift + 3, outputs).astype(np.int32)}
    data = ["x"]
    if residual:
        arrays["f"] = rng.integers(-3000, 3000, outputs).astype(np.int16)
        rows, columns = (extent + before + after - 2 for extent, before, after in zip(
            shape[2:], pads[:2], pads[2:], strict=True))
        net.add_input("r", TensorType((shape[0], outputs, rows, columns), "int8"))
        data.append("r")
    constants = [net.add_constant(name, array) for name, array in arrays.items()]
    return net.finish([net.emit(
        "qconv2d_add" if residual else "qconv2d", "conv", [*data, *constants], "y",
        strides=(1, 1), pads=pads, pad_value=-7, zp=3, lo=-128, hi=126,
        **({"fine": 3} if residual else {}))])


def images(graph: Graph, extreme: bool = False) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {name: (rng.choice([-128, 127], graph.values[name].shape) if extreme else
                   rng.integers(-128, 128, graph.values[name].shape)).astype(np.int8)
            for name in graph.inputs}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape, outputs, pads, size, residual", [
    (*image, size, residual) for image in (
        ((2, 5, 7, 13), 33, (0, 2, 1, 0)), ((1, 33, 9, 4), 5, (2, 0, 0, 1)),
        ((1, 16, 8, 8), 16, (1, 1, 1, 1)), ((3, 20, 3, 3), 20, (1, 1, 1, 1)))
    for size in (2, 4) for residual in (False, True)])
def test_integers_are_exact(words, shape, outputs: int, pads, size: int, residual: bool) -> None:
    graph = of_bytes(shape, outputs, pads, residual=residual)
    segment = words.compile(graph, lambda _: size)
    assert ops(segment) == ["qwinograd_tiles", f"qwinograd_image{'_add' * residual}"]
    threads = CpuTarget(threads=3).compile(graph, lambda _: size)
    for extreme in (False, True):
        given = images(graph, extreme)
        wanted = evaluate(graph, given)["y"]
        np.testing.assert_array_equal(segment(given)["y"], wanted)
        np.testing.assert_array_equal(threads(given)["y"], wanted)
        assert len(np.unique(wanted)) > 9


@pytest.mark.parametrize(("channels", "most", "sizes"), [
    (227, 127, (2, 4)), (228, 127, (2,)), (3640, 127, (2,)), (1, 1, (2, 4))])
def test_they_compute_what_they_give_exactly(words, channels: int, most: int, sizes) -> None:
    """128 times the sizes of 227 x 9 weights of 127 and 128 stay below 2^25; the sums at the
    border are there, of both signs."""
    graph, seen = of_bytes((1, channels, 4, 4), 3, (1, 1, 1, 1), most, shift=33), []
    given = {"x": np.full((1, channels, 4, 4), -128, np.int8)}
    wanted = evaluate(graph, given)["y"]

    def size(convolution: Convolution) -> int:
        seen.append(convolution.sizes)
        return max(convolution.sizes)

    np.testing.assert_array_equal(words.compile(graph, size)(given)["y"], wanted)
    assert seen == [sizes] and set(Convolution.of({"strides": (1, 1)}, (3, channels, 3, 3), (
        1, 3, 4, 4), "int8", sizes).times()) == {0, *sizes}


@pytest.mark.slow
def test_integers_have_a_plan_and_a_file(words, tmp_path) -> None:
    """`cpu:plain` stores no larger weights; a plan decides; a file is read on any processor."""
    graph, recorder = of_bytes((1, 64, 24, 24), 64), Recorder()
    given = images(graph)
    module = lockstep.compile(graph, "cpu", plans=recorder)
    wanted, sizes = module(given)["y"], {}
    task = next(task for task in recorder.recorded if task.title.startswith("products of"))
    assert recorder.recorded[task] == "winograd 4"
    for name, other in (("plain", lockstep.compile(graph, "cpu:plain")), ("words", module), *(
            (text, lockstep.compile(graph, "cpu", plans=Table({task.digest: text})))
            for text in ("direct", "winograd 2", "winograd 4"))):
        np.testing.assert_array_equal(other(given)["y"], wanted)
        sizes[name] = other.host_weight_bytes
        words.measurable(task, "winograd 2", 0)()
    assert sizes["plain"] == sizes["direct"] < sizes["winograd 2"] < sizes["words"]
    assert sizes["winograd 4"] == sizes["words"] > 3.9 * sizes["plain"]
    module.save(tmp_path / "net.lockstep")
    loaded = lockstep.load(tmp_path / "net.lockstep")
    np.testing.assert_array_equal(loaded(given)["y"], wanted)


def test_a_file_of_another_processor() -> None:
    """It was compiled where bytes are multiplied, so it says nothing of this one's products."""
    sizes, form = sizes_of({"winograd": {}}), ({"strides": (1, 1)}, (64, 64, 3, 3), (1, 64, 24, 24))
    assert sizes(Convolution.of(*form, "int8")) == 4
    with pytest.raises(ValueError, match="must have a size"):
        sizes(Convolution.of(*form))
