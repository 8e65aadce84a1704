"""The commands of docs/instruction.md, in order, in an empty folder; its Python code is run by
tests/test_docs.py.
"""

import re
from pathlib import Path

import pytest

from lockstep.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "instruction.md"
COMMANDS = [line.split() for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
            for line in block.splitlines()]


@pytest.mark.slow
def test_every_command_of_the_page(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    said = {}
    for name, *arguments in COMMANDS:
        assert name == "lockstep" and main(arguments) == 0, arguments
        said[" ".join(arguments[:2])] = capsys.readouterr().out
    assert list(said) == ["intrinsic new", "intrinsic show", "check --machine", "intrinsic diff",
                          "intrinsic bench"]
    assert "the simulators agree" in said["check --machine"]
    assert int(re.findall(r"absdiff ran (\d+)", said["check --machine"])[0]) > 0
    assert "absdiff: is one more" in said["intrinsic diff"]
    assert "never executed: " in said["intrinsic bench"]
    assert "absdiff" in said["intrinsic bench"].rpartition("never executed: ")[2]
