"""Operators and networks as kernels of GPUs: what they compute equals the reference."""

import re
from collections.abc import Mapping
from compiler.cpu_gpu_backends.gpu.lowering import passes
from compiler.graph.passes.pipeline import optimize
from dataclasses import replace

import numpy as np
import pytest

from compiler.cpu_gpu_backends.gpu.schedule import own_schedule
from compiler.cpu_gpu_backends.gpu.segment import GpuSegment, ValueForms
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.cpu_gpu_backends.groups import recipe_of, unscheduled
from compiler.cpu_gpu_backends.simt.generate import generate_all
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.graph.fusion import Group, fuse
from compiler.ir import For, If, Program, Update, interpret, path_to
from compiler.plans import PlanRefused, Recorder, Table
from compiler.graph.division.protocols import Values
from compiler.te import Select
from runtime.devices.device import KernelDevice
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice
from tests.compiler.cpu_gpu_backends.cpu.test_target import graph_of
from tests.support.effort import Effort
from tests.support.float_graphs import FloatNet, assert_near, inputs_of, random_graph
from tests.support.integer_graphs import Net
from tests.support.metal import computed_as_cxx
from tests.support.operator_cases import CASES, OperatorCase
from tests.support.nvrtc import require_nvrtc

DEVICES = {"cuda": EmulatedDevice, "opencl": OpenClDevice}
dialects = pytest.mark.parametrize("dialect", DEVICES)


def computed(dialect: str, graph: Graph, inputs: Values, **options) -> Mapping[str, np.ndarray]:
    device: KernelDevice = DEVICES[dialect]()
    return GpuTarget(dialect, dialect, **options).compile(graph).on(device)(inputs).values


def kernels(graph: Graph, dialect: str = "opencl") -> tuple[Program, Group]:
    """The only group of a graph, scheduled."""
    group, = fuse(graph).groups
    kinds = ("s8",) if dialect == "cuda" else ()
    return own_schedule(unscheduled(recipe_of(graph, group)), kinds).program, group


def algorithm(graph: Graph) -> Program:
    group, = fuse(graph).groups
    return unscheduled(recipe_of(graph, group))


def check(dialect: str, cases: list[OperatorCase]) -> None:
    """Computes all cases with kernels of one text, on outputs that are poisoned first."""
    target, made = GpuTarget(dialect, dialect), []
    for case in cases:
        graph, inputs = graph_of(case)
        if not fuse(graph).groups[0].is_view and not target.refusal(graph, graph.nodes[0]):
            program, group = kernels(graph, dialect)
            made.append((case, graph, inputs, group, replace(program, name=f"p{len(made)}")))
    assert len(made) > len(cases) * 2 // 3
    device, codes = DEVICES[dialect](), generate_all([one[-1] for one in made], dialect)
    for (case, graph, inputs, group, _), code in zip(made, codes, strict=True):
        given = {**graph.constants, **inputs}
        arrays = {buffer.name: given[value].reshape(buffer.shape)
                  for buffer, value in zip(code.inputs, group.inputs, strict=True)}
        found, wanted = compute(device, code, arrays)["y"], evaluate(graph, inputs)["y"]
        assert found.dtype == wanted.dtype, case
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found.reshape(wanted.shape), wanted, 1e-5, 1e-5,
                                       err_msg=str(case))
        else:
            np.testing.assert_array_equal(found.reshape(wanted.shape), wanted, str(case))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dialect, step", [("opencl", 29), ("cuda", 27)])
def test_operators_equal_the_reference(dialect: str, step: int) -> None:
    check(dialect, CASES[::step])


@pytest.mark.slow
@dialects
def test_every_operator_equals_the_reference(dialect: str) -> None:
    check(dialect, CASES)


def softmax(shape: tuple[int, ...] = (3, 5, 70)) -> Graph:
    net, last = Builder("softmax"), {"axes": (len(shape) - 1,), "keepdims": 1}
    net.add_input("x", TensorType(shape, "float32"))
    net.emit("reduce_max", "max", ["x"], "m", **last)
    net.emit("sub", "sub", ["x", "m"], "d")
    net.emit("exp", "exp", ["d"], "e")
    net.emit("reduce_sum", "sum", ["e"], "s", **last)
    net.emit("div", "div", ["e", "s"], "y")
    return net.finish(["y"])


