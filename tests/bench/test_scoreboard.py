"""The ratchet: a floor that is lost fails, a figure that nothing measures is said to be one."""

from pathlib import Path

import pytest

from bench import scoreboard
from bench.scoreboard import Figure, judge, main, read_table, values_in
from compiler.cpu_gpu_backends.llvm.machine import Processor

ROW = """
[[figure]]
name = "{name}"
what = "planted"
unit = "cycles"
better = "{better}"
aim = {aim}
{more}
"""


def figure(better: str = "lower", **more) -> Figure:
    return Figure("f", "planted", "x", better, 10, command=("python",), **more)


def table(path: Path, *rows: dict) -> Path:
    defaults = {"name": "f", "better": "lower", "aim": 10, "more": ""}
    path.write_text("".join(ROW.format(**(defaults | row)) for row in rows))
    return path


def prints(text: str) -> str:
    return f'command = ["python", "-c", "print({text!r})"]'


@pytest.mark.parametrize(("better", "value", "verdict"), [
    ("lower", 9, "aim reached"), ("lower", 10, "aim reached"),
    ("lower", 11, "short of the aim"), ("lower", 12, "short of the aim"),
    ("higher", 10, "aim reached"), ("higher", 8, "short of the aim"),
])
def test_a_value_within_the_floor_passes(better: str, value: float, verdict: str) -> None:
    judged = judge(figure(better, floor=12 if better == "lower" else 8), value)
    assert (judged.verdict, judged.lost) == (verdict, False)


@pytest.mark.parametrize(("better", "floor", "value"), [("lower", 12, 12.5), ("higher", 8, 7.5)])
def test_a_value_behind_the_floor_is_lost(better: str, floor: float, value: float) -> None:
    judged = judge(figure(better, floor=floor), value)
    assert (judged.verdict, judged.lost) == ("LOST: worse than its floor", True)


def test_values_are_read_from_between_other_lines() -> None:
    text = "running ...\ncycles 7_100\nratio 0.5\nnot a pair\nword word\n"
    assert values_in(text) == {"cycles": 7100.0, "ratio": 0.5}


def test_a_lost_floor_fails(tmp_path: Path, capsys) -> None:
    rows = {"more": f"floor = 12\n{prints('f 13')}"}, {"name": "g", "more": prints("g 9")}
    path = table(tmp_path / "t.toml", *rows)
    assert main([], path) == 1
    assert capsys.readouterr().err.endswith("scoreboard: lost: f\n")
    assert main(["measure", "g"], path) == 0


def test_a_command_that_fails_or_is_silent_fails(tmp_path: Path, capsys) -> None:
    fails = 'command = ["python", "-c", "raise SystemExit(\'no model\')"]'
    path = table(tmp_path / "t.toml", {"more": fails}, {"name": "g", "more": prints("h 1")})
    assert main([], path) == 1
    out, err = capsys.readouterr()
    assert err.endswith("scoreboard: lost: f, g\n")
    assert "no model" in " ".join(out.split())


def test_equal_commands_run_once(tmp_path: Path, monkeypatch) -> None:
    count = []
    monkeypatch.setattr(scoreboard, "run_command",
                        lambda command: (count.append(command), ({"f": 1, "g": 2}, ""))[1])
    rows = {"more": prints("x")}, {"name": "g", "more": prints("x")}
    assert main([], table(tmp_path / "t.toml", *rows)) == 0
    assert len(count) == 1


def test_the_table_of_the_project_is_well_formed() -> None:
    for row in read_table():
        assert row.floor is None or row.best is None or row.reaches(row.best, row.floor), row.name


@pytest.mark.parametrize(("row", "message"), [
    ({"better": "faster"}, "better of f must be \"lower\" or \"higher\", not 'faster'"),
    ({"name": "a b"}, "name must be an identifier, not 'a b'"),
    ({"more": "floor = 3"}, "command of f must be given, because it has a floor"),
    ({"more": "flor = 3"}, "a figure's fields must be name, what, unit, better, aim, floor, best, "
                           "command, needs, lacks, not 'flor'"),
])
def test_a_wrong_row_is_refused(tmp_path: Path, capsys, row: dict, message: str) -> None:
    assert main([], table(tmp_path / "t.toml", row)) == 2
    assert capsys.readouterr() == ("", f"scoreboard: error: {message}\n")


def test_a_name_given_twice_is_refused(tmp_path: Path, capsys) -> None:
    assert main([], table(tmp_path / "t.toml", {}, {})) == 2
    message = "name must be given once, not 2 times: 'f'"
    assert capsys.readouterr() == ("", f"scoreboard: error: {message}\n")


def test_an_unknown_figure_is_refused(tmp_path: Path, capsys) -> None:
    assert main(["measure", "g"], table(tmp_path / "t.toml", {})) == 2
    message = "figure must be one of f, not 'g'"
    assert capsys.readouterr() == ("", f"scoreboard: error: {message}\n")


@pytest.mark.parametrize(("features", "status", "verdict"), [
    ('needs = ["no-such-feature"]', 0, "not measured: this processor has no no-such-feature"),
    ('needs = ["planted"]', 1, "LOST: worse than its floor"),
    ('lacks = ["planted"]', 0, "not measured: this processor has planted"),
    ('lacks = ["no-such-feature"]', 1, "LOST: worse than its floor")])
def test_a_figure_of_another_processor_is_not_measured(tmp_path: Path, capsys, monkeypatch,
                                                       features: str, status: int, verdict: str
                                                       ) -> None:
    machine = Processor("x86_64-unknown-linux-gnu", "planted", ("planted",))
    monkeypatch.setattr(scoreboard, "host", lambda: machine)
    row = {"more": f'floor = 12\n{features}\n{prints("f 13")}'}
    assert main([], table(tmp_path / "t.toml", row)) == status
    assert verdict in " ".join(capsys.readouterr().out.split())


def test_each_command_says_what_it_found(tmp_path: Path, capsys) -> None:
    rows = {"more": prints("f 9")}, {"name": "g", "more": 'command = ["python", "-c", "1"]'}
    assert main([], table(tmp_path / "t.toml", *rows)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 1)[1] for line in lines[:4:2]] == [
        "[1/2] python -c print('f 9')", "[2/2] python -c 1"]
    assert lines[1::2] == ["  f 9 aim reached", "  g - FAILED: its command did not print it"]
