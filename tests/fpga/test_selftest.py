"""The test of boards finds what is wrong with them."""

import re
from struct import unpack

import numpy as np
import pytest

from accel.sim.checking.check import cases
from fpga import selftest as testing
from fpga.device import BoardDevice, BoardRefused
from fpga.link.frames import READ, WRITE, Frame
from fpga.link.host import HostLink, LinkError
from fpga.link.registers import ADDRESSES
from fpga.selftest import selftest
from tests.support.board_model import BoardModel, faulty
from tests.support.effort import Effort
from tests.support.machines import TINY

SIZE = 1 << 20


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(testing, "LINK_ROUNDS", 5)


def checked(board: BoardModel, count: int = 3, **options):
    return selftest(BoardDevice(TINY, HostLink(board, clock=board.clock)), count, **options)


def test_a_board_that_works():
    heard = []
    report = checked(BoardModel(TINY, SIZE), progress=lambda *what: heard.append(what))
    assert report.ok and report.as_json()["ok"]
    assert (report.repeated, report.dropped) == (0, 0) and report.frames >= 5
    assert report.memory_bytes > 8192 and report.programs > 10 and report.skipped >= 1
    assert {what for what, _, _ in heard} == {"link", "memory", "programs"}
    assert all(done <= total for _, done, total in heard)


@pytest.mark.slow
def test_errors_of_the_line_are_counted(monkeypatch):
    if Effort.quick:                # but for the directed programs, which are long
        monkeypatch.setattr(testing, "cases", lambda *all_: list(cases(*all_))[-12:])
    report = checked(BoardModel(TINY, SIZE, faulty(3, 1e-3)))
    assert report.ok and report.repeated and report.dropped


class Broken(BoardModel):
    """Memory whose data line 5 is stuck at 0, or whose address line 13 is."""

    line = ""

    def _answer(self, frame: Frame) -> Frame:
        if self.line == "address" and frame.kind in (READ, WRITE):
            at, = unpack("<I", frame.body[:4])
            frame = Frame(frame.sequence, frame.kind,
                          (at & ~(1 << 13)).to_bytes(4, "little") + frame.body[4:])
        answer = super()._answer(frame)
        if self.line == "data" and frame.kind == READ:
            words = np.frombuffer(answer.body, "<u2") & ~np.uint16(1 << 5)
            answer = Frame(answer.sequence, answer.kind, words.astype("<u2").tobytes())
        return answer


@pytest.mark.parametrize("line, text", [
    ("data", r"^memory: \d+ of \d+ bytes at 0x\w+ differ, from 0x\w+; data lines 5$"),
    ("address", r"^memory: \d+ of 64 bytes at 0x0 differ")])
def test_a_memory_that_is_broken(line, text):
    board = Broken(TINY, SIZE)
    board.line = line
    report = checked(board)
    assert not report.ok and report.programs == 0
    failure, = report.failures
    assert re.match(text, failure), failure


def test_a_machine_that_computes_something_else():
    class Wrong(BoardModel):
        def _start(self, number: int) -> None:
            super()._start(number)
            self.memory[self.words[ADDRESSES["base_io"]]] ^= 1

    report = checked(Wrong(TINY, SIZE))
    failure, = report.failures
    assert failure.startswith("programs: ") and "simulator and board differ" in failure


def test_a_board_that_miscounts():
    class Wrong(BoardModel):
        def _start(self, number: int) -> None:
            super()._start(number)
            self.set("count_gemm_busy", 12345)

    failure, = checked(Wrong(TINY, SIZE)).failures
    assert "gemm counts" in failure


def test_a_link_that_changes_registers():
    class Wrong(BoardModel):
        reads = 0

        def _answer(self, frame: Frame) -> Frame:
            self.reads += 1
            if self.reads == 8:
                self.set("clock_hz", 1)
            return super()._answer(frame)

    failure, = checked(Wrong(TINY, SIZE)).failures
    assert failure.startswith("link: register values change, in round")


def test_a_board_that_stops_answering():
    class Mute(BoardModel):
        answers = 40

        def send(self, data: bytes) -> None:
            self.answers -= 1
            if self.answers > 0:
                super().send(data)

    with pytest.raises(LinkError, match="Board at a model does not answer"):
        checked(Mute(TINY, SIZE))


def test_too_little_memory_for_programs():
    with pytest.raises(BoardRefused, match="has 512 bytes of memory, not the"):
        checked(BoardModel(TINY, 512))
