"""Machines as they are on a board: with its memory, at its clock."""

from dataclasses import replace

from accel.machine.machine import Machine
from fpga.boards import BoardError, board
from fpga.gateware.board import require
from fpga.gateware.memory import dram_of


def on_board(machine: Machine, name: str, mhz: int | None = None) -> Machine:
    """The machine with the memory of a board and the clock of a build for it, in MHz; by default
    that of the board. Raises BoardError for a board that does not exist, and for a bus or a clock
    that a build refuses.
    """
    chosen, config = board(name), machine.config
    mhz = round(chosen.mhz) if mhz is None else mhz
    try:
        require(chosen, config, mhz * 1_000_000)
        memory = dram_of(config, chosen.memory, mhz * 1_000_000)
    except ValueError as error:
        raise BoardError(f"Memory of {name} cannot be that of {config.name}: {error}") from None
    return replace(machine, config=replace(config, memory=memory, clock_mhz=mhz))
