"""Spaces of groups on GPUs: plans of any point compute the same, on PoCL."""

import numpy as np
import pytest

from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.plans import PlanRefused, Recorder, Table, Task
from compiler.tune.features import NAMES
from compiler.tune.model import lessons
from compiler.tune.space import Result
from runtime.driver.targets import gpu_device
from tests.support.float_graphs import assert_near, inputs_of


def product(rows: int, depth: int, columns: int) -> Graph:
    net = Builder("product")
    net.add_input("x", TensorType((rows, depth), "float32"))
    weight = np.random.default_rng(0).standard_normal((depth, columns)).astype(np.float32)
    y = net.emit("matmul", "m", ["x", net.add_constant("w", weight)], "m")
    return net.finish([net.emit("relu", "r", [y], "y")])


def task_of(graph: Graph, model: str = "") -> Task:
    recorder = Recorder()
    GpuTarget("opencl", "opencl", plans=recorder, model=model).compile(graph)
    task, = recorder.recorded
    return task


@pytest.mark.slow
def test_plans_of_any_point_compute_the_same() -> None:
    graph, device = product(19, 24, 33), gpu_device("opencl")
    space = GpuTarget("opencl", "opencl").space(task := task_of(graph))
    inputs, random, plans = inputs_of(graph), np.random.default_rng(0), set()
    for _ in range(6):
        candidate = space.candidate({}, random)
        plans.add(candidate.plan)
        target = GpuTarget("opencl", "opencl", plans=Table({task.digest: candidate.plan}))
        found = target.compile(graph).on(device)(inputs).values["y"]
        assert_near(np.asarray(found), evaluate(graph, inputs)["y"])
    assert len(plans) >= 4


def test_an_empty_point_is_what_the_target_chooses() -> None:
    recorder, graph = Recorder(), product(64, 40, 64)
    GpuTarget("cuda", "cuda", plans=recorder).compile(graph)
    (task, plan), = recorder.recorded.items()
    candidate = GpuTarget("cuda", "cuda").space(task).candidate({})
    assert candidate.plan == plan
    assert {decision.name for decision in candidate.decisions} >= {
        "way", "threads along rows", "rows of a thread", "parts"}


@pytest.mark.parametrize(("dialect", "archs"), [
    ("opencl", ()), pytest.param("cuda", (), marks=pytest.mark.slow), ("cuda", ("sm_90a",))])
def test_candidates_have_features(dialect: str, archs: tuple[str, ...], monkeypatch) -> None:
    """Features of every way tell plans apart, and say what threads do."""
    monkeypatch.setattr("compiler.cpu_gpu_backends.gpu.target.nvrtc_version", lambda: "any")
    target, random = GpuTarget(dialect, dialect, archs=archs), np.random.default_rng(1)
    space = target.space(task_of(product(64, 40, 64)))
    found = {candidate.plan: candidate.features for candidate in (
        space.candidate({}, random) for _ in range(6))}
    assert len(found) > 3 and {len(each) for each in found.values()} == {len(NAMES)}
    assert len({*found.values()}) > len(found) // 2
    candidate = space.candidate({"way": "tiles"})
    assert lessons([(candidate, Result(1.0, "s"))])
    own = dict(zip(NAMES, candidate.features))
    assert 2 ** own["threads of a block"] - 1 in (32, 64, 128, 256, 512)
    assert own["blocks"] > 0 and own["bytes of a thread"] > 0
    assert any(own[f"in thread order of statement {number}"] for number in range(3))


def test_what_is_timed_is_on_the_device() -> None:
    task, device = task_of(product(9, 10, 12)), gpu_device("opencl")
    target = GpuTarget("opencl", "opencl")
    target.measurable(task, target.space(task).candidate({}).plan, 0, device)()
    with pytest.raises(PlanRefused, match="^Plan of matmul_relu: "):
        target.measurable(task, "split(nowhere, 4)", 0, device)


def test_a_task_is_one_of_a_model() -> None:
    graph = product(9, 10, 12)
    tasks = [task_of(graph, model) for model in ("a", "b")]
    assert tasks[0].digest == tasks[1].digest
    assert tasks[0].fingerprint != tasks[1].fingerprint
