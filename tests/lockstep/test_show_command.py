"""`lockstep show`: one stage of a network, or what it says of one layer."""

from typing import Any

import pytest

from compiler.errors import RequestError
from compiler.graph import Graph
from compiler.graph.passes.pipeline import keep_in
from lockstep.cli import main
from lockstep.commands import show
from lockstep.commands.show import shown
from runtime.driver.pipeline import build, pipeline
from runtime.driver.targets import Targets, accelerator
from tests.support.integer_graphs import Net
from tests.support.machines import TINY


def network() -> Graph:
    net = Net(3)
    x = net.conv(net.input(1, 4, 6, 6), 8, (3, 3), pads=(1, 1, 1, 1))
    x = net.add(net.conv(net.rescale(x), 8, (1, 1)), x)
    return net.graph(net.add_node("abs", net.add_node("dequantize", x, scale=0.1, zp=-4)))


@pytest.fixture(scope="module")
def stages():
    kept = dict[str, Any]()
    build(pipeline(Targets([accelerator(TINY)])), network(), keep_in(kept))
    return kept


def test_one_name_leads_from_the_node_to_its_words(stages) -> None:
    layer = "qconv2d_0"
    for stage in ("import", "partition", "layout", "forms", "layers", "tiles", "loops", "stream",
                  "program"):
        text = shown(stages, stage, layer)
        assert layer in text and text in shown(stages, stage).replace("\n\n", "\n") + text, stage
    first, last = shown(stages, "program", layer).splitlines()[0].split("words ")[1].split("..")
    assert f"words {first}..{last}\n" in shown(stages, "loops", layer)
    assert f"instructions {first}..{last}\n" in shown(stages, "stream", layer)


def test_a_name_is_not_found_within_another(stages) -> None:
    """Long lines are wrapped; there is one."""
    text = shown(stages, "import", "qadd_3")
    assert text.startswith("qadd_3.out: ") and text.endswith("  # qadd_3\n")
    assert text.count("# ") == 1


def test_layers_at_the_same_time_are_shown_together(stages) -> None:
    assert "qadd_3" in shown(stages, "stream", "qconv2d_2").splitlines()[0]
    assert shown(stages, "stream", "qconv2d_2") == shown(stages, "stream", "qadd_3")
    assert "qadd_3:" not in shown(stages, "loops", "qconv2d_2")


def test_a_kernel_of_the_processor_is_shown_by_its_nodes(stages) -> None:
    text = shown(stages, "kernels", "abs_5")
    assert "\nprogram " in text and "\ndefine " in text and "abs_5" in text.splitlines()[0]


def test_a_stage_has_its_number_too(stages) -> None:
    number = next(name for name in stages if name.endswith("-tiles"))
    assert shown(stages, number) == shown(stages, "tiles")
    assert shown(stages, "tiles").startswith("segment 0 on accel\n\n")


@pytest.mark.parametrize(("stage", "layer", "message"), [
    ("tile", None, "STAGE must be one of 00-import, 01-"),
    ("clean-up", None, "STAGE must be one of 04-clean-up, 23-clean-up, not 'clean-up'"),
    ("tiles", "conv9", "--layer must be one of qconv2d_0, qrescale_1, qconv2d_2, qadd_3, not "
                       "'conv9'"),
    ("partition", "conv9", "--layer must be one of qconv2d_0, qrescale_1, "),
    ("plan-memory", "abs", "--layer must be left out with plan-memory: its text names no layers")])
def test_names_that_there_are_not(stages, stage: str, layer: str | None, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        shown(stages, stage, layer)
    assert str(refused.value).startswith(message)


def test_the_command(capsys, monkeypatch, stages) -> None:
    request = ["show", "tiles", "digits", "--target", "accel:tiny-1x4x4", "--layer"]
    assert main([*request, "conv9"]) == 2
    assert capsys.readouterr().err == (
        "lockstep: error: --layer must be one of conv1, conv2, conv3, conv4, add, pool, conv5, "
        "average, dense, not 'conv9'\n")
    monkeypatch.setattr(show, "recorded", lambda args: stages)
    assert main([*request, "qadd_3"]) == 0
    assert capsys.readouterr().out == shown(stages, "tiles", "qadd_3")
