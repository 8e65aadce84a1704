"""Boards as targets: importing this module registers ``board:PORT``, and ``board:emulated``."""

from contextlib import ExitStack

from accel.machine.config import preset
from accel.machine.machine import Machine
from fpga.opening import EMULATED, opened
from runtime.driver.targets import Placed, accelerator, register

KIND, EMULATION = "board", "emulated"

_open = ExitStack()
"""Boards stay open as long as this process."""


def board_target(where: str) -> Placed:
    """The machine that the board at a serial port holds, on the board."""
    port = None if where == EMULATION else where
    machine = Machine(preset(EMULATED)) if port is None else None
    device = _open.enter_context(opened(port, machine))
    return accelerator(device.machine, device, name=f"{KIND}:{where}")


register(KIND, board_target)
