"""Boards: an FPGA on pins that amaranth-boards knows, a memory, a serial line."""

import importlib
from dataclasses import dataclass

from accel.hw.parts import ECP5
from compiler.errors import Error
from fpga.boards.sdram import Sdram

BAUD_RATES = (3_000_000, 2_000_000, 1_500_000, 1_000_000, 921_600, 460_800, 230_400, 115_200)
MOST_OFF = 0.01
"""The share of a baud rate by which the clock may miss it."""


class BoardError(Error, ValueError):
    """A board that does not exist, or is impossible as described. One line."""


@dataclass(frozen=True, slots=True)
class BlockRam:
    """A memory made of the FPGA's own block RAM."""

    size_bytes: int


@dataclass(frozen=True)
class Board:
    """A board with an ECP5.

    name : the name in `--board`.
    title : the name for people.
    platform : class of amaranth_boards, ``module:class``. It gives pins, device and oscillator.
    memory : chip on the resource ``sdram``, or block RAM; from it follows what simulators take for
        it (`fpga.memory`).
    loader : its name in openFPGALoader.
    baud : fastest rate of the serial chip on the resource ``uart``.
    mhz : the default clock of a build.
    button : resource that is a reset button, or empty.
    """

    name: str
    title: str
    platform: str
    memory: Sdram | BlockRam
    loader: str
    baud: int
    mhz: float
    button: str = ""

    def make_platform(self, shallow_blocks: bool = True):
        """A new platform of Amaranth, for one build. Raises BoardError without amaranth-boards.

        shallow_blocks : see `accel.hw.parts.ECP5`.
        """
        module, _, name = self.platform.partition(":")
        try:
            platform = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("amaranth_boards"):
                raise
            raise BoardError("amaranth-boards must be there for the pins of boards: "
                             "pip install -e '.[fpga]' -c constraints.txt") from None
        return type(name, (platform, ECP5), {"shallow_blocks": shallow_blocks})()

    def baud_rate(self, clock_hz: float) -> int:
        """The fastest rate of the serial chip that the clock matches closely enough."""
        for rate in self.baud_rates:
            cycles = round(clock_hz / rate)
            if cycles >= 8 and abs(clock_hz / cycles / rate - 1) <= MOST_OFF:
                return rate
        raise BoardError(f"Clock of {self.name} must come within {MOST_OFF:.0%} of a baud rate, "
                         f"which {clock_hz / 1e6:g} MHz does not")

    @property
    def baud_rates(self) -> tuple[int, ...]:
        """The baud rates that builds may have, the fastest first."""
        return tuple(rate for rate in BAUD_RATES if rate <= self.baud)
