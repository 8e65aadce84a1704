"""Boards at serial ports, and emulated ones, as devices."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from accel.machine.config import preset
from accel.machine.machine import Machine
from fpga.boards.board import BAUD_RATES
from fpga.device import BoardDevice, BoardRefused, held_machine
from fpga.emulation.emulated import EmulatedBoard
from fpga.link.identity import named
from fpga.link.host import HostLink, LinkError
from fpga.link.serial_port import SerialLine

PROBES = 3
"""The number of requests at each baud rate before trying the next one."""

EMULATED = "tiny-1x4x4"

EMULATED_ATTEMPTS = 100
"""Attempts for an emulated board, which certainly exists but may be slow on a busy machine."""


@contextmanager
def opened(port: str | None, machine: Machine | None = None,
           rates: Sequence[int] = BAUD_RATES) -> Iterator[BoardDevice]:
    """A board as a device.

    Parameters
    ----------
    port : a serial port; None for an emulated board.
    machine : the machine that it must hold; None for any.
    rates : the baud rates at which it may answer.

    Raises `LinkError` if nothing answers, `BoardRefused` if it is another board.
    """
    if port is None:
        machine = machine or Machine(preset(EMULATED))
        try:
            emulated = EmulatedBoard(machine)
        except ValueError as error:             # a bus that its memory lacks
            raise BoardRefused(f"Board with {machine.config.name} cannot be emulated: "
                               f"{error}") from None
        with emulated as board:
            line = SerialLine(board.port, board.baud)
            try:
                yield BoardDevice(machine, HostLink(line, EMULATED_ATTEMPTS))
            finally:
                line.close()
        return
    link = _found(port, rates)
    try:
        yield BoardDevice(machine or _held(link), link)
    finally:
        link.line.close()


def _found(port: str, rates: Sequence[int]) -> HostLink:
    """A link at the first rate at which a board answers."""
    for rate in rates:
        line = SerialLine(port, rate)
        try:
            HostLink(line, PROBES).registers(0, 1)
            return HostLink(line)
        except LinkError:
            line.close()
    raise LinkError(f"Board at {port} answers at none of {', '.join(map(str, rates))} baud: look "
                    f"whether it has power and a bitstream of `lockstep fpga build`")


def _held(link: HostLink) -> Machine:
    held = held_machine(link)
    config = named(held)
    if config is None:
        raise BoardRefused(f"Board at {link.line.name} holds machine {held}, whose geometry "
                           f"or instructions are unknown here; say which machine it is")
    return Machine(config)
