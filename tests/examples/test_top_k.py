"""examples/machines/top_k.py: the component and its meaning, and networks that end in TopK."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lockstep
from accel.machine.config import load
from accel.machine.streams import StreamShape
from accel.mapping.target import AccelTarget
from accel.sim.checking.check import check
from compiler.graph import Graph
from examples.machines.top_k import MOST, TopK, greatest, machine, machine_of
from tests.support.components import rows_through
from tests.support.effort import Effort
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree

GEOMETRIES = Path("examples/geometries")

FIELDS = {"count": "uint16", "k": "uint8", "part": "uint8", "least": "uint8"}


def shape_of(batch: int, lanes: int, dtype: str) -> StreamShape:
    entry = ((batch, lanes), dtype)
    return StreamShape(entry, entry, FIELDS)


def random_rows(rng: np.random.Generator, batch: int, lanes: int, dtype: str, count: int) -> list:
    """Rows of few numbers, so that many are equal, of all parts; some count beyond their end."""
    rows = []
    for place in range(count):
        n = int(rng.integers(1, 9))
        rows.append((rng.integers(-4, 4, (n, batch, lanes)).astype(dtype), {
            "count": int(rng.integers(0, n * lanes + 3)), "k": int(rng.integers(0, MOST + 2)),
            "part": place % 3, "least": place // 3 % 2}))
    return rows


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("batch", "lanes", "dtype", "p_in", "p_out"), [
    (1, 4, "int8", 0, 0), (2, 4, "int8", 0.3, 0.3), (1, 2, "int16", 0, 0.7), (2, 32, "int8", 0, 0)])
def test_component_is_the_meaning(batch, lanes, dtype, p_in, p_out) -> None:
    rng, shape = np.random.default_rng(lanes), shape_of(batch, lanes, dtype)
    rows = random_rows(rng, batch, lanes, dtype, 6 if Effort.quick else 12)
    results, _ = rows_through(TopK(shape), shape, rows, None, p_in, p_out)
    for (row, fields), result in zip(rows, results, strict=True):
        np.testing.assert_array_equal(result, greatest(row[None], **fields)[0])


@pytest.mark.slow
def test_places_of_more_than_a_byte() -> None:
    shape, rng = shape_of(1, 64, "int8"), np.random.default_rng(2)
    row = rng.integers(-100, 100, (9, 1, 64)).astype(np.int8)
    fields = {"count": 570, "k": 5, "least": 0}
    row[8, 0, 50] = 127                                     # place 562
    results, _ = rows_through(TopK(shape), shape, [(row, fields | {"part": part})
                                                   for part in range(3)])
    values, low, high = (result[0, 0, :5].astype(int) for result in results)
    order = np.argsort(-row.reshape(-1)[:570].astype(int), kind="stable")[:5]
    assert order[0] == 562
    np.testing.assert_array_equal((low & 255) + 256 * (high & 255), order)
    np.testing.assert_array_equal(values, row.reshape(-1)[order])


def test_time_of_a_row() -> None:
    shape = shape_of(1, 4, "int8")
    rows = random_rows(np.random.default_rng(1), 1, 4, "int8", 8)
    _, times = rows_through(TopK(shape), shape, rows)
    (_, computes), = machine.of_rows
    assert np.diff(times).tolist() == [computes.cycles(len(row)) for row, _ in rows[1:]]


def orders(shape: tuple[int, ...], count: int, largest: int = 1) -> tuple[Graph, dict]:
    """All parts of the first numbers in order."""
    net = Net(4)
    x = net.input(*shape)
    parts = [net.add_node("qorder", x, count=count, largest=largest, part=part)
             for part in range(3)]
    return net.graph(*parts), {x: net.rng.integers(-20, 20, shape).astype(np.int8)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("geometry", "shape", "count", "largest"), [
    ("tiny-1x4x4", (2, 3, 30), 5, 1), ("tiny-1x4x4", (1, 300), 16, 0),
    (GEOMETRIES / "1x32x16.toml", (3, 70), 1, 1), (GEOMETRIES / "2x8x8.toml", (1, 5, 33), 7, 0)])
def test_the_compiler_gives_orders_to_it(geometry, shape, count, largest) -> None:
    subject = machine_of(load(geometry))
    program = assert_right(subject, *orders(shape, count, largest))
    words = [one.fields for one in program.instructions(subject) if one.name == "top_k"]
    assert {fields["part"] for fields in words} == {0, 1, 2}
    assert {fields["k"] for fields in words} == {count}


def test_more_than_there_are_cells_for_stay_on_the_host() -> None:
    graph, _ = orders((1, 40), MOST + 1)
    assert AccelTarget(machine).refusal(graph, graph.nodes[0])
    few = {"count": 1, "largest": 1, "part": 0}
    assert machine.computes_rows("qorder", 40, few)
    assert not machine.computes_rows("qorder", 40, graph.nodes[0].attrs)
    assert not machine.computes_rows("qorder", 4097, few)       # more entries than a row can have


def ranking(count: int) -> onnx.ModelProto:
    """The greatest of a dense layer's results, and where they are."""
    rng, constants = np.random.default_rng(1), {}

    def const(name: str, array: np.ndarray) -> str:
        constants[name] = numpy_helper.from_array(array, name)
        return name

    def quantized(value: str, scale: float) -> list:
        steps = [const(f"{value}_scale", np.array(scale, np.float32)),
                 const(f"{value}_zero", np.array(0, np.int8))]
        return [helper.make_node("QuantizeLinear", [value, *steps], [f"{value}_q"]),
                helper.make_node("DequantizeLinear", [f"{value}_q", *steps], [f"{value}_d"])]

    const("w", rng.normal(size=(10, 280)).astype(np.float32) / 4)
    const("k", np.array([count], np.int64))
    nodes = [
        *quantized("x", 0.05), *quantized("w", 0.01),
        helper.make_node("MatMul", ["x_d", "w_d"], ["y"], "dense"), *quantized("y", 0.05),
        helper.make_node("TopK", ["y_d", "k"], ["values", "places"], "top", axis=-1)]
    outputs = [helper.make_tensor_value_info(name, dtype, [2, count]) for name, dtype in (
        ("values", TensorProto.FLOAT), ("places", TensorProto.INT64))]
    return helper.make_model(helper.make_graph(
        nodes, "ranking", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 10])],
        outputs, [*constants.values()]), opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("count", "layers"), [(5, 4), (MOST + 1, 1)])
def test_a_network_that_ends_in_top_k(count: int, layers: int) -> None:
    model, x = ranking(count), np.random.default_rng(2).normal(size=(2, 10)).astype(np.float32)
    here, host = lockstep.compile(model, machine=machine), lockstep.compile(model, target="cpu")
    names = [work.node.op for segment in here.accelerated for group in segment.work
             for work in group]
    assert (names.count("qorder"), names.count("qdense")) == (layers - 1, 1)
    for module in (here, host):
        module.set_input(x=x)
        module.run()
    for name in ("values", "places"):
        np.testing.assert_array_equal(here.get_output(name), host.get_output(name))


@pytest.mark.slow
def test_the_rtl_agrees() -> None:
    graph, inputs = orders((2, 30), 5)
    program = assert_right(machine, graph, inputs)
    assert_simulators_agree(machine, program, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("geometry", ["tiny-1x4x4", GEOMETRIES / "2x8x8.toml"])
def test_the_simulators_agree(geometry) -> None:
    report = check(machine_of(load(geometry)), 20, locate=False)
    assert report.ok, report.difference or (report.empty, report.missing)
