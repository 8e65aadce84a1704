"""Machines of others: their files, the records beside them, and docs/published.md."""

import shutil
from dataclasses import replace
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
from bench.support.published import Figure
from compiler.errors import RequestError
from lockstep.testing import zoo
from tests.support.integer_graphs import Net, assert_right

NAMES = published.names()
SLOW = ("array_128", "snax")
"""The largest one, and one of other times, which a simulator is built for."""


def machine_of(name: str) -> Machine:
    return load_machine(published.file_of(name))


@pytest.mark.one_in(3)
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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_network_gives_what_the_reference_does(name: str) -> None:
    machine, net = machine_of(name), Net()
    x = net.conv(net.input(machine.config.batch, 20, 9, 8), 24, pads=(1, 1, 1, 1))
    y = net.conv(net.max_pool(x), 24, (1, 1))
    graph = net.graph(net.dense(net.flatten(net.add(y, net.conv(y, 24, (1, 1)))), 10))
    assert_right(machine, graph, net.samples())


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in NAMES])
def test_functional_and_cycle_simulators_agree(name: str) -> None:
    machine, every = machine_of(name), default_simulators()
    if not cycle.models(machine):
        pytest.skip("its hardware is simulated by its slice")
    for seed in range(3):
        case = generate(machine, seed)
        runs = {one: every[one](machine, case) for one in ("functional", "cycle")}
        difference = compare(machine, case, runs)
        assert difference is None, difference.describe()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_rtl_agrees(name: str) -> None:
    machine = machine_of(name)
    if machine.config.block_out > 32:
        pytest.skip("more than 32 lanes: its RTL has not been built")
    report = check(machine, 20, 0, quick_simulators(machine))
    assert report.difference is None, report.difference


@pytest.fixture
def copied(monkeypatch, tmp_path: Path) -> Path:
    """The records, where they may be written; nothing is measured: the machines take what is kept.
    """
    shutil.copytree(published.RECORDS, tmp_path / "records")
    kept = {machine_of(name).hash: published.kept(name) for name in NAMES}
    monkeypatch.setattr(published, "measured",
                        lambda machine, figure, _: kept[machine.hash][figure.network])
    monkeypatch.setattr(published, "RECORDS", tmp_path / "records")
    return tmp_path / "records"


def test_the_command_prints_the_rows_of_the_page(copied: Path, capsys) -> None:
    assert BENCH.main(["--only", "published", "vit_small", "--machine", "vta"]) == 0
    said = capsys.readouterr().out
    (row,) = [*published.table({"vta": {"vit_small": published.kept("vta")["vit_small"]}})][2:]
    assert row in said.splitlines() and row in published.page().splitlines()


def test_other_figures_than_those_of_the_page_are_told(copied: Path, monkeypatch, capsys) -> None:
    ours = replace(published.kept("vta")["vit_small"], cycles=1)
    monkeypatch.setattr(published, "measured", lambda *_: ours)
    command = ["--only", "published", "vit_small", "--machine", "vta"]
    assert BENCH.main(command) == 1
    said = capsys.readouterr().out
    assert "vta: docs/published.md has other figures; --keep writes these" in said.splitlines()
    before = published.kept("vta")
    assert BENCH.main([*command, "--keep"]) == 0
    assert published.kept("vta") == {**before, "vit_small": ours}
    assert BENCH.main(command) == 0


@pytest.mark.slow
def test_layers_that_the_figure_lacks_are_left_out() -> None:
    machine, net = machine_of("vta"), [layer.name for layer in zoo.network("keywords").layers]
    whole = published.measured(machine, Figure(network="keywords"), 32)
    alone = published.measured(machine, Figure(network="keywords", leaves_out=(net[0],)))
    assert whole.cycles == whole.same_layers == alone.cycles
    assert 0.5 * whole.cycles < alone.same_layers < whole.cycles
    assert whole.micro_code > 0 == alone.micro_code
    with pytest.raises(RequestError, match="keywords has no layer stem to leave out; it has conv"):
        published.measured(machine, Figure(network="keywords", leaves_out=("stem",)))


def test_another_machine_is_refused(capsys) -> None:
    assert BENCH.main(["--only", "published", "--machine", "tiny-1x4x4"]) == 2
    assert capsys.readouterr().err.startswith(
        "bench accelerator.networks: --machine must be one of ")


def test_the_page(golden) -> None:
    golden("../../docs/published.md", published.page())
