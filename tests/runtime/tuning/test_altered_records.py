"""Records that somebody altered never give a wrong result: they are refused, or still right."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import lockstep
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.plans import PlanRefused, Recorder, Task
from compiler.tune.record import Record
from compiler.tune.records import Records
from compiler.tune.space import Result
from tests.support.float_graphs import assert_near, inputs_of
from tests.support.integer_graphs import Net


def floats() -> Graph:
    rng = np.random.default_rng(0)
    net = Builder("floats")
    net.add_input("x", TensorType((1, 20, 12, 12), "float32"))
    weight = net.add_constant("w", rng.standard_normal((32, 20, 3, 3)).astype(np.float32))
    again = net.add_constant("v", rng.standard_normal((16, 32, 1, 1)).astype(np.float32))
    y = net.emit("conv2d", "c", ["x", weight], "c", strides=(1, 1), pads=(1, 1, 1, 1))
    y = net.emit("maxpool", "p", [y], "p", kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0))
    return net.finish([net.emit("conv2d", "d", [y, again], "y", strides=(1, 1), pads=(0,) * 4)])


def integers() -> Graph:
    net = Net(5)
    x = net.conv(net.input(1, 8, 12, 12), 16, (3, 3), pads=(1, 1, 1, 1))
    return net.graph(net.conv(net.max_pool(x, (2, 2), (2, 2)), 8, (1, 1)))


def recorded(graph: Graph, target: str) -> dict[Task, str]:
    recorder = Recorder()
    lockstep.compile(graph, target, plans=recorder, cache=False)
    return recorder.recorded


def outcome(graph: Graph, target: str, path: Path, records: list[tuple[Task, str]]) -> str:
    """"refused" or "right"."""
    path.unlink(missing_ok=True)
    with Records(path) as database:
        for number, (task, plan) in enumerate(records):
            database.add(Record(task, plan, Result(1.0, "s"), "here", 0, str(number)))
        plans = database.plans()
    rng = np.random.default_rng(1)
    given = inputs_of(graph) if graph.values[graph.inputs[0]].dtype == "float32" else {
        name: rng.integers(-128, 128, graph.values[name].shape).astype(np.int8)
        for name in graph.inputs}
    try:
        module = lockstep.compile(graph, target, plans=plans, cache=False)
    except PlanRefused as error:
        assert "\n" not in str(error).splitlines()[0]
        return "refused"
    wanted = evaluate(graph, given)
    for name, array in module(given).items():
        if wanted[name].dtype == np.float32:
            assert_near(array, wanted[name])
        else:
            np.testing.assert_array_equal(array, wanted[name])
    return "right"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("make", "target"), [
    (floats, "cpu"), pytest.param(integers, "cpu", marks=pytest.mark.slow),
    (integers, "accel:tiny-1x4x4")])
def test_plans_of_other_tasks_are_refused_or_right(tmp_path: Path, make, target: str) -> None:
    graph = make()
    plans = recorded(graph, target)
    outcomes = [outcome(graph, target, tmp_path / "r.db", [(task, plans[other])])
                for task, other in permutations(plans, 2)]
    assert len(plans) > 2 and "refused" in outcomes


@pytest.mark.parametrize("target", ["cpu", "accel:tiny-1x4x4"])
def test_texts_that_are_no_plans_are_refused(tmp_path: Path, target: str) -> None:
    graph = integers()
    for task, plan in recorded(graph, target).items():
        for altered in ("nonsense", f"{plan}\nsplit(nowhere, 4)", f"{plan} rows=3"):
            assert outcome(graph, target, tmp_path / "r.db", [(task, altered)]) == "refused"


@pytest.mark.parametrize("target", ["cpu", "accel:tiny-1x4x4"])
def test_records_of_another_machine_are_not_used(tmp_path: Path, target: str) -> None:
    graph = integers()
    foreign = [(replace(task, fingerprint="of another"), "nonsense")
               for task in recorded(graph, target)]
    assert outcome(graph, target, tmp_path / "r.db", foreign) == "right"
