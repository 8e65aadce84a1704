"""The host's side of the link: it delivers requests reliably over a faulty line."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from struct import pack, unpack
from typing import Protocol

from compiler.errors import Error
from fpga.link.frames import (ANSWER, GRAIN, LARGEST, READ, READ_REGISTERS, REFUSED, WRITE,
                              WRITE_REGISTER, Frame, Unframe, framed)

__all__ = ["Line", "Link", "LinkError"]

WINDOW = {READ: 4, WRITE: 8, READ_REGISTERS: 4, WRITE_REGISTER: 1}
"""The most requests in flight. Short requests with long answers are few: on the board, which has
room for 64 bytes, they wait for the line.
"""

PATIENCE = 0.25
"""Seconds without an answer until a request is repeated, in addition to the transfer time of its
bytes.
"""

ATTEMPTS = 12
"""The number of attempts until the driver gives up the board: after 3 seconds of silence."""


class LinkError(Error, RuntimeError):
    """The board does not answer, or refuses. One line: what, where, what to do."""


class Line(Protocol):
    """An open serial line. ``name`` is its name in messages."""

    name: str
    baud: int

    def send(self, data: bytes) -> None: ...

    def receive(self, seconds: float) -> bytes:
        """Returns the bytes received so far, at least one unless none comes within this many
        seconds.
        """
        ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Request:
    """A request in flight. `sent`: how often it was sent. `due`: when it is repeated. `place`: its
    position among the answers.
    """

    frame: Frame
    place: int
    answer_bytes: int
    sent: int = 0
    due: float = 0.0


class Link:
    """Memory and registers behind a line.

    Every request is repeated until it is answered. Requests of one call may overtake each other, so
    they never overlap in memory; a call returns when all its requests are answered.

    Parameters
    ----------
    attempts : the number of attempts of a request until the driver gives up the board.

    Attributes
    ----------
    repeated : the number of repeated requests; 0 on a line without faults.
    """

    def __init__(self, line: Line, attempts: int = ATTEMPTS):
        self.line, self.repeated, self.attempts = line, 0, attempts
        self._unframe = Unframe()
        self._sequence = count()

    @property
    def dropped(self) -> int:
        """The number of the board's frames that arrived corrupted."""
        return self._unframe.dropped

    def read(self, address: int, size_bytes: int) -> bytes:
        """Memory; address and size are multiples of `GRAIN`."""
        return b"".join(self._perform(READ, [
            (pack("<IB", at, size - 1), size) for at, size in _cut(address, size_bytes)]))

    def write(self, address: int, data: bytes,
              progress: Callable[[int], None] = lambda size: None) -> None:
        """Memory; address and size are multiples of `GRAIN`. `progress` is told the bytes written.
        """
        self._perform(WRITE, [(pack("<I", at) + data[at - address:at - address + size], 0)
                              for at, size in _cut(address, len(data))],
                      lambda request: progress(len(request.frame.body) - 4))

    def registers(self, first: int, words: int) -> list[int]:
        """Read words from word address `first` on."""
        cut = [(at, min(LARGEST // 4, first + words - at))
               for at in range(first, first + words, LARGEST // 4)]
        raw = b"".join(self._perform(READ_REGISTERS, [
            (pack("<IB", at, size - 1), 4 * size) for at, size in cut]))
        return list(unpack(f"<{words}I", raw))

    def set_register(self, address: int, value: int) -> None:
        self._perform(WRITE_REGISTER, [(pack("<II", address, value), 0)])

    def _perform(self, kind: int, bodies: Sequence[tuple[bytes, int]],
                 heard: Callable[[_Request], None] = lambda request: None) -> list[bytes]:
        """Performs requests, given as body and size of the answer's body; returns their answers, in
        order.
        """
        answers: list[bytes] = [b""] * len(bodies)
        todo = iter([_Request(Frame(next(self._sequence) % 256, kind, body), place, size)
                     for place, (body, size) in enumerate(bodies)])
        open_: dict[int, _Request] = {}
        waiting = deque(todo)
        while waiting or open_:
            while waiting and len(open_) < WINDOW[kind]:
                request = waiting.popleft()
                open_[request.frame.sequence] = request
                self._make(request, open_)
            for frame in self._receive(min(request.due for request in open_.values())):
                request = open_.get(frame.sequence)
                if request is None:
                    continue                            # the answer to a repeated request
                if frame.kind == REFUSED:
                    raise LinkError(f"Board at {self.line.name} refuses a request of kind {kind}: "
                                    f"is the memory as large as the program needs, and no run on?")
                if frame.kind == kind | ANSWER and len(frame.body) == request.answer_bytes:
                    answers[request.place] = frame.body
                    heard(open_.pop(frame.sequence))
            now = time.monotonic()
            for request in open_.values():
                if request.due <= now:
                    self.repeated += 1
                    self._make(request, open_)
        return answers

    def _make(self, request: _Request, open_: dict[int, _Request]) -> None:
        if request.sent >= self.attempts:
            raise LinkError(f"Board at {self.line.name} does not answer: look whether it has power "
                            f"and the bitstream, and whether its baud rate is {self.line.baud}")
        raw = framed(request.frame)
        self.line.send(raw)
        request.sent += 1
        # All requests in flight share the line; escapes may double their bytes.
        under_way = sum(len(other.frame.body) + other.answer_bytes + 32 for other in open_.values())
        request.due = time.monotonic() + PATIENCE + 2 * under_way * 10 / self.line.baud

    def _receive(self, due: float) -> Iterator[Frame]:
        """Yields received frames, or none once it is `due`."""
        seconds = max(due - time.monotonic(), 0.0)
        yield from self._unframe.feed(self.line.receive(seconds))


def _cut(address: int, size_bytes: int) -> list[tuple[int, int]]:
    """Cuts data into pieces that each fit one frame."""
    if address % GRAIN or size_bytes % GRAIN:
        raise ValueError(f"Address and size must be multiples of {GRAIN}, "
                         f"not {address:#x} and {size_bytes}")
    return [(at, min(LARGEST, address + size_bytes - at))
            for at in range(address, address + size_bytes, LARGEST)]
