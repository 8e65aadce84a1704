"""``lockstep diff``: two machines, on a small network."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from accel.estimates.technology import load_technology
from accel.machine.loading import load_machine
from lockstep.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples" / "machines"


def test_diff_shows_layers_and_units(capsys, tmp_path: Path) -> None:
    report = tmp_path / "d.json"
    assert main(["diff", "tiny-1x4x4", "ecp5-1x8x8", "--network", "digits", "--json", str(report)]
                ) == 0
    out = capsys.readouterr().out
    here, there = json.loads(report.read_text())["networks"]["digits"]
    for (name, cycles, _, bound), (_, other, _, after) in zip(here["rows"], there["rows"]):
        bounds = re.escape(bound if bound == after else f"{bound} -> {after}")
        assert re.search(rf"^{re.escape(name)} +{cycles:,} +{other:,} .*{bounds or '-'}", out,
                         re.MULTILINE)
    assert re.search(rf"^gemm: busy cycles +{here['busy']['gemm']:,} +{there['busy']['gemm']:,} ",
                     out, re.MULTILINE)
    assert sum(row[1] for row in here["rows"]) == here["cycles"]
    assert re.search(r"^area, mm2 +0\.\d+ ±\d+%", out, re.MULTILINE) and "luts" not in out
    assert re.search(r"^mhz +100 +100 +=$", out, re.MULTILINE)
    assert here["seconds"] == here["cycles"] / 100e6 and sum(here["joules"].values()) > 0
    assert "technology 45nm: ms at the nominal clock, 100 MHz: 45nm has no estimate of" in out


def test_diff_in_another_technology(capsys, tmp_path: Path) -> None:
    report = tmp_path / "d.json"
    assert main(["diff", "tiny-1x4x4", "ecp5-1x8x8", "--network", "digits", "--technology", "ecp5",
                 "--json", str(report)]) == 0
    out = capsys.readouterr().out
    figures = json.loads(report.read_text())
    here, there = figures["networks"]["digits"]
    assert here["joules"] == {} and figures["technology"]["has"] == ["clock", "fpga"]
    assert here["seconds"] == here["cycles"] / (load_technology("ecp5").clock(
        load_machine("tiny-1x4x4")).value * 1e6)
    assert re.search(r"^luts +[\d,]+ ±\d+%", out, re.MULTILINE) and "mm2" not in out
    assert "dram: uJ" not in out and "is estimated to reach; absent: energy" in out


@pytest.mark.parametrize("order", [1, -1])
def test_one_machine_computes_floats_and_the_other_nothing(capsys, tmp_path: Path, order: int
                                                           ) -> None:
    """The machine of bfloat16 has no instruction for what stands behind a product."""
    images = tmp_path / "images.npz"
    np.savez(images, image=np.random.default_rng(3).normal(size=(2, 1, 8, 8)).astype(np.float32))
    machines = [str(EXAMPLES / f"{name}.py") for name in ("fp8", "bfloat16")][::order]
    assert main(["diff", *machines, "--network", "lockstep/testing/digits-float.onnx",
                 "--calibration", str(images)]) == 0
    out = capsys.readouterr().out
    energy, = re.findall(r"^gemm: uJ +([\d.]+) +([\d.]+) ", out, re.MULTILINE)
    assert [float(one) > 0 for one in energy] == [True, False][::order]
    assert "conv1 (fconv2d) is on the host: no instruction of the machine computes a load" in out
