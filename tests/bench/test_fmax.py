"""The clock of the core: what needs no tools, and refusals."""

import pytest
from amaranth.back import rtlil

from accel.hw.parts import ECP5
from accel.machine.config import preset
from accel.machine.machine import Machine
from bench.fpga.cores import BENCH
from fpga.building.bare_core import Harness

MACHINE = Machine(preset("tiny-1x4x4"))


@pytest.mark.slow
def test_harness_leaves_nothing_open_and_takes_primitives():
    harness = Harness(MACHINE)
    text = rtlil.convert(harness, name="top", emit_src=False, platform=ECP5())
    for kind in ("DP16KD", "MULT18X18D"):
        assert f"cell \\{kind}" in text
    inputs = 1 + 1 + 32 + 4 * 32        # rst, start, count, bases; then the memory port
    assert harness.registers > inputs + MACHINE.config.bus_bytes * 8


@pytest.mark.parametrize("arguments, message", [
    (["--machine", "nope"], "bench fpga.cores: Machine must be one of "),
    ([], "bench fpga.cores: yosys must be there for synthesis: pip install -e '.[fpga]' -c ")])
def test_wrong_requests(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    assert BENCH.main(arguments) == 2
    assert capsys.readouterr().err.startswith(message)


def test_seeds_are_limited(capsys):
    with pytest.raises(SystemExit, match="^2$"):
        BENCH.main(["--seeds", "6"])
    assert "invalid choice: 6" in capsys.readouterr().err