def block(size: int = 9, channels: int = 6) -> Graph:
    """relu(conv(x) + x)."""
    net, rng = Builder("block"), np.random.default_rng(0)
    net.add_input("x", TensorType((2, channels, size, size), "float32"))
    net.add_constant("w", rng.standard_normal((channels, channels, 3, 3)).astype(np.float32))
    net.add_constant("b", rng.standard_normal(channels).astype(np.float32))
    net.emit("conv2d", "conv", ["x", "w", "b"], "c", strides=(1, 1), pads=(1,) * 4)
    net.emit("add", "sum", ["c", "x"], "s")
    net.emit("relu", "relu", ["s"], "y")
    return net.finish(["y"])


def halves() -> Graph:
    """relu(x)[:, 4:] + 1 and relu(x)[:, :4], x [1,8,3]: parts of one array."""
    net = Builder("halves")
    net.add_input("x", TensorType((1, 8, 3), "float32"))
    net.add_constant("one", np.array(1, np.float32))
    net.emit("relu", "relu", ["x"], "r")
    net.emit("slice", "last", ["r"], "l", begin=(0, 4, 0), end=(1, 8, 3), step=(1, 1, 1))
    net.emit("slice", "first", ["r"], "f", begin=(0, 0, 0), end=(1, 4, 3), step=(1, 1, 1))
    net.emit("reshape", "flat", ["l"], "flat", shape=(12,))
    net.emit("add", "add", ["flat", "one"], "y")
    return net.finish(["y", "f"])


NETWORKS = {"rows": softmax(), "long": softmax((1, 300)), "short": softmax((2, 1)),
            "block": block(), "views": halves()}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "dialect"), [
    pytest.param(name, dialect, marks=pytest.mark.slow if (place + turn) % 2 else ())
    for place, name in enumerate(NETWORKS) for turn, dialect in enumerate(DEVICES)])
def test_a_network_equals_the_reference(name: str, dialect: str) -> None:
    graph = NETWORKS[name]
    inputs = inputs_of(graph)
    wanted, found = evaluate(graph, inputs), computed(dialect, graph, inputs)
    assert list(found) == list(graph.outputs)
    for output, array in wanted.items():
        assert_near(found[output], array)


def product(kind: str, *sizes: int) -> Graph:
    """A matrix product with a rectifier, or a convolution, of these sizes."""
    net = Builder(kind)
    if kind == "product":
        batch, rows, terms, columns = sizes
        net.add_input("x", TensorType((batch, rows, terms), "float32"))
        net.add_input("w", TensorType((batch, terms, columns), "float32"))
        net.emit("matmul", "product", ["x", "w"], "p")
        net.emit("relu", "relu", ["p"], "y")
    else:
        channels, outputs, size, kernel, stride, pad = sizes
        net.add_input("x", TensorType((2, channels, size, size + 3), "float32"))
        net.add_input("w", TensorType((outputs, channels, kernel, kernel), "float32"))
        net.add_input("b", TensorType((outputs,), "float32"))
        net.emit("conv2d", "conv", ["x", "w", "b"], "y", strides=(stride,) * 2,
                 pads=(pad, 0, 0, pad))
    return net.finish(["y"])


PRODUCTS = {
    "whole": product("product", 1, 64, 16, 128), "ragged": product("product", 2, 35, 19, 77),
    "short": product("product", 1, 40, 3, 130), "padded": product("conv", 16, 40, 9, 3, 1, 1),
    "few threads in rows": product("conv", 16, 40, 16, 1, 2, 0),
    "stem": product("conv", 3, 33, 20, 5, 2, 2)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "ragged", *(pytest.param(name, marks=pytest.mark.slow) for name in PRODUCTS
                if name != "ragged")])
def test_products_are_computed_in_tiles(name: str, rng) -> None:
    """Products of any size equal the reference, without races: in whole chunks of terms and others,
    padded in shared memory, with blocks of few threads.
    """
    program, _ = kernels(PRODUCTS[name])
    made = lower(program)
    assert len(made.kernels) == 1 and len(made.kernels[0].shared) == 2
    inputs = {buffer.name: rng.standard_normal(buffer.shape).astype(np.float32)
              for buffer in program.inputs}
    wanted = interpret(algorithm(PRODUCTS[name]), inputs)["y"]
    for dialect in DEVICES:
        code, = generate_all([program], dialect)
        assert_near(compute(DEVICES[dialect](), code, inputs)["y"], wanted)
    assert not find_races(made, inputs)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_registers_ask_for_no_bound(name: str) -> None:
    """Tiles that hang over the result, or over the terms, are filled in shared memory."""
    program, _ = kernels(PRODUCTS[name])
    *around, total = path_to(program.body, lambda stmt: isinstance(stmt, Update))
    assert isinstance(total, Update) and not isinstance(total.value, Select)
    first = next(place for place, stmt in enumerate(around)
                 if isinstance(stmt, For) and stmt.var in (*total.indices, *total.axes))
    assert not any(isinstance(stmt, If) for stmt in around[first:])


