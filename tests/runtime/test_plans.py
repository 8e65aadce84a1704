"""Schedules from outside: plans of groups on the CPU and of layers of the accelerator."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from accel.machine.machine import Machine
from accel.mapping.plans.text import stream_task
from accel.mapping.target import AccelTarget
from compiler.graph import Graph, evaluate, optimize
from compiler.plans import Own, PlanRefused, Recorder, Table, Task
from compiler.tune.best import BestPlans, PackagedPlans
from lockstep.testing import zoo
from runtime import Module
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

SMALL = "rows=1 columns=2 channels=1 depth=1 threads=1"
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"


def network() -> Graph:
    """A convolution, and a pooling that may be computed with it."""
    net = Net(5)
    x = net.conv(net.input(1, 8, 12, 12), 16, (3, 3), pads=(1, 1, 1, 1))
    return net.graph(net.max_pool(x, (2, 2), (2, 2)))


def compiled(plans, graph: Graph | Path = DIGITS, target: str = "accel:tiny-1x4x4") -> Module:
    return lockstep.compile(graph, target, plans=plans, sim="cycle", cache=False)


def words(module: Module) -> list[bytes]:
    return [one.program.words.tobytes() for one in module.accelerated]


def texts(module: Module) -> list[str]:
    return [line for step in module.steps if step.execute.program is None
            for line in step.compiled.text]


def right(module: Module) -> int:
    """Asserts that values equal the reference's; returns the cycles."""
    rng = np.random.default_rng(0)
    given = {name: rng.integers(-128, 128, module.graph.values[name].shape).astype(np.int8)
             for name in module.graph.inputs}
    for name, array in given.items():
        module.set_input(name, array)
    runs = module.run()
    for name, wanted in evaluate(module.graph, given).items():
        np.testing.assert_array_equal(module.get_output(name), wanted)
    return sum(run.cycles for run in runs)


@pytest.mark.parametrize("target", ["accel:tiny-1x4x4", "cpu"])
def test_what_targets_choose_themselves_is_replayed_to_the_same(target: str, tmp_path) -> None:
    """From the file that a recorder wrote: the same programs, the same kernels."""
    recorder = Recorder()
    first = compiled(recorder, target=target)
    assert recorder.recorded
    recorder.write(tmp_path / "plans.json")
    again = compiled(Table.read(tmp_path / "plans.json"), target=target)
    own = compiled(Own(), target=target)
    assert words(first) == words(again) == words(own)
    assert texts(first) == texts(again) == texts(own)


def test_a_division_by_cost_is_replayed_to_the_same() -> None:
    """Candidates too are priced with the plans that are given."""
    def divided(plans) -> Module:
        return lockstep.compile(network(), "auto:tiny-1x4x4", plans=plans, sim="cycle", cache=False,
                                pins={"qconv2d": "accel", "qmaxpool": "host"})

    recorder = Recorder()
    first = divided(recorder)
    again = divided(Table({task.digest: plan for task, plan in recorder.recorded.items()}))
    assert {task.title.split()[0] for task in recorder.recorded} > {"qmaxpool", "layer"}
    assert words(first) and words(first) == words(again)
    assert texts(first) and texts(first) == texts(again)
    digest, _ = plan_of(recorder, "layer ")
    assert words(first) != words(divided(Table({digest: SMALL})))


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    pytest.param("mobilenet_v2", marks=pytest.mark.slow), "lstm"])
def test_kernels_of_networks_are_replayed_to_the_same(name: str) -> None:
    size: dict[str, Any] = {} if name == "lstm" else {"size": 32}
    graph = zoo.build(name, **size)
    recorder = Recorder()
    first = lockstep.compile(graph, "cpu", plans=recorder, cache=False)
    again = lockstep.compile(graph, "cpu", cache=False, plans=Table(
        {task.digest: plan for task, plan in recorder.recorded.items()}))
    assert texts(first) == texts(again)
    assert any(plan for plan in recorder.recorded.values())


def test_a_plan_of_nothing_is_recorded() -> None:
    """But what has no plan, and nobody gives one to, is no task."""
    task, other = Task("f", "1", "a copy"), Task("f", "2", "a view")
    recorder = Recorder(Table({"1": ""}))
    assert recorder.find(task, lambda: "unroll(i)") == "" and recorder.find(
        other, lambda: "") is None
    assert recorder.recorded == {task: ""} and recorder.counts == {task: 1}


def plan_of(recorder: Recorder, title: str) -> tuple[str, str]:
    """Digest and plan of the first task whose title begins so."""
    return next((task.digest, plan) for task, plan in recorder.recorded.items()
                if task.title.startswith(title))


