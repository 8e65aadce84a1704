"""The keyword spotter and the LSTM: published sizes, ONNX Runtime's results, on the accelerator."""

from dataclasses import dataclass

import numpy as np
import onnx
import pytest

from accel.mapping.target import AccelTarget
from bench.accelerator.limits import share_of
from compiler.frontend import convert
from compiler.graph import evaluate, optimize, subgraph
from compiler.graph.division.partition import ACCEL, Partition
from compiler.graph.graph import Graph
from lockstep.testing import zoo
from lockstep.testing.networks import recurrent
from tests.support.integer_graphs import run_program
from tests.support.machines import TINY
from tests.support.onnx_runtime import run_onnx


@dataclass(frozen=True)
class Made:
    net: zoo.ZooNetwork
    real: onnx.ModelProto
    int8: onnx.ModelProto
    graph: Graph
    parts: Partition
    percent: float

    @property
    def given(self) -> dict[str, np.ndarray]:
        """Another sample than those of the calibration."""
        return {self.net.source: zoo.samples(self.net, 1)[:1]}


def small_lstm() -> zoo.ZooNetwork:
    net = zoo.ZooNetwork("lstm", 4)
    recurrent.lstm(net, width=8, tags=4)
    return net.finish()


@pytest.fixture(scope="module", params=["keywords", "lstm"])
def made(request) -> Made:
    net = zoo.network("keywords") if request.param == "keywords" else small_lstm()
    filled = zoo.fill(net)
    real = zoo.float_model(net, filled)
    int8 = zoo.int8_model(real, net, filled, 0)
    graph = optimize(convert(int8))
    share = share_of(graph, AccelTarget(TINY))
    return Made(net, real, int8, graph, share.parts, share.percent)


def run(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> np.ndarray:
    return run_onnx(model, given)["logits"]


def test_sizes_are_the_published_ones() -> None:
    """MLPerf Tiny's reference counts means and variances of batch norms among its 24,908."""
    net = zoo.network("keywords")
    assert sum(net.macs()) == 25 * 5 * 64 * (40 + 4 * (9 + 64)) + 64 * 12
    assert net.count() == 24_908
    assert sum(zoo.network("lstm").macs()) == 32 * (2 * 2 * 4 * 64 * 64 + 128 * 16)


@pytest.mark.one_in(2)
def test_the_float_model_means_what_the_calibration_computes(made: Made) -> None:
    found = evaluate(optimize(convert(made.real)), made.given)["logits"]
    np.testing.assert_allclose(found, run(made.real, made.given), rtol=1e-4, atol=1e-5)


def test_int8_follows_float(made: Made) -> None:
    wanted, found = run(made.real, made.given), run(made.int8, made.given)
    assert np.corrcoef(wanted.ravel(), found.ravel())[0, 1] > 0.99
    ours = evaluate(made.graph, made.given)["logits"]
    assert np.corrcoef(ours.ravel(), found.ravel())[0, 1] > 0.99


def test_all_products_are_on_the_accelerator(made: Made) -> None:
    assert made.percent == 100


@pytest.mark.one_in(2)
def test_values_are_those_of_the_reference(made: Made) -> None:
    """Segment by segment, each with what the reference computes before it."""
    segments = [one for one in made.parts.segments if one.target == ACCEL]
    wanted = {value for one in segments for value in (*one.inputs, *one.outputs)}
    values = evaluate(made.graph, made.given, wanted)
    for segment in segments:
        part = subgraph(made.graph, segment)
        found = run_program(TINY, AccelTarget(TINY).compile(part).program,
                            {value: values[value] for value in part.inputs})
        for value in part.outputs:
            np.testing.assert_array_equal(found[value], values[value], value)
