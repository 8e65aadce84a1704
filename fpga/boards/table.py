"""All boards by name. To add one, write a file like its neighbours and enter it in `BOARDS`."""

from fpga.boards import ecpix5, ulx3s
from fpga.boards.board import Board, BoardError

BOARDS: dict[str, Board] = {board.name: board for board in (*ulx3s.BOARDS, *ecpix5.BOARDS)}


def board(name: str) -> Board:
    """A board by its name."""
    if name not in BOARDS:
        raise BoardError(f"Board must be one of {', '.join(BOARDS)}, not {name!r}")
    return BOARDS[name]