def refusal_of(plan: str, title: str) -> str:
    """What is said of a plan for the network's task whose title begins so."""
    recorder = Recorder()
    compiled(recorder, network())
    digest, _ = plan_of(recorder, title)
    with pytest.raises(PlanRefused) as refusal:
        compiled(Table({digest: plan}), network())
    return str(refusal.value)


def test_tiles_of_a_layer_are_given_from_outside() -> None:
    recorder = Recorder()
    best = right(compiled(recorder, network()))
    digest, plan = plan_of(recorder, "layer ")
    pair, _ = plan_of(recorder, "layers ")
    module = compiled(Table({digest: SMALL, pair: "apart"}), network())
    assert plan != SMALL and right(module) > 1.5 * best


def test_two_layers_are_computed_together_or_apart_as_the_plan_says() -> None:
    recorder = Recorder()
    right(compiled(recorder, network()))
    digest, plan = plan_of(recorder, "layers ")
    assert " / " in plan
    module = compiled(Table({digest: "apart"}), network())
    right(module)
    assert [len(group) for group in module.accelerated[0].work] == [1, 1]
    one, two = plan.split(" / ")
    smaller = compiled(Table({digest: f"{one} / {two}"}), network())
    assert [len(group) for group in smaller.accelerated[0].work] == [2]


@pytest.mark.parametrize(("plan", "reason"), [
    ("", "Plan of a layer must be like 'rows=4 columns=4 channels=2 depth=1 stationary=w "
         "threads=2', not ''"),
    ("rows=1 columns=1 channels=1 depth=1 threads=2 more=1", "Plan of a layer must be like"),
    ("rows=1 columns=1 channels=1 depth=1 threads=3", "threads must be from 1 to 2"),
    ("rows=99 columns=1 channels=1 depth=1 threads=1", "rows must be from 1 to 12, not 99"),
    ("rows=12 columns=12 channels=4 depth=2 threads=2", "a tile must fit "),
    ("rows=1 columns=1 channels=1 depth=1 stationary=x threads=1", "Plan of a layer must be like"),
    ("rows=1 columns=1 channels=1 depth=1 by_rows=1 threads=1", "Plan of a layer must be like"),
    ("rows=12 columns=1 channels=1 depth=1 by_rows=True threads=1",
     "its operands can follow, in an order that they can have"),
])
def test_tiles_that_cannot_be_are_refused(plan: str, reason: str) -> None:
    assert reason in refusal_of(plan, "layer ")


@pytest.mark.parametrize(("plan", "reason"), [
    ("together", "Plan of two layers must be 'apart' or the tiles of both"),
    ("rows=4 columns=4 channels=1 depth=1 threads=2 / rows=1 columns=1 channels=1 depth=1 "
     "threads=2", "tiles of the second layer must be parts of those of the first"),
    ("rows=2 columns=2 channels=1 depth=1 threads=1 / rows=1 columns=1 channels=1 depth=1 "
     "threads=1", "threads of layers that are computed together must be 2"),
])
def test_pairs_that_cannot_be_are_refused(plan: str, reason: str) -> None:
    assert reason in refusal_of(plan, "layers ")


def float_graph() -> Graph:
    net = Net(2)
    return optimize(net.graph(net.add_node("neg", net.add_node(
        "dequantize", net.input(1, 4, 6, 8), scale=0.5, zp=1))))


def test_a_kernel_is_scheduled_from_outside() -> None:
    recorder, graph = Recorder(), float_graph()
    first = compiled(recorder, graph, "cpu")
    ((task, plan),) = recorder.recorded.items()
    assert "vectorize" in plan and task.title.startswith("dequantize_neg of int8[1,4,6,8]")
    plain = compiled(Table({task.digest: "unroll(y_i3)"}), graph, "cpu")
    assert texts(plain) != texts(first)
    given = {name: np.arange(-96, 96, dtype=np.int8).reshape(1, 4, 6, 8) for name in graph.inputs}
    for name, wanted in evaluate(graph, given).items():
        np.testing.assert_array_equal(plain(given)[name], wanted)


@pytest.mark.parametrize("plan", ["split(y_i9, 4)", "reorder(y_i3", "delete(y)",
                                  "reorder(y_i3, reassociate=True)"])
def test_steps_that_cannot_be_are_refused(plan: str) -> None:
    recorder, graph = Recorder(), float_graph()
    compiled(recorder, graph, "cpu")
    (task,) = recorder.recorded
    with pytest.raises(PlanRefused, match="^Plan of dequantize_neg: "):
        compiled(Table({task.digest: plan}), graph, "cpu")


