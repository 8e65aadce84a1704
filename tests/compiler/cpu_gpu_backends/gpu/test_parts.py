"""Long sums of few results in parts: what they compute, and when they are divided."""

from compiler.cpu_gpu_backends.gpu.lowering import passes
from compiler.graph.passes.pipeline import optimize
from dataclasses import replace

import numpy as np
import pytest

from compiler.cpu_gpu_backends.gpu.parts import WHOLE, Parts, TiledWork, divisions
from compiler.cpu_gpu_backends.gpu.schedule import add_parts, own_schedule
from compiler.cpu_gpu_backends.gpu.segment import GpuSegment, ValueForms
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.cpu_gpu_backends.gpu.tensor_tiles import (flatten_rows, tensor_product_of,
                                                        tile_tensors)
from compiler.cpu_gpu_backends.gpu.shared_tiles import product_of, tile_product
from compiler.cpu_gpu_backends.groups import recipe_of, unscheduled
from compiler.cpu_gpu_backends.simt.code import Code
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races
from compiler.graph import Graph, evaluate
from compiler.graph.fusion import fuse
from compiler.ir import If, Update, interpret, path_to
from compiler.plans import Recorder, Table
from compiler.schedule import Schedule
from compiler.te import Select, numpy_dtype
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice
from tests.compiler.cpu_gpu_backends.gpu.test_target import product
from tests.support.integer_graphs import Net

LONG = {"ragged": product("product", 2, 19, 387, 37),
        "whole": product("product", 1, 64, 512, 64), "pixels": product("conv", 67, 24, 5, 3, 1, 1)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dialect, device", [("opencl", OpenClDevice), ("cuda", EmulatedDevice)])
@pytest.mark.parametrize("name", ["ragged", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("whole", "pixels"))])
def test_sums_of_threads_in_parts(name: str, dialect: str, device: type, rng) -> None:
    """Two kernels equal NumPy within the bound of sums in another order, without a race."""
    graph = LONG[name]
    group, = fuse(graph).groups
    program = own_schedule(unscheduled(recipe_of(graph, group))).program
    inputs = {value: rng.standard_normal(graph.values[value].shape).astype(np.float32)
              for value in graph.inputs}
    given = {buffer.name: inputs[value].reshape(buffer.shape)
             for buffer, value in zip(program.inputs, group.inputs, strict=True)}
    code = generate(program, dialect)
    (partial,), (first, second) = code.temporaries, code.launches
    assert partial.shape[0] > 2 and np.prod(first.grid) >= 2 * partial.shape[0]
    assert second.block == (128, 1, 1)
    found, wanted = compute(device(), code, given)["y"], evaluate(graph, inputs)["y"]
    sizes = {name: np.abs(array) for name, array in inputs.items()}
    bound = 1200 * np.finfo(np.float32).eps * evaluate(graph, sizes)["y"]
    assert (np.abs(found.reshape(wanted.shape) - wanted) <= bound).all()
    if dialect == "opencl":
        assert not find_races(lower(program), given)


@pytest.mark.parametrize("parts", [Parts(5), Parts(7)], ids=str)
def test_partial_sums_in_registers_ask_for_no_bound(parts: Parts) -> None:
    """Terms are padded to whole chunks of all parts."""
    group, = fuse(LONG["ragged"]).groups
    s = Schedule(unscheduled(recipe_of(LONG["ragged"], group)))
    tiled = product_of(s.program)
    assert tiled
    tile_product(s, tiled, parts=parts)
    *around, total = path_to(s.program.body, lambda stmt: isinstance(stmt, Update))
    assert isinstance(total, Update) and not isinstance(total.value, Select)
    assert not any(isinstance(stmt, If) for stmt in around)


def codes(segment: GpuSegment) -> list[Code]:
    return [step.code for step in segment.steps if step.code]


def integers(kind: str) -> Graph:
    net = Net()
    match kind:
        case "window": return net.graph(net.conv(net.input(1, 256, 7, 7), 70, (3, 3), (1, 1),
                                                 (1, 0, 1, 1), pad_value=-7))
        case "one tap": return net.graph(net.conv(net.input(1, 2064, 5, 10), 80, (1, 1)))
        case "few channels": return net.graph(net.conv(net.input(1, 130, 9, 7), 33, (3, 3), (1, 1),
                                                       (1, 1, 0, 1), pad_value=-3))
        case "few terms": return net.graph(net.dense(net.input(9, 170), 20))
        case "dense": return net.graph(net.dense(net.input(8, 2049), 700))
    return net.graph(net.matmul(net.input(2, 35, 3001, name="a"),
                                net.input(2, 3001, 72, name="b")))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["few channels", "matmul", *(
    pytest.param(kind, marks=pytest.mark.slow) for kind in ("window", "one tap", "dense"))])
def test_integers_in_parts_are_equal_to_the_bit(kind: str, rng) -> None:
    graph = integers(kind)
    inputs = {value: rng.integers(-128, 128, graph.values[value].shape).astype(np.int8)
              for value in graph.inputs}
    segment = GpuTarget("cuda", "cuda").compile(graph)
    code, = (code for code in codes(segment) if code.temporaries)
    assert len(code.launches) == 2
    found = segment.on(EmulatedDevice())(inputs).values
    for value, wanted in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(found[value], wanted)


