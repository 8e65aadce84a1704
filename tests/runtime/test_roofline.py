"""Plans for GPUs that are not here, by estimated prices."""

from pathlib import Path

import numpy as np
import pytest

import lockstep
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.graph import Builder, Graph, TensorType
from examples import zoo
from runtime.device import DeviceMissing
from runtime.roofline import CARDS, COPY_SECONDS, LAUNCH_SECONDS, RooflinePrices

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
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


@pytest.mark.parametrize("network", NETWORKS)
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
