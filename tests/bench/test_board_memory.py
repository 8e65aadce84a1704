"""The memory of boards against emulated boards, as a command."""

import pytest

from bench.fpga import boards as bench


@pytest.mark.parametrize("arguments, text", [
    (["--machine", "nope"], "bench fpga.boards: Machine must be one of "),
    (["lenet"], "--only must be of axi4, digits, keywords, memory, networks, reset, "
     "resnet18_block, transfers, not 'lenet'"),
    (["--board", "de10"], "bench fpga.boards: Board must be one of ulx3s-12f, "),
    (["--board", "ulx3s-85f@"], "bench fpga.boards: must be board:NAME or board:NAME@MHZ, not ")])
def test_wrong_requests(capsys, arguments, text):
    assert bench.BENCH.main(["--only", "memory", *arguments]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("error, broken, status", [
    (0.019, 0, 0), (-0.021, 0, 1), (0.0, 1, 1)])
def test_the_exit_status_tells_whether_it_is_close(monkeypatch, capsys, error, broken, status):
    row = {"network": "digits", "board": "ulx3s-85f", "cycles": 1000, "broken_rules": broken,
           "simulated": round(1000 * (1 + error)), "error": error, "error_of_default": -0.5}
    monkeypatch.setattr(bench, "timed", lambda *_: row)
    wanted = ["--only", "memory", "digits", "--board", "ulx3s-85f"]
    assert bench.BENCH.main(wanted) == status
    assert f"{error:+.2%}" in capsys.readouterr().out
