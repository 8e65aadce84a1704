"""examples/machines/gather.py: the component and its meaning, and networks that look rows up."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lockstep
from accel.machine.config import load
from accel.mapping.target import AccelTarget
from accel.machine.streams import StreamShape
from accel.sim.checking.check import check
from compiler.graph import Graph
from compiler.ops.registry import find
from examples.machines.gather import Gather, gathered, machine, machine_of
from tests.support.components import rows_through
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree

ENTRIES = 4096            # so many that the high byte of a number counts
GEOMETRIES = Path("examples/geometries")


def shape_of(batch: int, lanes: int, dtype: str, read_cycles: int = 2) -> StreamShape:
    entry = ((batch, lanes), dtype)
    return StreamShape(entry, entry, {"width": "uint16"}, (ENTRIES, (lanes,), dtype), read_cycles)


def random_rows(rng: np.random.Generator, batch: int, lanes: int, dtype: str, count: int) -> list:
    info = np.iinfo(dtype)
    return [(rng.integers(info.min, info.max + 1, (int(rng.integers(1, 6)), batch, lanes), dtype),
             {"width": int(rng.integers(1 << 16))}) for _ in range(count)]


def the_table(rng: np.random.Generator, lanes: int, dtype: str) -> np.ndarray:
    return rng.integers(-100, 100, (ENTRIES, lanes)).astype(dtype)


@pytest.mark.parametrize(("batch", "lanes", "dtype", "p_in", "p_out", "read_cycles"), [
    (1, 4, "int8", 0, 0, 2), (2, 4, "int8", 0.3, 0.3, 3), (4, 2, "int8", 0, 0.7, 2),
    (1, 2, "int16", 0.3, 0, 4)])
def test_component_is_the_meaning(batch, lanes, dtype, p_in, p_out, read_cycles) -> None:
    rng, shape = np.random.default_rng(lanes), shape_of(batch, lanes, dtype, read_cycles)
    table, rows = the_table(rng, lanes, dtype), random_rows(rng, batch, lanes, dtype, 12)
    results, _ = rows_through(Gather(shape), shape, rows, table, p_in, p_out)
    for (row, fields), result in zip(rows, results, strict=True):
        np.testing.assert_array_equal(result, gathered(row[None], table, **fields)[0])


@pytest.mark.parametrize(("batch", "read_cycles"), [(1, 2), (2, 2), (1, 5)])
def test_time_of_a_row(batch: int, read_cycles: int) -> None:
    rng, shape = np.random.default_rng(1), shape_of(batch, 2, "int8", read_cycles)
    rows = random_rows(rng, batch, 2, "int8", 8)
    _, times = rows_through(Gather(shape), shape, rows, the_table(rng, 2, "int8"))
    assert np.diff(times).tolist() == [batch * len(row) for row, _ in rows[1:]]


def test_meaning_is_that_of_the_operator() -> None:
    rng, lanes, width = np.random.default_rng(5), 4, 3
    table = rng.integers(-128, 128, (20, width * lanes - 1)).astype(np.int8)
    bytes_ = find("numbers_in_bytes").meaning({"rows": 20}, rng.integers(-20, 20, (7,)))
    wanted = find("qgather").meaning({}, bytes_, table)
    blocks = np.zeros((64, lanes), np.int8)
    blocks[:60] = np.pad(table, ((0, 0), (0, 1))).reshape(60, lanes)
    rows = rng.integers(-128, 128, (7, 1, 1, lanes)).astype(np.int8)
    rows[:, 0, 0, :2] = bytes_
    results = gathered(np.repeat(rows, width, axis=1), blocks, width)
    np.testing.assert_array_equal(results.reshape(7, -1)[:, :-1], wanted)


def lookup(rows: int, width: int, numbers: int, layer: bool = True) -> tuple[Graph, dict]:
    """Rows of a table, and a dense layer of them; the numbers in bytes."""
    net = Net(2)
    x = net.input(1, numbers, 2)
    table = net.constant(net.rng.integers(-128, 128, (rows, width)).astype(np.int8))
    y = net.add_node("qgather", x, table)
    given = net.rng.integers(0, rows, (1, numbers))
    return net.graph(net.dense(y, 7) if layer else y), {
        x: find("numbers_in_bytes").meaning({"rows": rows}, given)}


@pytest.mark.parametrize("geometry", ["tiny-1x4x4", GEOMETRIES / "1x32x16.toml",
                                      GEOMETRIES / "2x8x8.toml"])
def test_the_compiler_gives_lookups_to_it(geometry) -> None:
    subject = machine_of(load(geometry))
    program = assert_right(subject, *lookup(300, 37, 9))
    words = [one for one in program.instructions(subject) if one.name == "gather"]
    assert words and {one.unit for one in words} == {"gatherer"}
    assert {one.fields["loops"][-1]["a"] for one in words} == {0}


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (256, 2), (4096, 4)])
def test_tables_of_any_shape_that_fit(rows: int, width: int) -> None:
    assert_right(machine, *lookup(rows, width, 3, layer=False))


def test_a_table_that_does_not_fit_stays_on_the_host() -> None:
    graph, _ = lookup(5000, 4, 3, layer=False)
    reason = AccelTarget(machine).refusal(graph, graph.nodes[0])
    assert reason == ("gather reads a power of two of entries of 4 elements from a table, at most "
                      "4096; a layer has 32768 elements")
    other = AccelTarget(lockstep.Machine(lockstep.preset("tiny-1x4x4")))
    assert other.refusal(graph, graph.nodes[0])


def embedding(dtype: str = "int8") -> onnx.ModelProto:
    """An embedding of numbers of 64 bits, and a dense layer, quantized."""
    rng, constants = np.random.default_rng(1), {}

    def const(name: str, array: np.ndarray) -> str:
        constants[name] = numpy_helper.from_array(array, name)
        return name

    steps = [const("scale", np.array(0.05, np.float32)), const("zero", np.array(3, dtype))]
    table = rng.integers(0, 256, (50, 10)).astype(np.uint8).astype(dtype)
    const("weight", rng.normal(size=(10, 6)).astype(np.float32) / 4)
    nodes = [
        helper.make_node("DequantizeLinear", [const("table", table), *steps], ["f"]),
        helper.make_node("Gather", ["f", "ids"], ["rows"], "embed", axis=0),
        helper.make_node("QuantizeLinear", ["rows", *steps], ["q"]),
        helper.make_node("DequantizeLinear", ["q", *steps], ["x"]),
        helper.make_node("QuantizeLinear", ["weight", "ws", "wz"], ["wq"]),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["sums"], "dense"),
        helper.make_node("QuantizeLinear", ["sums", *steps], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", *steps], ["y"])]
    const("ws", np.array(0.01, np.float32))
    const("wz", np.array(0, np.int8))
    return helper.make_model(helper.make_graph(
        nodes, "embedding", [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7, 6])],
        [*constants.values()]), opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_network_with_an_embedding(dtype: str) -> None:
    model, outputs = embedding(dtype), []
    ids = np.array([[0, 49, -1, -50, 7, 7, 31]])
    here, host = lockstep.compile(model, machine=machine), lockstep.compile(model, target="cpu")
    segment, = here.accelerated
    assert [work.node.name for group in segment.work for work in group] == ["embed", "dense"]
    for module in (here, host):
        module.set_input(ids=ids)
        module.run()
        outputs.append(module.get_output("y"))
    np.testing.assert_array_equal(*outputs)


@pytest.mark.slow
def test_the_rtl_agrees() -> None:
    graph, inputs = lookup(60, 10, 6)
    program = assert_right(machine, graph, inputs)
    assert_simulators_agree(machine, program, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("geometry", ["tiny-1x4x4", GEOMETRIES / "2x8x8.toml"])
def test_the_simulators_agree(geometry) -> None:
    report = check(machine_of(load(geometry)), 20, locate=False)
    assert report.ok, report.difference or (report.empty, report.missing)
