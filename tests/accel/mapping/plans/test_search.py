"""Tilings by simulation: never slower, right to the bit, kept, and the same every time."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.mapping.plans import search
from accel.mapping.plans.choices import Choices, groups_text
from accel.mapping.plans.search import EFFORTS, Effort
from accel.mapping.plans.text import stream_task
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler.graph import evaluate
from compiler.plans import Choice, Learns, PlanRefused, Recorder, Table, Task
from tests.support.integer_graphs import Net, assert_right, run_program
from tests.support.machines import TINY


@pytest.fixture
def notes(monkeypatch) -> dict[str, str]:
    """The cache of tilings, empty."""
    kept: dict[str, str] = {}
    monkeypatch.setattr(search, "noted", lambda kind, key: kept.get(key))
    monkeypatch.setattr(search, "note", lambda kind, key, text: kept.update({key: text}))
    return kept


@pytest.fixture(autouse=True)
def efforts(monkeypatch) -> None:
    monkeypatch.setattr(search, "EFFORTS", (None, Effort(2, 3, 300), Effort(3, None, 4000)))
    monkeypatch.setattr("accel.mapping.target.EFFORTS", search.EFFORTS)


def network() -> tuple[Net, object]:
    net = Net(4)
    x = net.rescale(net.input(1, 12, 14, 14))
    y = net.conv(x, 12, (3, 3), pads=(1, 1, 1, 1))
    y = net.add(y, x)
    return net, net.graph(net.conv(y, 16, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))


def counted(calls: list[int]):
    def simulate(machine: Machine, program: AccelProgram) -> Run:
        calls.append(program.count)
        return cycle.measure(machine, program)
    return simulate


def cycles(program: AccelProgram) -> int:
    return cycle.measure(TINY, program).cycles


@pytest.mark.slow
def test_it_takes_no_longer_and_computes_the_same(notes) -> None:
    net, graph = network()
    plain = AccelTarget(TINY).compile(graph).program
    found = AccelTarget(TINY, effort=2, simulate=cycle.measure).compile(graph).program
    assert cycles(found) < cycles(plain)
    inputs = net.samples()
    expected = evaluate(graph, inputs)
    for name, value in run_program(TINY, found, inputs).items():
        assert np.array_equal(value, expected[name])
    assert_right(TINY, graph, inputs)


def test_what_was_found_is_kept(notes) -> None:
    _, graph = network()
    calls: list[int] = []
    target = AccelTarget(TINY, effort=2, simulate=counted(calls))
    first, tried = target.compile(graph).program, len(calls)
    assert notes and tried > 5
    again = target.compile(graph).program
    assert np.array_equal(first.words, again.words)
    assert len(calls) - tried < tried // 4              # the whole stream, but no ways


def test_a_small_effort_tries_few_ways(notes) -> None:
    _, graph = network()
    calls: list[int] = []
    AccelTarget(TINY, effort=1, simulate=counted(calls)).compile(graph)
    windows = 3             # each is measured as it is, too, and the whole with what is found
    assert 1 < len(calls) <= 1 + EFFORTS[1].trials + 2 * windows


@pytest.mark.parametrize("trials", (2, 4))
def test_what_is_found_does_not_depend_on_the_cache(notes, trials: int) -> None:
    """What is kept there counts as tried, so that others are not tried in its place."""
    _, graph = network()
    target = AccelTarget(TINY, effort=Effort(2, trials, 300), simulate=cycle.measure)
    first = target.compile(graph).program
    assert np.array_equal(target.compile(graph).program.words, first.words)


def test_without_a_simulator_the_formula_decides() -> None:
    _, graph = network()
    plain = AccelTarget(TINY).compile(graph).program
    assert np.array_equal(plain.words, AccelTarget(TINY, effort=2).compile(graph).program.words)


@pytest.mark.slow
def test_a_kept_plan_that_does_not_fit_is_found_again(notes) -> None:
    _, graph = network()
    calls: list[int] = []
    target = AccelTarget(TINY, effort=2, simulate=counted(calls))
    first, tried = target.compile(graph).program, len(calls)
    for key in notes:
        notes[key] = "rows=999 columns=1 channels=1 depth=1 threads=2"
    assert np.array_equal(target.compile(graph).program.words, first.words)
    assert len(calls) == 2 * tried


def test_plans_of_groups_are_read_back() -> None:
    _, graph = network()
    choices = Choices(TINY, 2)
    segment = AccelTarget(TINY).compile(graph)
    layers = list(segment.layers)
    groups = choices.groups(layers)
    assert any(len(group) == 2 for group in groups)
    text = groups_text(groups)
    assert choices.groups_of(text, layers) == groups
    for wrong in (text + " ; " + text, "apart", text.partition(";")[0]):
        with pytest.raises(PlanRefused):
            choices.groups_of(wrong, layers)


@dataclass
class Learning:
    """Plans that are told what a search finds; at first there are none."""

    fingerprint: str = ""
    plans: list[tuple[Task, str, int]] = field(default_factory=list)

    def find(self, task: Task, own: Choice) -> str | None:
        return None

    def learned(self, task: Task, plan: str, cycles: int) -> None:
        self.plans.append((task, plan, cycles))

    def is_over(self) -> bool:
        return False

    def binds(self, task: Task) -> bool:
        return False

    def of_target(self, fingerprint: str) -> "Learning":
        return self


def test_plans_that_learn_are_told_what_a_search_finds(notes) -> None:
    """The plan of the whole stream; it is used without another search where it is in a table."""
    _, graph = network()
    learning, calls = Learning(), list[int]()
    assert isinstance(learning, Learns)
    found = AccelTarget(TINY, plans=learning, effort=2, simulate=cycle.measure).compile(graph)
    wanted = stream_task(TINY, found.layers, 2).digest
    assert {task.digest for task, _, _ in learning.plans} == {wanted}
    took = [count for _, _, count in learning.plans]
    assert len(took) > 1 and took == sorted(set(took), reverse=True)
    assert took[-1] == cycles(found.program) < took[0]
    task, plan, _ = learning.plans[-1]
    again = AccelTarget(TINY, plans=Table({task.digest: plan}), effort=2, simulate=counted(calls))
    assert np.array_equal(again.compile(graph).program.words, found.program.words)
    assert calls == []


def test_plans_that_do_not_learn_are_kept_whatever_the_effort(notes) -> None:
    """A user's table says how a layer is computed, so no search changes it."""
    _, graph = network()
    recorder, calls = Recorder(), list[int]()
    plain = AccelTarget(TINY, plans=recorder).compile(graph).program
    *_, task = recorder.recorded
    table = Table({task.digest: "rows=1 columns=1 channels=1 depth=1 threads=1"})
    mine = AccelTarget(TINY, plans=table).compile(graph).program
    with_effort = AccelTarget(TINY, plans=table, effort=2, simulate=counted(calls))
    assert np.array_equal(with_effort.compile(graph).program.words, mine.words)
    assert calls == [] and not np.array_equal(mine.words, plain.words)


def test_a_stream_is_another_task_with_another_memory() -> None:
    """A search measures with the memory, which is no part of the machine's hash."""
    _, graph = network()
    layers = AccelTarget(TINY).compile(graph).layers
    far = Machine(replace(TINY.config, memory=Dram(latency=200)), TINY.declarations)
    near, other, fewer = (stream_task(machine, some, threads) for machine, some, threads in (
        (TINY, layers, 2), (far, layers, 2), (TINY, layers[1:], 2)))
    assert far.hash == TINY.hash and near.fingerprint == other.fingerprint == TINY.hash
    assert len({near.digest, other.digest, fewer.digest, stream_task(TINY, layers, 1).digest}) == 4
    assert near == stream_task(Machine(TINY.config, TINY.declarations), layers, 2)
