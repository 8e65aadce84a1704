"""Timing margins at the pins between an ECP5 and an SDRAM chip.

All pins have registers in their I/O cells, and the chip's clock leaves through such a cell as well,
`LEAD` earlier than commands and data do. Counted from an edge of the core's clock of period T, the
chip sees its edge at −LEAD::

    core's clock   |            T            |
    at the chip  |                         |          edges of its own clock
    commands        ===== of one cycle =======        stable T − LEAD before its edge, LEAD after
    data back                   ==== of one edge ==   from −LEAD + round trip + access
                                                      to T − LEAD + round trip + hold
    taken                                    ^        at T

So one lead serves every clock: that much remains after a command, and the core's first edge after
the data arrive takes them. An inverted clock (180 degrees) would take them at the very end of what
is valid: at 80 MHz 0.8 ns before it.

The round trip is that of clock and data through the I/O cells, pins and wires of a board. Nobody
has measured it here: `ROUND_TRIP` is wide on purpose.
"""

from fpga.boards.sdram import Sdram

LEAD = 3.5
"""Nanoseconds by which the chip's clock precedes the core's."""

ROUND_TRIP = (2.5, 6.0)
"""Nanoseconds, least and most: an output cell (clock to pin), 2 x 5 cm of wire, an input cell."""

SKEW = 0.5
"""Nanoseconds of skew between output cells, and of the PLL's phase: its step and jitter."""

TAKE = 0.5
"""Set-up time of an input register behind its pin's buffer, in ns; its hold time is in `SKEW`."""


def margins(chip: Sdram, clock_hz: float) -> dict[str, float]:
    """Nanoseconds left, by the name of the requirement; all must be above zero."""
    period = 1e9 / clock_hz
    least, most = ROUND_TRIP
    _, access = chip.read(clock_hz)
    return {
        "commands before the chip's edge": period - LEAD - SKEW - chip.setup,
        "commands after the chip's edge": LEAD - SKEW - chip.hold,
        "data before the core's edge": period + LEAD - most - access - SKEW - TAKE,
        "data after the core's edge": least + chip.data_hold - LEAD - SKEW,
    }


def require(chip: Sdram, clock_hz: float) -> None:
    """Refuses a clock at which a margin is gone."""
    for name, left in margins(chip, clock_hz).items():
        if left <= 0:
            raise ValueError(f"Clock of {chip.name} must be slower than {clock_hz / 1e6:g} MHz: "
                             f"{name} there are {left:.1f} ns left")