def chain(dtype: str, *shape: int) -> Graph:
    net = Builder("net")
    net.add_input("x", TensorType(shape, dtype))
    net.add_input("z", TensorType(shape, dtype))
    net.add_input("factor", TensorType((shape[1], 1, 1), dtype))
    net.emit("mul", "mul", ["x", "factor"], "p")
    net.emit("add", "add", ["p", "z"], "y")
    return net.finish(["y"])


CHAINS = (
    ("float32", (2, 64, 24, 24), "float4"), ("float32", (1, 2048, 7, 7), ""),
    ("float32", (1, 64, 8, 8), ""), ("float16", (1, 64, 48, 48), "Lanes<half, 8>"),
    ("int8", (4, 64, 32, 32), "Lanes<signed char, 16>"), ("int8", (1, 64, 36, 36), "char4"),
    ("int64", (1, 64, 24, 24), "longlong2"), ("float32", (1, 1, 259, 256), "float4"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dialect", ["cuda", "opencl", "metal"])
def test_chains_load_and_store_vectors(dialect: str, rng) -> None:
    """Vectors have 16 bytes where elements follow each other and threads enough are left."""
    chains = CHAINS if dialect == "cuda" or not Effort.quick else CHAINS[::2]
    cases = [(chain(dtype, *shape), vector) for dtype, shape, vector in chains
             if (dialect, dtype) != ("opencl", "float16")]
    made = [kernels(graph) for graph, _ in cases]
    programs = [replace(program, name=f"p{number}") for number, (program, _) in enumerate(made)]
    codes = generate_all(programs, dialect)
    for (graph, vector), (program, group), code in zip(cases, made, codes, strict=True):
        inputs = {name: rng.integers(-9, 9, graph.values[name].shape).astype(
            graph.values[name].dtype) for name in graph.inputs}
        arrays = {buffer.name: inputs[value].reshape(buffer.shape)
                  for buffer, value in zip(program.inputs, group.inputs, strict=True)}
        found = (computed_as_cxx(code, arrays) if dialect == "metal" else
                 compute(DEVICES[dialect](), code, arrays))["y"]
        wanted = evaluate(graph, inputs)["y"]
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted, str(graph.values["y"]))
        if dialect == "cuda":
            text = generate_all([program], dialect)[0].text
            assert f"<{vector}*>" in text if vector else "reinterpret_cast" not in text


def integers(kind: str, *sizes: int) -> Graph:
    """Products of int8: two 1x1 convolutions, two dense layers, or one of matrices."""
    net = Net()
    if kind == "conv":
        batch, channels, outputs, size = sizes
        x = net.conv(net.input(batch, channels, size, size), outputs, (1, 1))
        return net.graph(net.conv(x, 16, (1, 1)))
    if kind == "dense":
        rows, terms, outputs = sizes
        return net.graph(net.dense(net.dense(net.input(rows, terms), outputs), 133))
    batch, rows, terms, columns = sizes
    a, b = net.input(batch, rows, terms, name="a"), net.input(batch, terms, columns, name="b")
    return net.graph(net.matmul(a, b))


INTEGERS = {"conv": integers("conv", 2, 24, 70, 12), "dense": integers("dense", 130, 48, 72),
            "matmul": integers("matmul", 3, 65, 40, 72)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "dense", *(pytest.param(name, marks=pytest.mark.slow) for name in ("conv", "matmul"))])
def test_products_of_int8_on_tensor_cores_are_equal_to_the_bit(name: str, rng) -> None:
    graph = INTEGERS[name]
    inputs = {value: rng.integers(-128, 128, graph.values[value].shape).astype(np.int8)
              for value in graph.inputs}
    segment = GpuTarget("cuda", "cuda").compile(graph)
    products = [step for step in segment.steps if step.group.name != "relayout"]
    assert segment.text[0].count("mma_m16n8k32_s8(") == 1 + len(products)
    found = segment.on(EmulatedDevice())(inputs).values
    for value, wanted in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(found[value], wanted)
    assert "mma" not in GpuTarget("opencl", "opencl").compile(graph).text[0]


