"""Plans for GPUs that are not here, by estimated prices."""

from pathlib import Path

import numpy as np
import pytest

import lockstep
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.graph import Builder, Graph, TensorType
from lockstep.testing import zoo
from runtime.devices.device import DeviceMissing
from runtime.pricing.roofline import CARDS, COPY_SECONDS, LAUNCH_SECONDS, RooflinePrices
from tests.support.integer_graphs import Net

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
NETWORKS = {"int8": lambda: DIGITS / "digits-int8.onnx",
            "float": lambda: DIGITS / "digits-float.onnx",
            "keywords": lambda: zoo.build("keywords", 49)}


def product(rows: int) -> Graph:
    net = Builder("product")
    net.add_input("x", TensorType((rows, 512), "float32"))
    net.add_constant("w", np.ones((512, 1024), np.float32))
    net.emit("matmul", "product", ["x", "w"], "y")
    return net.finish(["y"])


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("rows", [1, 4096])
def test_prices_are_those_of_the_roofline(name: str, rows: int) -> None:
    """A product of one row is bound by its bytes, one of many by its operations."""
    card, graph = CARDS[name], product(rows)
    prices = RooflinePrices(graph, GpuTarget(f"cuda:{name}", "cuda"), card)
    by_bytes = 4 * (rows * 512 + 512 * 1024 + rows * 1024) / card.memory_bytes
    by_operations = 2 * rows * 512 * 1024 / card.float32
    found = prices.node(graph.nodes[0])
    assert found == pytest.approx(LAUNCH_SECONDS + max(by_bytes, by_operations))
    assert (by_bytes > by_operations) == (rows == 1)
    assert prices.segment(graph).seconds == prices.least(graph) == LAUNCH_SECONDS + found
    crossing = prices.crossing("x", graph.values["x"], False)
    assert crossing.seconds == pytest.approx(COPY_SECONDS + rows * 2048 / card.link_bytes)


@pytest.mark.parametrize(("card", "precision", "rate"), [
    ("a100", "tf32", 156e12), ("h100", "bf16", 989e12), ("t4", "f16", 8.1e12),
    ("orin", "f16", 5.3e12), ("a100", None, 19.5e12)])
def test_products_of_tensor_cores_have_their_peak(card: str, precision: str | None, rate: float
                                                  ) -> None:
    graph = product(1 << 14)
    prices = RooflinePrices(graph, GpuTarget(f"cuda:{card}", "cuda", precision=precision),
                            CARDS[card])
    moved = 4 * ((512 + 1024 << 14) + 512 * 1024) / CARDS[card].memory_bytes
    assert prices.node(graph.nodes[0]) == pytest.approx(
        LAUNCH_SECONDS + max(moved, 2 * 512 * 1024 * (1 << 14) / rate))
    assumed = prices.assumed()
    assert (f"cuda:{card} (estimate).tensor_{precision}" in assumed) == (rate > 100e12)


def test_int8_is_the_business_of_tensor_cores_and_depthwise_is_not() -> None:
    net = Net()
    x = net.conv(net.input(1, 64, 56, 56), 64, (3, 3), (1, 1), (1,) * 4)
    graph = net.graph(net.conv(x, 64, (7, 7), (1, 1), (3,) * 4, group=64))
    prices = RooflinePrices(graph, GpuTarget("cuda:orin", "cuda"), CARDS["orin"])
    pixels = 2 * 64 * 56 * 56
    whole, apart = (prices.node(node) for node in graph.nodes)
    assert whole - LAUNCH_SECONDS == pytest.approx(64 * 9 * pixels / 85e12, rel=0.05)
    assert apart - LAUNCH_SECONDS == pytest.approx(49 * pixels / 5.3e12, rel=0.1)


@pytest.mark.parametrize("network", [
    "float", *(pytest.param(name, marks=pytest.mark.slow) for name in ("int8", "keywords"))])
def test_auto_is_never_slower_than_one_target(network: str) -> None:
    """By the prices that it saw; over an accelerator, a card and the processor."""
    module = lockstep.compile(NETWORKS[network](), "auto:accel:tiny-1x4x4,cuda:a100,cpu")
    assert module.auto is not None
    alone = {"greedy", "cuda:a100", "host"} & module.auto["candidates"].keys()
    assert len(alone) >= 2
    assert module.auto["seconds"] <= min(module.auto["candidates"][name] for name in alone)
    assert module.auto["assumed"]["cuda:a100 (estimate).float32"]["value"] == 19.5e12


def test_a_card_that_is_not_here_runs_nothing() -> None:
    module = lockstep.compile(DIGITS / "digits-int8.onnx", "cuda:h100")
    with pytest.raises(DeviceMissing, match="^GPU 0 must be there"):
        module({"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_an_unknown_card_wrong() -> None:
    with pytest.raises(lockstep.TargetError, match="^Target must be"):
        lockstep.compile(DIGITS / "digits-int8.onnx", "cuda:v100x")
