"""The memory of boards against emulated boards, as a command."""

import pytest

from bench import board_memory as bench


@pytest.mark.parametrize("arguments, text", [
    (["--machine", "nope"], "bench.board_memory: Machine must be one of "),
    (["lenet"], "NETWORK must be one of digits, keywords, resnet18_block, not 'lenet'"),
    (["--board", "de10"], "bench.board_memory: Board must be one of ulx3s-12f, "),
    (["--board", "ulx3s-85f@"], "bench.board_memory: must be board:NAME or board:NAME@MHZ, not ")])
def test_wrong_requests(monkeypatch, capsys, arguments, text):
    monkeypatch.setattr("sys.argv", ["board_memory", *arguments])
    try:
        assert bench.main() == 2
    except SystemExit as error:
        assert error.code == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("error, broken, status", [
    (0.019, 0, 0), (-0.021, 0, 1), (0.0, 1, 1)])
def test_the_exit_status_tells_whether_it_is_close(monkeypatch, capsys, error, broken, status):
    row = {"network": "digits", "board": "ulx3s-85f", "cycles": 1000, "broken_rules": broken,
           "simulated": round(1000 * (1 + error)), "error": error, "error_of_default": -0.5}
    monkeypatch.setattr(bench, "measure", lambda *_: row)
    monkeypatch.setattr("sys.argv", ["board_memory", "digits", "--board", "ulx3s-85f"])
    assert bench.main() == status
    assert f"{error:+.2%}" in capsys.readouterr().out