CONVOLUTIONS = {
    "padded": ((2, 32, 9, 10), 70, (3, 3), (1, 1), (1, 1, 1, 1), -7),
    "few channels": ((3, 20, 9, 10), 70, (2, 3), (1, 2), (1, 0, 1, 1), 0),
    "windows of padding alone": ((2, 16, 2, 17), 100, (1, 2), (2, 2), (0, 0, 1, 0), -7),
    "three channels": ((1, 3, 25, 24), 40, (7, 7), (2, 2), (3, 2, 3, 3), -9),
    "one tap": ((2, 48, 19, 20), 33, (1, 1), (2, 2), (0, 1, 0, 0), 3)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "windows of padding alone", *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("three channels", "padded", "few channels", "one tap"))])
def test_convolutions_of_int8_on_tensor_cores_are_equal_to_the_bit(name: str, rng) -> None:
    shape, channels, *window, pad_value = CONVOLUTIONS[name]
    net = Net()
    graph = net.graph(net.conv(net.input(*shape), channels, *window, pad_value=pad_value))
    inputs = {"x": rng.integers(-128, 128, shape).astype(np.int8)}
    segment = GpuTarget("cuda", "cuda").compile(graph)
    assert [step.group.name for step in segment.steps if step.group.name != "pad"] == [
        "relayout", "qconv2d_last", "relayout"]
    assert "mma_m16n8k32_s8(" in segment.text[0]
    found, = segment.on(EmulatedDevice())(inputs).values.values()
    wanted, = evaluate(graph, inputs).values()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_tiles_of_windows_are_formed_without_a_race(rng) -> None:
    net = Net()
    graph = optimize(net.graph(net.conv(net.input(1, 32, 9, 10), 65, (3, 3), (1, 1), (1, 0, 1, 1),
                                        pad_value=-7)), passes(ValueForms(("int8",))))
    group, = (group for group in fuse(graph).groups if group.name != "relayout")
    program = own_schedule(unscheduled(recipe_of(graph, group)), ("s8",)).program
    given = {**graph.constants, group.inputs[0]: rng.integers(-128, 128, (1, 9, 10, 32)).astype(
        np.int8)}
    assert not find_races(lower(program, True, True, True), {
        buffer.name: given[value].reshape(buffer.shape)
        for buffer, value in zip(program.inputs, group.inputs, strict=True)})
    text = generate_all([program], "cuda")[0].text
    assert text.count("async_copy<16") > 8 and "0xf9f9f9f9u" in text


@pytest.mark.slow           # layers and stems, below, are computed in it too
def test_networks_in_less_precision() -> None:
    net, rng = Builder("net"), np.random.default_rng(0)
    net.add_input("x", TensorType((2, 16, 9, 9), "float32"))

    def conv(x: str, outputs: int, name: str) -> str:
        shape = outputs, net.values[x].shape[1], 3, 3
        net.add_constant(f"{name}.w", (rng.standard_normal(shape) / 12).astype(np.float32))
        net.add_constant(f"{name}.b", rng.standard_normal(outputs).astype(np.float32))
        net.emit("conv2d", name, [x, f"{name}.w", f"{name}.b"], f"{name}.c", strides=(1, 1),
                 pads=(1,) * 4)
        return net.emit("relu", f"{name}.r", [f"{name}.c"], f"{name}.y")

    first = conv("x", 72, "first")
    net.emit("add", "sum", [conv(first, 72, "second"), first], "s")
    graph = net.finish(["s"])
    inputs = {"x": rng.standard_normal((2, 16, 9, 9)).astype(np.float32)}
    segment = GpuTarget("cuda", "cuda", precision="f16").compile(graph)
    assert segment.text[0].count("mma_m16n8k16_f16") >= 3       # a helper, and two products
    wanted, = evaluate(graph, inputs).values()
    found, = segment.on(EmulatedDevice())(inputs).values.values()
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert found.dtype == np.float32 and 1e-7 < error < 2**-9


