"""Transformers: their products on the accelerator, equal to the reference to the bit."""

from dataclasses import dataclass

import numpy as np
import onnx
import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from bench.accelerator.limits import Share, share_of
from compiler.frontend.onnx.importing import convert
from compiler.graph import evaluate, optimize, subgraph
from compiler.graph.division.partition import ACCEL
from compiler.graph.graph import Graph
from compiler.quantize import quantize_ranges
from lockstep.testing import zoo
from lockstep.testing.networks import transformers
from tests.support.integer_graphs import run_program

SIZE = 32
MACHINE = Machine(preset("pynq-1x16x16"))


def one_layer(name: str) -> zoo.ZooNetwork:
    """The network with the first of its layers alone."""
    net = zoo.ZooNetwork(name, SIZE)
    {"vit_small": transformers.vit_small, "bert_small": transformers.bert_small}[name](net, 1)
    return net.finish()


@dataclass(frozen=True)
class Made:
    net: zoo.ZooNetwork
    real: onnx.ModelProto
    graph: Graph


@pytest.fixture(scope="module", params=[
    "vit_small", pytest.param("bert_small", marks=pytest.mark.slow)])
def made(request) -> Made:
    net = one_layer(request.param)
    filled = zoo.fill(net)
    real = zoo.float_model(net, filled)
    return Made(net, real, optimize(convert(quantize_ranges(real, filled.ranges))))


@pytest.fixture(scope="module")
def share(made: Made) -> Share:
    return share_of(made.graph, AccelTarget(MACHINE))


def test_the_float_model_means_what_the_calibration_computes(made: Made) -> None:
    ort = pytest.importorskip("onnxruntime")
    x = zoo.samples(made.net, 1)[:1]
    session = ort.InferenceSession(made.real.SerializeToString(),
                                   providers=["CPUExecutionProvider"])
    wanted, = session.run(None, {made.net.source: x})
    found = evaluate(optimize(convert(made.real), ()), {made.net.source: x})["logits"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_all_products_are_on_the_accelerator(made: Made, share: Share) -> None:
    assert share.accel == sum(made.net.macs())
    assert share.percent >= 95


@pytest.mark.slow
def test_values_are_those_of_the_reference(made: Made, share: Share) -> None:
    """Segment by segment, each with what the reference computes before it."""
    target = AccelTarget(MACHINE)
    segments = [one for one in share.parts.segments if one.target == ACCEL]
    wanted = {value for one in segments for value in (*one.inputs, *one.outputs)}
    x = {made.net.source: zoo.samples(made.net, 1)[:1]}
    values = evaluate(made.graph, x, wanted)
    for segment in segments:
        part = subgraph(made.graph, segment)
        found = run_program(MACHINE, target.compile(part).program,
                            {value: values[value] for value in part.inputs})
        for value in part.outputs:
            np.testing.assert_array_equal(found[value], values[value], value)


def test_macs_of_the_whole_networks() -> None:
    """For 64 tokens, layers have 12 products by a square of the width each, and two of heads."""
    for name, layers, width, rest in (("vit_small", 6, 192, 64 * 192 * 192 + 192 * 1000),
                                      ("bert_small", 4, 256, 2 * 256)):
        attention = 2 * 64 * 64 * width
        assert sum(zoo.network(name).macs()) == layers * (
            12 * 64 * width * width + attention) + rest
