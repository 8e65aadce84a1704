"""The host's side of the link over lines that lose and spoil bytes. Time is that of the model."""

import random

import pytest

from fpga.link import host
from fpga.link.frames import GRAIN, LARGEST, READ, WRITE, Frame, Unframe, framed
from fpga.link.host import HostLink, LinkError
from tests.support.board_model import BoardModel, faulty
from tests.support.machines import TINY

SIZE = 1 << 16


def linked(spoil=lambda data: data, **options) -> tuple[HostLink, BoardModel]:
    board = BoardModel(TINY, SIZE, spoil)
    return HostLink(board, clock=board.clock, **options), board


def data(size: int = SIZE) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("each", [100, 200, 1000])
def test_what_a_line_spoils_arrives_in_the_end(each: int, seed: int) -> None:
    link, board = linked(faulty(seed, 1 / each))
    sent = data(24_000 // GRAIN * GRAIN)
    told: list[int] = []
    link.write(GRAIN, sent, told.append)
    assert board.memory.tobytes()[GRAIN:GRAIN + len(sent)] == sent and sum(told) == len(sent)
    assert link.read(GRAIN, len(sent)) == sent
    board.words[:] = range(len(board.words))
    assert link.registers(3, 100) == board.words[3:103]
    link.set_register(1, 77)
    assert board.words[1] == 77 and link.repeated


@pytest.mark.parametrize("each", [100, 300, 2000])
def test_a_line_tells_how_bad_it_is(each: int) -> None:
    link, _ = linked(faulty(1, 1 / each))
    for _ in range(3):
        link.write(0, data())
    told = int(link.faults.removeprefix("the line spoils about one byte in ").split(":")[0]
               .replace(",", ""))
    assert each / 1.5 < told < each * 1.5
    assert link.faults.endswith(": take a short, shielded cable, at the computer itself and not "
                                "at a hub")


def test_a_sound_line_has_no_faults() -> None:
    link, board = linked()
    link.write(0, data())
    assert (link.repeated, link.dropped, link.faults) == (0, 0, "")
    assert board.requests == [WRITE] * (SIZE // LARGEST)


def test_a_line_on_which_only_short_requests_arrive_is_given_up() -> None:
    """The board is there, so that is not what is said."""
    link, board = linked(lambda sent: sent if len(sent) < 40 else b"")
    with pytest.raises(LinkError, match="^Board at a model answers too little: the line spoils "
                                        r"about one byte in \d+: take a short, shielded cable"):
        link.write(0, data(4096))
    assert board.now < 60


@pytest.mark.parametrize("attempts", [3, 12])
def test_silence_is_counted_in_turns(attempts: int) -> None:
    link, board = linked(lambda sent: b"", attempts=attempts)
    with pytest.raises(LinkError, match="^Board at a model does not answer: look whether it has "
                                        "power and the bitstream, and whether its baud rate is "
                                        "10000000$"):
        link.write(0, data(4096))
    assert attempts * host.PATIENCE <= board.now < attempts * host.PATIENCE + 0.2


def test_a_board_that_falls_silent_is_given_up() -> None:
    """However often it has answered."""
    link, board = linked()
    link.write(0, data(4096))
    board.spoil, begin = lambda sent: b"", board.now
    with pytest.raises(LinkError, match="does not answer"):
        link.read(0, 4096)
    assert board.now - begin < host.ATTEMPTS * host.PATIENCE + 0.2


class Loses(BoardModel):
    """The first request for address 0 does not arrive."""

    lost = False

    def send(self, data: bytes) -> None:
        frame, = Unframe().feed(data)
        if not self.lost and frame.kind in (READ, WRITE) and frame.body[:4] == bytes(4):
            self.lost = True
        else:
            super().send(data)


def test_one_that_is_lost_is_repeated_at_once() -> None:
    """Hundreds are answered while it waits, more than there are sequence numbers."""
    board = Loses(TINY, 1 << 18)
    sent = data(1 << 18)
    link = HostLink(board, clock=board.clock)
    link.write(0, sent)
    assert board.lost and link.repeated == 1 and board.memory.tobytes() == sent
    assert board.now < 1.2 * 10 * (1 << 18) / board.baud


def test_a_late_answer_proves_no_loss() -> None:
    """Two answers to a request that was repeated because the board was slow."""
    link, board = linked()
    link.write(0, data(GRAIN))
    board._out += framed(Frame(0, WRITE | 0x80)) * 2
    assert link.read(0, GRAIN) == data(GRAIN) and (link.repeated, link.faults) == (0, "")


@pytest.mark.parametrize("address, size", [(1, 64), (64, 65)])
def test_addresses_and_sizes_wrong(address: int, size: int) -> None:
    link, _ = linked()
    with pytest.raises(ValueError, match=f"^Address and size must be multiples of {GRAIN}, "
                                         f"not {address:#x} and {size}$"):
        link.read(address, size)
