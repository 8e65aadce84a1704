"""Boards: `board.py` defines them, each family has a file, `table.py` lists all."""

from fpga.boards.board import BlockRam, Board, BoardError
from fpga.boards.table import BOARDS, board
