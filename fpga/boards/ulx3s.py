"""ULX3S (Radiona, https://ulx3s.github.io): an ECP5 with SDRAM, and an FT231X for USB."""

from fpga.boards.board import Board
from fpga.boards.sdram import ULX3S

BOARDS = tuple(
    Board(f"ulx3s-{size.lower()}", f"ULX3S {size}", f"amaranth_boards.ulx3s:ULX3S_{size}_Platform",
          memory=ULX3S, loader="ulx3s", baud=3_000_000, mhz=80, button="button_fire")
    for size in ("12F", "25F", "45F", "85F"))
