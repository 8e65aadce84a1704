"""Boards: `board.py` says what one is, a file for each family has them, `table.py` lists all."""

from fpga.boards.board import BlockRam, Board, BoardError
from fpga.boards.table import BOARDS, board
