"""The commands of docs/tutorial.md and docs/instruction.md, in order, in an empty folder; their
Python code is run by tests/docs/test_examples.py.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def commands(page: str) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def needs_rtl(line: list[str]) -> bool:
    return "check" in line or "verilator" in line


def performed(name: str, *arguments: str) -> int:
    if name == "lockstep":
        return main(arguments)
    if name == "python":
        name, arguments = sys.executable, (str(ROOT / arguments[0]), *arguments[1:])
    return subprocess.run([name, *arguments], check=False).returncode


def told(lines: list[list[str]], capsys) -> dict[str, str]:
    """What each command says, by its arguments. ``>`` writes it to a file."""
    said = {}
    for line in lines:
        *command, _, file = line if ">" in line else (*line, ">", "/dev/null")
        assert performed(*command) == 0, line
        out = capsys.readouterr().out
        Path(file).write_text(out)
        said[" ".join(command[1:])] = " ".join(out.split())
    return said


def beginning(said: dict[str, str], begin: str) -> list[str]:
    return [text for line, text in said.items() if line.startswith(begin)]


def shown_in_readme(command: str) -> list[str]:
    """The lines below a command, which the README shows as what it prints."""
    block = (ROOT / "README.md").read_text().partition(f"$ {command}")[2].partition("```")[0]
    return block.splitlines()[1:]


def test_the_tutorial_but_for_rtl(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    said = told([line for line in commands("tutorial.md") if not needs_rtl(line)], capsys)
    page = (DOCS / "tutorial.md").read_text()
    assert "28,084 cycles" in beginning(said, "run digits")[0] and "28,084 cycles" in page
    for line in shown_in_readme("lockstep run digits"):
        assert " ".join(line.split()) in beginning(said, "run digits")[0]
    assert "block_out: 4 -> 8" in beginning(said, "diff")[0]
    (run,), (bench,), (explore,) = (
        beginning(said, begin) for begin in ("run distance", "intrinsic bench", "explore"))
    (line,) = re.findall(r"distance \(by absdiff on the accelerator; without: [^)]+\)", run)
    assert line in page
    for cycles in ("20,411", "17,339", "13,308"):
        assert cycles in page and cycles in bench + explore
    assert "values of 4 of 4 machines on the front are those of the host" in explore
    assert Path("trace.json").exists()


@pytest.mark.slow
def test_the_tutorial_in_rtl(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    new = next(line for line in commands("tutorial.md") if "new" in line)
    said = told([new, *filter(needs_rtl, commands("tutorial.md"))], capsys)
    assert "the simulators agree" in beginning(said, "check")[0]


@pytest.mark.slow
def test_every_command_of_the_page_about_instructions(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    said = told(commands("instruction.md"), capsys)
    check, diff, runs, bench = (beginning(said, begin) for begin in
                                ("check", "intrinsic diff", "run", "intrinsic bench"))
    assert "the simulators agree" in check[0]
    assert int(re.findall(r"absdiff ran (\d+)", check[0])[0]) > 0
    assert "absdiff: is one more" in diff[0]
    assert "absdiff" in bench[0].rpartition("never executed: ")[2]
    assert len(runs) == 3 and len({re.findall(r"sha256 (\w+)", text)[0] for text in runs}) == 1
    assert all("distance (by absdiff on the accelerator; without: " in text for text in runs)
    assert "absdiff" not in bench[1].rpartition("never executed: ")[2]
    assert int(re.findall(r" absdiff (\d+) ", bench[1])[0]) > 0
