"""The command line's promise: exit status 2 and one line for a wrong request, never a traceback."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lockstep.commands
from compiler.errors import DEFECT, Error, RequestError
from lockstep import cli
from lockstep.options.paths import input_file, output_file

ROOT = Path(__file__).parents[2]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """A command `planted` that runs the function the test puts into its list."""
    todo = []
    module = ModuleType("lockstep.commands.planted")

    def add_parser(subparsers) -> argparse.ArgumentParser:
        parser = subparsers.add_parser("planted", help="of the test")
        parser.add_argument("--read", type=input_file)
        parser.add_argument("--write", type=output_file)
        return parser

    vars(module).update(add_parser=add_parser, run=lambda args: todo[0](args))
    (tmp_path / "planted.py").write_text("")
    monkeypatch.setattr(lockstep.commands, "__path__", [str(tmp_path)])
    monkeypatch.setitem(sys.modules, "lockstep.commands.planted", module)
    return todo


def refuse(error: BaseException):
    def run(args):
        raise error
    return run


@pytest.mark.parametrize("status", [0, 1])
def test_a_command_gives_the_exit_status(planted, status: int) -> None:
    planted.append(lambda args: status)
    assert cli.main(["planted"]) == status


def test_a_wrong_request_is_one_line(planted, capsys) -> None:
    planted.append(refuse(RequestError("preset must be one of a, b,\n  not 'c'")))
    assert cli.main(["planted"]) == 2
    assert capsys.readouterr() == ("", "lockstep: error: preset must be one of a, b, not 'c'\n")


def test_a_name_that_fills_a_screen_is_cut(planted, capsys) -> None:
    planted.append(refuse(RequestError(f"{'a' * 100_000} must be short")))
    assert cli.main(["planted"]) == 2
    assert capsys.readouterr().err == f"lockstep: error: {'a' * 300}... must be short\n"


class FoundWrong(Error):
    exit_status = 1


class NoRequest(Error):
    exit_status = DEFECT


def test_an_error_says_what_the_exit_status_is(planted, capsys) -> None:
    planted.append(refuse(FoundWrong("outputs differ")))
    assert cli.main(["planted"]) == 1
    assert capsys.readouterr() == ("", "lockstep: error: outputs differ\n")


def test_an_error_that_no_request_leads_to_is_one_line(planted, capsys) -> None:
    planted.append(refuse(NoRequest("loop i is not there\nfor j in 0..4:\n  a page of program")))
    assert cli.main(["planted"]) == 3
    assert capsys.readouterr() == ("", "lockstep: this is a defect, please report it: NoRequest: "
                                       "loop i is not there\n")


def test_any_other_error_is_a_defect_and_keeps_its_traceback(planted, capsys, monkeypatch) -> None:
    planted.append(refuse(ValueError("shapes differ")))
    with pytest.raises(ValueError, match="^shapes differ$"):
        cli.main(["planted"])
    monkeypatch.setattr(sys, "argv", ["lockstep", "planted"])
    monkeypatch.setattr(cli.processes, "end_by_signals", lambda: None)
    assert cli.main() == 3
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert last == "lockstep: this is a defect, please report it: ValueError: shapes differ"


def test_an_error_of_the_system_that_is_not_of_the_output_is_a_defect(planted) -> None:
    planted.append(refuse(OSError(5, "disk")))
    with pytest.raises(OSError, match="disk"):
        cli.main(["planted"])


def test_an_interrupt_is_status_130(planted) -> None:
    planted.append(refuse(KeyboardInterrupt()))
    assert cli.main(["planted"]) == 130


@pytest.mark.parametrize(("option", "message"), [
    (["--read", "no-such.onnx"], "'no-such.onnx' must be a file that exists"),
    (["--write", "no-such/x.json"], "'no-such/x.json' must name a file in a folder that exists"),
    (["--write", "."], "'.' must name a file in a folder that exists"),
    (["--wriet", "x"], "unrecognized arguments: --wriet x (see lockstep --help)"),
    (["--read"], "argument --read: expected one argument (see lockstep planted --help)"),
])
def test_wrong_arguments_are_one_line(planted, capsys, option, message: str) -> None:
    assert cli.main(["planted", *option]) == 2
    assert capsys.readouterr() == ("", f"lockstep: error: {message}\n")


def test_no_command_is_a_wrong_request(capsys) -> None:
    assert cli.main([]) == 2
    line = "lockstep: error: the following arguments are required: COMMAND (see lockstep --help)\n"
    assert capsys.readouterr() == ("", line)


def test_help_is_status_0(planted, capsys) -> None:
    assert cli.main(["--help"]) == 0
    assert "COMMAND planted of the test" in " ".join(capsys.readouterr().out.split())


def test_help_imports_nothing_heavy() -> None:
    code = ("import sys; from lockstep.cli import main; main(['--help']); "
            "print(sorted({'amaranth', 'onnx', 'torch', 'llvmlite', 'islpy'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], check=True, text=True, capture_output=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_closed_pipe_is_quiet() -> None:
    code = ("import sys\nfrom lockstep import cli\n"
            "cli.run = lambda argv: [print('x' * 100) for _ in range(10000)]\n"
            "sys.exit(cli.main([]))")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize("line", [["configs"], ["configs", "tiny-1x4x4"], ["isa"]])
def test_an_output_that_is_full_is_one_line(line: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "lockstep", *line], stdout=full,
                              stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "lockstep: error: standard output cannot be "
                                                 "written: No space left on device\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_the_output_has_no_characters_for_is_escaped(encoding: str) -> None:
    code = ("from lockstep import cli\ncli.run = lambda argv: print('\\u2192 \\udcff') or 0\n"
            "raise SystemExit(cli.main([]))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True,
                          env={**os.environ, "PYTHONIOENCODING": encoding})
    arrow = "\u2192" if encoding == "utf-8" else "\\u2192"
    assert (done.returncode, done.stdout.decode()) == (0, f"{arrow} \\udcff\n")


def commands() -> list[str]:
    return [name.rpartition(".")[2] for name in cli.command_modules()]


@pytest.mark.parametrize("name", commands())
def test_every_command_is_on_the_page_and_has_tests(name: str) -> None:
    assert f"\nlockstep {name} " in (ROOT / "docs" / "commands.md").read_text()
    assert list(Path(__file__).parent.glob(f"test_{name}*.py"))
