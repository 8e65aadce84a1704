"""`gpu.kernels` without a GPU: it says what is wrong, and times nothing."""

import json

import numpy as np
import pytest

from bench.gpu import kernels as gpu
from runtime.devices.emulated import EmulatedDevice


def run(*arguments: str) -> int:
    return gpu.BENCH.main(["--only", *arguments, "--device", "emulated"])


@pytest.mark.slow
def test_what_is_right_is_said_and_not_timed(tmp_path, capsys) -> None:
    assert run("rows", "--json", str(tmp_path / "rows.json")) == 0
    assert "gpu_cases 2\ngpu_wrong 0\n" in capsys.readouterr().out
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["softmax 24x100", "chain 24x100"]
    assert all(row["right"] and row["ours_us"] is None for row in rows)


def test_what_is_wrong_is_said(monkeypatch, capsys) -> None:
    monkeypatch.setattr(gpu, "evaluate", lambda graph, values: {"y": values["x"]})
    assert run("rows") == 1
    printed = capsys.readouterr().out
    assert printed.count("WRONG") == 2 and "gpu_wrong 2\n" in printed


def test_times_are_medians_of_turns(monkeypatch) -> None:
    """On a device that is taken for a GPU, with a peer and a clock of our own."""
    now = [0.0]
    monkeypatch.setattr(gpu.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(gpu, "CudaDevice", EmulatedDevice)
    order = []

    def lasting(name: str, seconds: float):
        def run() -> None:
            order.append(name)
            now[0] += seconds
        return run

    class Torch:
        class cuda:
            synchronize = staticmethod(lambda: None)

    bench = gpu.Stage(EmulatedDevice(), "cuda", Torch, 3, copy_rate=1e9)
    one = bench.timed("rows", "case", 0.0, "float32", lasting("ours", 0.01),
                      lasting("peer", 0.02), operations=1e10, moved=5e6)
    assert (one.ours_us, one.peer_us, one.ratio) == pytest.approx((1e4, 2e4, 0.5))
    assert (one.tflops, one.copy_share) == pytest.approx((1.0, 0.5))
    assert [name for name in order[-9:] if name == "peer"] == ["peer"] * 3     # one each time
    wrong = bench.timed("rows", "case", float("inf"), "float32", lasting("ours", 0.01), None)
    assert not wrong.right and wrong.ours_us is None


def test_not_a_number_is_wrong() -> None:
    assert gpu._error(np.array([1, np.nan]), np.ones(2)) == float("inf")
    assert gpu._error(np.array([1, 1.5]), np.array([1.0, 2.0])) == 0.25


def test_an_unknown_part_wrong(capsys) -> None:
    assert run("sums") == 2
    assert "--only must be of attention, bf16, " in capsys.readouterr().err