def test_a_file_that_has_no_plans_is_refused(tmp_path) -> None:
    for text in ("", "[1]", "{\"a\": 1}", "{\"a\": {\"plan\": 3}}"):
        (tmp_path / "plans.json").write_text(text)
        with pytest.raises(PlanRefused, match="must be a file of plans: it has another form$"):
            Table.read(tmp_path / "plans.json")
    with pytest.raises(PlanRefused, match="No such file or directory$"):
        Table.read(tmp_path / "none.json")


def stream_of(graph: Graph, machine: Machine = TINY) -> Task:
    """The task of the graph's layers, which are one stream."""
    layers = AccelTarget(machine).compile(optimize(graph)).layers
    return stream_task(machine, layers, 2)


PLAN = " ; ".join((SMALL, "rows=1 columns=1 channels=1 depth=1 threads=1"))


def test_a_packaged_plan_that_does_not_hold_is_left_alone(caplog) -> None:
    """One that was asked for is refused."""
    own, task = compiled(Own(), network()), stream_of(network())
    for plan in (PLAN.replace("columns=2", "columns=99"), f"{PLAN} ; {PLAN}"):
        plans = {(task.fingerprint, task.digest): plan}
        assert words(compiled(PackagedPlans(plans), network())) == words(own)
        assert f"A plan for {task.title} does not hold" in caplog.text
        caplog.clear()
        with pytest.raises(PlanRefused):
            compiled(BestPlans(plans), network())
    assert words(compiled(PackagedPlans({(task.fingerprint, task.digest): PLAN}), network())
                 ) != words(own) and not caplog.text


def test_packaged_kernels_that_do_not_hold_are_left_alone(caplog) -> None:
    recorder, graph = Recorder(), float_graph()
    own = compiled(recorder, graph, "cpu")
    (task,) = recorder.recorded
    plans = PackagedPlans({(task.fingerprint, task.digest): "split(y_i9, 4)"})
    assert texts(compiled(plans, graph, "cpu")) == texts(own)
    assert f"A plan for {task.title} does not hold" in caplog.text


def test_packaged_plans_are_the_default(monkeypatch) -> None:
    task = stream_of(network())
    plans = PackagedPlans({(task.fingerprint, task.digest): PLAN})
    monkeypatch.setattr("runtime.driver.compilation.packaged", lambda: plans)
    given = compiled(plans, network())
    default = lockstep.compile(network(), "accel:tiny-1x4x4", cache=False)
    assert words(default) == words(given) != words(compiled(Own(), network()))


def test_an_effort_is_made_where_no_plan_binds(monkeypatch) -> None:
    """It begins with a packaged plan, and makes up for a bad one."""
    task = stream_of(network())
    monkeypatch.setattr("accel.mapping.plans.search.noted", lambda kind, key: None)
    monkeypatch.setattr("accel.mapping.plans.search.note", lambda kind, key, text: None)

    def cycles(plans, effort: int) -> int:
        return right(lockstep.compile(network(), "accel:tiny-1x4x4", plans=plans, sim="cycle",
                                      cache=False, effort=effort))

    plans = {(task.fingerprint, task.digest): PLAN}
    elsewhere = PackagedPlans({(task.fingerprint, "another"): PLAN})
    assert cycles(PackagedPlans(plans), 1) < cycles(PackagedPlans(plans), 0)
    assert cycles(BestPlans(plans), 1) == cycles(BestPlans(plans), 0)
    assert cycles(elsewhere, 1) == cycles(Own(), 1)


def test_plans_are_part_of_what_the_cache_goes_by(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    for plans in (Own(), Table({}), Table({"a": "b"}), Table({"a": "c"})):
        lockstep.compile(DIGITS, "cpu", plans=plans)
    assert len(list(tmp_path.glob("networks/*/"))) == 4
    for digest in ("a", "c"):                           # of a target that is not there
        lockstep.compile(DIGITS, "cpu", plans=BestPlans({("elsewhere", digest): "b"}))
    assert len(list(tmp_path.glob("networks/*/"))) == 4


def test_recorded_plans_say_what_for(tmp_path) -> None:
    recorder = Recorder()
    compiled(recorder)
    recorder.write(tmp_path / "plans.json")
    made = json.loads((tmp_path / "plans.json").read_text())
    assert {one["fingerprint"] for one in made.values()} > {TINY.hash}
    assert all(one["title"].startswith(("layer ", "layers ", "quantize of", "dequantize of"))
               for one in made.values())
