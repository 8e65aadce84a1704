"""PyTorch's usual networks, small, through the quantizer to the accelerator: none is refused."""

import pytest

from bench.inputs.torch_networks import NETWORKS, OF_TRANSFORMERS
from bench.networks.pytorch import BENCH, measure_quantized as measure

LEAST_DB = {"gpt2": 25, "llama": 25, "bert": 25, "yolo": 30, "efficientnet_b0": 0,
            "mobilenet_v3_small": 0}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_it_runs_on_the_accelerator(name) -> None:
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    if name in OF_TRANSFORMERS:
        pytest.importorskip("transformers", reason="transformers is not installed")
    figures = measure(name)
    assert figures.holds, figures
    assert figures.decibels > LEAST_DB[name], figures


@pytest.mark.parametrize(("names", "lacking", "told"), [
    ([], "transformers", "transformers"), (["llama"], "transformers", "transformers"),
    (["yolo"], "torch", "torch"), (["bert"], "t", "torch, transformers")])
def test_missing_packages_are_told(monkeypatch, capsys, names, lacking: str, told: str) -> None:
    monkeypatch.setattr("importlib.util.find_spec",
                        lambda name: None if name.startswith(lacking) else name)
    assert BENCH.main(["--only", "quantized", *names]) == 2
    assert (f"Package {told} must be installed: pip install -e '.[dev]' -c constraints.txt"
            ) in capsys.readouterr().err
