"""The example networks of PyTorch are those of the zoo, and give what torch gives."""

import numpy as np
import pytest

import compiler.frontend.pytorch.aten         # noqa: F401 - fills the table
from bench.networks.pytorch import Exported, measure
from compiler.frontend.pytorch.aten.registry import OPERATORS
from lockstep.testing import zoo

pytest.importorskip("torch")

from examples.torch_networks import EIGHT, NETWORKS, build


def test_the_eight_are_networks_of_the_zoo():
    assert len(EIGHT) == 8 and set(EIGHT) < set(zoo.NETWORKS)


@pytest.mark.parametrize("name", ["mobilenet_v1", "mobilenet_v2", "resnet50", "squeezenet"])
def test_they_have_as_many_weights_as_those_of_the_zoo(name):
    parameters = sum(one.numel() for one in NETWORKS[name]().parameters())
    assert parameters == zoo.network(name, 224).count("weight", "bias")


def test_batch_norms_are_not_what_they_are_by_default():
    module, _ = build("keywords")
    for name, value in module.named_buffers():
        assert "num_batches" in name or len(np.unique(value.numpy())) > 1


def test_a_network_gives_what_torch_gives():
    found = measure("keywords")
    assert found.holds and found.shared >= 11 and 0 < found.error


def test_an_epsilon_that_is_ten_times_as_large_is_found(monkeypatch):
    norm = OPERATORS["batch_norm"]
    monkeypatch.setitem(OPERATORS, "batch_norm", lambda t, *arguments: norm(
        t, *arguments[:7], 1e-4, *arguments[8:]))
    assert not measure("keywords").holds


def test_figures_tell_what_differs():
    assert not Exported("n", 64, 1, 1, 1, 2e-5, 1e-5, 1.0).holds


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_all_networks_give_what_torch_gives(name):
    assert measure(name).holds
