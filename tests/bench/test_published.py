"""Machines of others: their files, the records beside them, and docs/published.md."""

from pathlib import Path

import numpy as np
import pytest

from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from accel.sim.checking.check import check, default_simulators
from bench.support import published
from compiler.graph import evaluate
from tests.support.integer_graphs import Net, run_program

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


def test_the_page(golden) -> None:
    golden("../../docs/published.md", published.page())
