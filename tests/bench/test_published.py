"""Machines of others: their files, the records beside them, and docs/published.md."""

from pathlib import Path

import pytest

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.sim.checking.check import check, compare, default_simulators
from accel.sim.checking.geometries import quick_simulators
from accel.sim.programs.generate import generate
from accel.sim.timed import cycle
from bench.accelerator.networks import BENCH
from bench.support import published
from tests.support.integer_graphs import Net, assert_right

NAMES = published.names()


def machine_of(name: str) -> Machine:
    return load_machine(published.file_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_short_and_loads(name: str) -> None:
    assert len(Path(published.file_of(name)).read_text().splitlines()) <= 150
    assert machine_of(name).config.name == name.replace("_", "-")


@pytest.mark.parametrize("name", NAMES)
def test_every_machine_has_a_convolutional_network_and_a_transformer(name: str) -> None:
    networks = [figure.network for figure in published.figures(name)]
    assert {"resnet50", "vit_small"} <= {*networks} and len(networks) == len({*networks})


@pytest.mark.parametrize("name", NAMES)
def test_every_published_figure_has_its_source_and_reasons(name: str) -> None:
    for figure in published.figures(name):
        assert not figure.said or figure.source and figure.conditions and figure.differences
        assert not figure.cycles or figure.said


@pytest.mark.parametrize("name", NAMES)
def test_our_figures_are_of_this_machine(name: str) -> None:
    ours, machine = published.kept(name), machine_of(name)
    assert [*ours] == [figure.network for figure in published.figures(name)]
    assert {one.hash for one in ours.values()} == {machine.hash}, "write them with --keep"


@pytest.mark.parametrize("name", NAMES)
def test_a_network_gives_what_the_reference_does(name: str) -> None:
    machine, net = machine_of(name), Net()
    x = net.conv(net.input(machine.config.batch, 20, 9, 8), 24, pads=(1, 1, 1, 1))
    y = net.conv(net.max_pool(x), 24, (1, 1))
    graph = net.graph(net.dense(net.flatten(net.add(y, net.conv(y, 24, (1, 1)))), 10))
    assert_right(machine, graph, net.samples())


@pytest.mark.parametrize("name", [name for name in NAMES if cycle.models(machine_of(name))])
def test_functional_and_cycle_simulators_agree(name: str) -> None:
    machine, every = machine_of(name), default_simulators()
    for seed in range(3):
        case = generate(machine, seed)
        runs = {one: every[one](machine, case) for one in ("functional", "cycle")}
        difference = compare(machine, case, runs)
        assert difference is None, difference.describe()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_rtl_agrees(name: str) -> None:
    machine = machine_of(name)
    report = check(machine, 20, 0, quick_simulators(machine))
    assert report.difference is None, report.difference


def test_another_machine_is_refused(capsys) -> None:
    assert BENCH.main(["--only", "published", "--machine", "tiny-1x4x4"]) == 2
    assert capsys.readouterr().err.startswith(
        "bench accelerator.networks: --machine must be one of ")


def test_the_page(golden) -> None:
    golden("../../docs/published.md", published.page())
