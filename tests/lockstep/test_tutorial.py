"""The commands of docs/instruction.md, in order, in an empty folder; its Python code is run by
tests/docs/test_examples.py.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "instruction.md"
COMMANDS = [line.split() for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
            for line in block.splitlines()]


def performed(name: str, arguments: list[str]) -> int:
    if name == "python":
        script, *rest = arguments
        return subprocess.run([sys.executable, ROOT / script, *rest], check=False).returncode
    assert name == "lockstep"
    return main(arguments)


@pytest.mark.slow
def test_every_command_of_the_page(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    said = {}
    for name, *arguments in COMMANDS:
        assert performed(name, arguments) == 0, arguments
        said[" ".join(arguments)] = " ".join(capsys.readouterr().out.split())
    check, diff, runs, bench = ([text for line, text in said.items() if line.startswith(begin)]
                                for begin in ("check", "intrinsic diff", "run", "intrinsic bench"))
    assert "the simulators agree" in check[0]
    assert int(re.findall(r"absdiff ran (\d+)", check[0])[0]) > 0
    assert "absdiff: is one more" in diff[0]
    assert "absdiff" in bench[0].rpartition("never executed: ")[2]
    assert len(runs) == 3 and len({re.findall(r"sha256 (\w+)", text)[0] for text in runs}) == 1
    assert all("distance (by absdiff on the accelerator; without: " in text for text in runs)
    assert "absdiff" not in bench[1].rpartition("never executed: ")[2]
    assert int(re.findall(r" absdiff (\d+) ", bench[1])[0]) > 0
