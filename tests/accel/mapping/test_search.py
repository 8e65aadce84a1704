"""Tilings by simulation: never slower, right to the bit, kept, and the same every time."""

import numpy as np
import pytest

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.mapping import search
from accel.mapping.choices import Choices, groups_text
from accel.mapping.search import EFFORTS, Effort
from accel.mapping.target import AccelTarget
from accel.sim import cycle
from compiler.graph import evaluate
from compiler.plans import PlanRefused
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


def test_without_a_simulator_the_formula_decides() -> None:
    _, graph = network()
    plain = AccelTarget(TINY).compile(graph).program
    assert np.array_equal(plain.words, AccelTarget(TINY, effort=2).compile(graph).program.words)


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