def halves_of(graph: Graph) -> GpuSegment:
    """Compiled in f16; its results are those of the graph."""
    segment = GpuTarget("cuda", "cuda", precision="f16").compile(graph)
    inputs = inputs_of(graph)
    wanted, = evaluate(graph, inputs).values()
    found, = segment.on(EmulatedDevice())(inputs).values.values()
    assert np.abs(found - wanted).max() / np.abs(wanted).max() < 2**-8
    return segment


def tensor_products(segment: GpuSegment, name: str) -> list[bool]:
    """Whether tensor cores compute the kernels whose group's name begins so."""
    kernels = {match[1]: match[0] for match in re.finditer(
        r"__global__ void .*?\n(\w+)\(.*?\n}\n", segment.text[0], re.DOTALL)}
    return ["mma_m16n8k16_f16(" in kernels[step.code.launches[0].kernel]
            for step in segment.steps if step.code and step.group.name.startswith(name)]


@pytest.mark.slow
def test_layers_of_one_batch_go_to_tensor_cores() -> None:
    """The first dimension of tokens is 1; what follows the product reads its sums there."""
    net = FloatNet(1, 72, 96)
    hidden = net.op("relu", net.op("add", net.op("matmul", "x", net.constant(96, 136)),
                                   net.constant(136)))
    graph = net.finish([net.op("add", net.op("matmul", hidden, net.constant(136, 96)), "x")])
    assert tensor_products(halves_of(graph), "matmul") == [True, True]


@pytest.mark.slow
def test_a_stem_goes_to_tensor_cores() -> None:
    """Rows of windows of 28 numbers, which are no multiple of 32."""
    net = FloatNet(1, 3, 30, 32)
    graph = net.finish([net.op("relu", net.conv("x", 64, 7, stride=2))])
    assert tensor_products(halves_of(graph), "conv2d_last") == [True]


def test_old_architectures_do_without_tensor_cores() -> None:
    graph = INTEGERS["dense"]
    require_nvrtc()
    segment = GpuTarget("cuda", "cuda", archs=("sm_90a", "sm_75")).compile(graph)
    assert "mma_m16n8k32_s8" not in segment.text[0]
    assert {arch for step in segment.steps if step.code for arch in step.code.images or ()} == {
        "sm_90a", "sm_75"}
    less = GpuTarget("cuda", "cuda", archs=("sm_75",), precision="f16").compile(graph)
    assert less.forms == ValueForms((), "float16")


def test_products_of_int8_on_tensor_cores_have_no_race(rng) -> None:
    net = Net()
    graph = net.graph(net.conv(net.input(1, 40, 5, 13), 20, (1, 1)))
    program, group = kernels(graph, "cuda")
    given = {**graph.constants, "x": rng.integers(-128, 128, (1, 40, 5, 13)).astype(np.int8)}
    assert not find_races(lower(program, True, True, True), {
        buffer.name: given[value].reshape(buffer.shape)
        for buffer, value in zip(program.inputs, group.inputs, strict=True)})


@pytest.mark.slow
def test_products_in_less_precision_where_it_is_asked_for(rng) -> None:
    graph = product("product", 2, 35, 19, 77)
    inputs = {name: rng.standard_normal(graph.values[name].shape).astype(np.float32)
              for name in graph.inputs}
    target = GpuTarget("cuda", "cuda", precision="tf32")
    segment = target.compile(graph)
    assert "mma_m16n8k8_tf32" in segment.text[0] and target.fingerprint != GpuTarget(
        "cuda", "cuda").fingerprint
    found = segment.on(EmulatedDevice())(inputs).values["y"]
    rounded = [((x.view(np.uint32) + 0x1000) & ~np.uint32(0x1fff)).view(np.float32)
               for x in inputs.values()]
    np.testing.assert_allclose(found, np.maximum(rounded[0] @ rounded[1], 0), 1e-4, 1e-5)
    assert np.abs(found - np.maximum(inputs["x"] @ inputs["w"], 0)).max() > 1e-5
    assert "mma" not in GpuTarget("cuda", "cuda").compile(graph).text[0]


def test_a_precision_that_there_is_not_wrong() -> None:
    with pytest.raises(ValueError, match="^Precision must be tf32, f16, bf16 or None, not 'f8'$"):
        GpuTarget("cuda", "cuda", precision="f8")
    with pytest.raises(ValueError, match="^Precision tf32 must be computed by cuda, not by "
                                         "opencl$"):
        GpuTarget("opencl", "opencl", precision="tf32")