@pytest.mark.slow
@pytest.mark.parametrize("precision, bound", [
    ("f16", 2**-10), pytest.param("tf32", 2**-10, marks=pytest.mark.slow)])
def test_products_in_less_precision_in_parts(precision: str, bound: float, rng) -> None:
    graph = product("product", 2, 35, 2001, 70)
    inputs = {value: rng.standard_normal(graph.values[value].shape).astype(np.float32)
              for value in graph.inputs}
    segment = GpuTarget("cuda", "cuda", precision=precision).compile(graph)
    assert "mma" in codes(segment)[-1].text and codes(segment)[-1].temporaries
    found = segment.on(EmulatedDevice())(inputs).values["y"]
    exact = np.maximum(inputs["x"].astype(float) @ inputs["w"].astype(float), 0)
    sizes = np.abs(inputs["x"]) @ np.abs(inputs["w"])
    assert (np.abs(found - exact) <= bound * sizes).all() and found.any()


@pytest.mark.slow
@pytest.mark.parametrize("kind, parts", [
    ("window", Parts(2, 1)), pytest.param("few terms", Parts(3), marks=pytest.mark.slow), *(
        pytest.param("window", parts, marks=pytest.mark.slow)
        for parts in (Parts(3), Parts(1, 1)))], ids=str)
def test_tiles_of_partial_sums_have_no_race(kind: str, parts: Parts, rng) -> None:
    if kind == "window":
        net = Net()
        graph = optimize(net.graph(net.conv(net.input(1, 144, 4, 5), 9, (3, 1), (1, 1),
                                            (1, 0, 1, 0), pad_value=-7)),
                         passes(ValueForms(("int8",))))
    else:
        graph = integers(kind)
    group, = (group for group in fuse(graph).groups if group.name != "relayout")
    s = Schedule(unscheduled(recipe_of(graph, group)))
    flatten_rows(s)
    tensor_product = tensor_product_of(s.program)
    assert tensor_product
    tile_tensors(s, tensor_product, parts=parts)
    add_parts(s, tensor_product.sum.buffer.name)
    given = {name: rng.integers(-128, 128, graph.values[name].shape).astype(np.int8)
             for name in group.inputs if name not in graph.constants} | dict(graph.constants)
    given = {buffer.name: given[value].reshape(buffer.shape)
             for buffer, value in zip(s.program.inputs, group.inputs, strict=True)}
    found = compute(EmulatedDevice(), generate(s.program, "cuda"), given)["y"]
    wanted = interpret(unscheduled(recipe_of(graph, group)), given)["y"]
    np.testing.assert_array_equal(found, wanted)
    assert not find_races(lower(s.program, True, True, True), given)


def test_partial_sums_count_in_the_memory_of_the_device() -> None:
    segment = GpuTarget("cuda", "cuda").compile(integers("dense"))
    partial, = codes(segment)[-1].temporaries
    assert partial.shape[1:] == (32, 704) and partial.dtype == "int32"
    assert segment.plan.size >= partial.size * numpy_dtype(partial.dtype).itemsize
    assert segment.device_bytes >= segment.plan.size


def test_plans_in_parts_are_replayed() -> None:
    recorder, graph = Recorder(), integers("dense")
    text = GpuTarget("cuda", "cuda", plans=recorder).compile(graph).text
    plans = Table({task.digest: plan for task, plan in recorder.recorded.items()})
    assert any("rfactor" in plan for plan in recorder.recorded.values())
    assert GpuTarget("cuda", "cuda", plans=plans).compile(graph).text == text


SMALL = TiledWork(results=64 * 64, blocks=1, rows=64, columns=64, warps=2, steps=128, terms=32)


def test_a_small_grid_is_divided_and_a_large_one_is_not() -> None:
    def best(work: TiledWork) -> Parts:
        return min(divisions(work), key=work.cost)

    assert best(SMALL).depth > 8
    short = replace(SMALL, steps=8, terms=16)               # not worth a kernel
    assert len(list(divisions(short))) > 1 and best(short) == WHOLE
    for blocks in (108, 500):
        assert list(divisions(replace(SMALL, blocks=blocks, results=blocks * 4096))) == [WHOLE]
    window = replace(SMALL, steps=16, extents=(3, 3), blocks=8, results=49 * 512)
    assert best(window).loops and best(window).count(window.extents) > 8


def test_parts_have_steps_enough_and_all_have_terms() -> None:
    for work in (SMALL, replace(SMALL, steps=13, extents=(3, 2)), replace(SMALL, steps=1)):
        for parts in divisions(work):
            steps = -(-work.steps // parts.depth)
            assert parts == WHOLE or parts.count(work.extents) <= 32
            assert parts == WHOLE or steps * np.prod(work.extents[parts.loops:]) >= 4
            assert (parts.depth - 1) * steps < work.steps


def test_more_blocks_than_multiprocessors_take_turns() -> None:
    one, two = replace(SMALL, blocks=108, warps=4), replace(SMALL, blocks=109, warps=4)
    assert two.cost() == 2 * one.cost()
    assert replace(one, warps=2).cost() > one.cost()


def test_large_products_are_one_kernel() -> None:
    graph = product("product", 1, 768, 64, 768)
    group, = fuse(graph).groups
    program = own_schedule(unscheduled(recipe_of(graph, group))).program
    assert not generate(program, "opencl").temporaries
