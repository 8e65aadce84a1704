"""Streams of the accelerator: ways that are measured elsewhere, in any order, and their records."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from accel.mapping.plans.search import Effort
from accel.mapping.plans.stream_search import ReadStream
from accel.mapping.plans.streams import PartPlan, part_of, stream_body, stream_graph
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler.graph import Graph
from compiler.plans import PlanRefused, Task
from compiler.tune.records import Records
from compiler.tune.replay import check, replays
from compiler.tune.space import Result
from runtime.tuning.pool import PoolError, WorkerPool
from runtime.tuning.streams import PooledStreamPlans, StreamPlans
from runtime.tuning.trials import Trial, run_trial
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

ACCEL = "accel:tiny-1x4x4"
EFFORT = Effort(2, 6, 4000)


@pytest.fixture(autouse=True)
def no_notes(monkeypatch) -> None:
    monkeypatch.setattr("accel.mapping.plans.search.noted", lambda kind, key: None)
    monkeypatch.setattr("accel.mapping.plans.search.note", lambda kind, key, text: None)


def network() -> Graph:
    net = Net(4)
    x = net.rescale(net.input(1, 12, 14, 14))
    y = net.add(net.conv(x, 12, (3, 3), pads=(1, 1, 1, 1)), x)
    return net.graph(net.conv(y, 16, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))


def backwards(trials: Iterable[Trial]) -> Iterator[tuple[Trial, Result]]:
    """All at once, the last one first, each from its text."""
    for trial in reversed([*trials]):
        yield trial, run_trial(Trial.of(trial.text))


def found(plans: StreamPlans, effort: Effort = EFFORT) -> tuple[Task, list[tuple[str, int]]]:
    AccelTarget(TINY, plans=plans, effort=effort, simulate=cycle.measure).compile(network())
    (stream,) = plans.found.items()
    return stream


def pooled(records: Records, run=backwards, seconds: float | None = None) -> PooledStreamPlans:
    return PooledStreamPlans(records, {TINY.hash: ACCEL}, run, seconds=seconds)


@pytest.mark.slow
def test_ways_that_are_measured_elsewhere_lead_to_the_same(tmp_path: Path) -> None:
    """And what was found is replayed, from its record alone, in as many cycles."""
    with Records(tmp_path / "a") as here, Records(tmp_path / "b") as there:
        own, (task, others) = found(StreamPlans(here)), found(plans := pooled(there))
        assert own == (task, others) and len(others) > 1 and not plans.failed[task]
        target = AccelTarget(TINY, simulate=cycle.measure)
        best = there.best(task)
        assert best is not None and best.task.body
        assert target.cycles(best.task, best.plan, 0) == best.result.value == others[-1][1]
        compiled = AccelTarget(TINY, plans=there.plans()).compile(network())
        assert cycle.measure(TINY, compiled.program).cycles == best.result.value
        held = [*check(there, TINY.hash, replays(target))]
        assert len(held) == len(others) and all(entry.reason is None for entry in held)


@pytest.mark.slow
def test_workers_of_a_pool_measure_ways(tmp_path: Path) -> None:
    with Records(tmp_path / "a") as here, Records(tmp_path / "b") as there, \
            WorkerPool(devices=(ACCEL,), measurers=2, builders=0) as pool:
        assert found(StreamPlans(here)) == found(pooled(there, pool.results))


def test_a_plan_that_does_not_hold_is_marked(tmp_path: Path) -> None:
    with Records(tmp_path / "r") as records:
        task, plans = found(StreamPlans(records))
        wrong = next(records.of(task)[0] for _ in plans)
        records.add(replace(wrong, plan=wrong.plan.replace("threads=2", "threads=9", 1),
                            result=Result(1.0, "cycles")))
        records.add(replace(wrong, task=replace(task, digest="other"), plan=plans[0][0]))
        target = AccelTarget(TINY, simulate=cycle.measure)
        reasons = [entry.reason for entry in check(records, TINY.hash, replays(target))]
        assert len(reasons) == len(plans) + 2 and sum(map(bool, reasons)) == 2
        assert records.best(task).plan == plans[-1][0]          # type: ignore[union-attr]


def test_plans_of_whole_streams_are_proved(tmp_path: Path, monkeypatch) -> None:
    """Ways of some layers are not: the search has the whole proved that it takes."""
    with Records(tmp_path / "r") as records:
        task, ((plan, _),) = found(StreamPlans(records, seconds=0.0))
    proved: list[object] = []
    monkeypatch.setattr("accel.mapping.plans.stream_search.prove",
                        lambda machine, program: proved.append(program))
    stream = ReadStream(AccelTarget(TINY), task.body, task.digest)
    program = stream.program(plan)
    assert proved == [program]
    stream.program(PartPlan(0, plan.partition(" ; ")[0], plan).text)
    assert proved == [program]


def test_ways_that_cannot_be_measured_are_no_gain(tmp_path: Path) -> None:
    def failing(trials: Iterable[Trial]) -> Iterator[tuple[Trial, Result]]:
        for number, (trial, result) in enumerate(backwards(trials)):
            yield trial, Result(None, "s", "took too long") if number % 2 == 0 else result

    with Records(tmp_path / "r") as records:
        plans = pooled(records, failing)
        task, some = found(plans)
        assert plans.failed[task] and some[-1][1] <= some[0][1]
        with pytest.raises(PoolError, match=r"^Pool could measure none of \d+ ways of layers: no$"):
            found(pooled(records, lambda trials: (
                (trial, Result(None, "s", "no")) for trial in trials)))


def test_a_search_ends_when_its_time_is_over(tmp_path: Path) -> None:
    with Records(tmp_path / "r") as records:
        for plans in (StreamPlans(records, seconds=0.0), pooled(records, seconds=0.0)):
            assert len(found(plans)[1]) == 1


def test_a_body_is_small_and_makes_the_same_layers() -> None:
    graph = network()
    again = stream_graph(stream_body(graph))
    segments = [AccelTarget(TINY).compile(one).program for one in (graph, again)]
    assert segments[0].words.tobytes() == segments[1].words.tobytes()
    assert len(stream_body(graph)) < 6000
    assert {name: array.dtype for name, array in again.constants.items()} == {
        name: array.dtype for name, array in graph.constants.items()}


@pytest.mark.parametrize("body", ["", "[]", '{"stream": {}}', '{"stream": 3}'])
def test_bodies_that_are_none_are_refused(body: str) -> None:
    target = AccelTarget(TINY, simulate=cycle.measure)
    with pytest.raises(PlanRefused, match="^Task must be a stream of layers as JSON: "):
        target.cycles(Task(TINY.hash, "a", "a stream", body), "", 0)


def test_parts_of_plans_are_read_back() -> None:
    part = PartPlan(3, "rows=1 ; rows=2 / rows=3", "rows=4 ; rows=5")
    assert part_of(part.text) == part and part.length == 3
    assert part_of("rows=1 ; rows=2") is None
