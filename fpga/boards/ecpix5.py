"""ECPIX-5 85F (LambdaConcept): its memory is DDR3, which has no controller here, so networks live
in block RAM. An FT2232H carries JTAG and the serial line over one USB cable.
"""

from fpga.boards.board import BlockRam, Board

BOARDS = (
    Board("ecpix5-85f", "ECPIX-5 85F", "amaranth_boards.ecpix5:ECPIX585Platform",
          memory=BlockRam(256 << 10), loader="ecpix5", baud=3_000_000, mhz=80, button="rst"),
)