@pytest.mark.slow
def test_plans_of_tensor_cores_are_replayed() -> None:
    recorder = Recorder()
    text = GpuTarget("cuda", "cuda", plans=recorder).compile(INTEGERS["matmul"]).text
    plans = Table({task.digest: plan for task, plan in recorder.recorded.items()})
    assert "tensorize" in next(iter(recorder.recorded.values()))
    assert GpuTarget("cuda", "cuda", plans=plans).compile(INTEGERS["matmul"]).text == text


def test_tiles_take_what_fits_in_shared_memory() -> None:
    """Weights of 7 x 7 leave room for fewer terms at once."""
    program, _ = kernels(product("conv", 16, 64, 40, 7, 1, 3))
    shared = lower(program).kernels[0].shared
    assert sum(buffer.size_bytes for buffer in shared) <= 48 << 10
    assert {buffer.shape[1] for buffer in shared} == {4}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow)
                                       for seed in range(1, 8))])
def test_random_networks_fused_unfused_and_by_numpy(seed: int) -> None:
    graph = random_graph(seed, 5 if not seed else 12)
    inputs = inputs_of(graph, seed)
    for name, array in evaluate(graph, inputs).items():
        for fusion in (True, False):
            assert_near(computed("opencl", graph, inputs, fusion=fusion)[name], array)


@pytest.mark.parametrize("graph, launches, shared", [(softmax(), 1, 3), (block(), 1, 0)],
                         ids=["a row", "a sum"])
def test_a_group_is_one_kernel_without_races(graph: Graph, launches: int, shared: int) -> None:
    """Rows keep in shared memory what all elements need, and sums stay in registers."""
    program, group = kernels(graph)
    made = lower(program)
    assert len(made.kernels) == launches and not made.temporaries
    assert sum("tree" not in buffer.name for buffer in made.kernels[0].shared) == shared
    given = {**graph.constants, **inputs_of(graph)}
    assert not find_races(made, {buffer.name: given[value].reshape(buffer.shape) for buffer, value
                                 in zip(program.inputs, group.inputs, strict=True)})


def test_a_segment_keeps_its_memory_and_launches() -> None:
    """The second call allocates nothing, and sees its own inputs; memory is given back."""
    device = EmulatedDevice()
    graph, memory = halves(), {}
    run = GpuTarget("cuda", "cuda").compile(graph).on(device)
    for seed in range(2):
        inputs = inputs_of(graph, seed)
        for name, array in run(inputs).values.items():
            assert_near(array, evaluate(graph, inputs)[name])
        memory = memory or dict(device._memory)
        assert device._memory.keys() == memory.keys()
    del run
    assert memory and not device._memory


def test_a_profile_has_a_row_for_each_group() -> None:
    graph = softmax()
    outcome, rows = GpuTarget("cuda", "cuda").compile(graph).on(EmulatedDevice()).profile(
        inputs_of(graph))
    assert [row["op"] for row in rows] == ["reduce_max + sub + exp + reduce_sum + div"]
    assert all(row["seconds"] > 0 for row in rows) and list(outcome.values) == ["y"]


def test_what_a_dialect_has_no_type_for_is_refused() -> None:
    net = Builder("half")
    net.add_input("x", TensorType((4,), "float16"))
    net.emit("neg", "neg", ["x"], "y")
    graph = net.finish(["y"])
    assert GpuTarget("cuda", "cuda").refusal(graph, graph.nodes[0]) is None
    reason = GpuTarget("opencl", "opencl").refusal(graph, graph.nodes[0])
    assert reason == "type of x must be one that opencl has, not float16"
    with pytest.raises(ValueError, match="neg: type of x must be"):
        GpuTarget("opencl", "opencl").compile(graph)


def test_plans_are_recorded_replayed_and_refused() -> None:
    """A recorded plan gives the same text; one that is not legal is refused."""
    recorder = Recorder()
    text = GpuTarget("opencl", "opencl", plans=recorder).compile(block()).text
    (task, plan), = recorder.recorded.items()
    again = GpuTarget("opencl", "opencl", plans=Table({task.digest: plan})).compile(block())
    assert again.text == text and "bind" in plan
    with pytest.raises(PlanRefused, match="conv2d_add_relu"):
        GpuTarget("opencl", "opencl", plans=Table({task.digest: "split(no_loop, 4)"})).compile(
            block())
