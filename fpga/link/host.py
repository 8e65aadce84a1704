"""The host's side of the link: it delivers requests reliably over a faulty line.

The board answers requests in their order, and the line keeps it. So the answer to a request proves
that of all sent before it either the request or its answer was lost: those are sent again at once.
Behind them goes a *probe*, a request that is short and so more likely to arrive: if it alone is
answered, they were lost again; and as long as anything is answered, the board is there. What was
lost several times is cut into smaller requests.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from math import log
from struct import pack, unpack
from typing import Protocol

from compiler.errors import Error
from fpga.link.frames import (ANSWER, GRAIN, LARGEST, OVERHEAD, READ, READ_REGISTERS, REFUSED,
                              WRITE, WRITE_REGISTER, Frame, Unframe, framed)

WINDOW = {READ: 4, WRITE: 8, READ_REGISTERS: 4, WRITE_REGISTER: 1}
"""The most requests in flight. Short requests with long answers are few: on the board, which has
room for 64 bytes, they wait for the line.
"""

PATIENCE = 0.25
"""Seconds without an answer until requests are repeated, in addition to the transfer time of their
bytes.
"""

ATTEMPTS = 12
"""How often nothing comes in such a time until the driver gives up the board: 3 seconds of silence.
"""

LOSSES = 3
"""How often a request is lost before it is cut into requests of `GRAIN` bytes, and all later ones
are that small.
"""

MOST_SENT = 200
"""How often a request is sent until the driver gives up the line to a board that answers others."""


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


@dataclass(frozen=True, slots=True)
class _Task:
    """Part of what a call asks for: `size` bytes or words from address `at` on. `body` gives the
    body of a request for such a part, `answer` the size of the answer's.
    """

    kind: int
    unit: int                       # bytes
    at: int
    size: int
    body: Callable[[int, int], bytes]

    @property
    def answer_bytes(self) -> int:
        return self.size * self.unit if self.kind in (READ, READ_REGISTERS) else 0

    def cut(self, largest: int) -> "list[_Task]":
        """Parts of so many bytes at most."""
        most = max(1, largest // self.unit)
        return [_Task(self.kind, self.unit, at, min(most, self.at + self.size - at), self.body)
                for at in range(self.at, self.at + self.size, most)]


@dataclass(slots=True)
class _Request:
    """A request in flight. `sent`: how often it was sent; `lost`: how often that was lost for sure.
    `order`: of the last time among all that was sent. `due`: when it is repeated.
    """

    frame: Frame
    task: _Task
    sent: int = 0
    lost: int = 0
    order: int = 0
    due: float = 0.0

    @property
    def line_bytes(self) -> int:
        """Bytes of the request and its answer, without escapes."""
        return len(self.frame.body) + self.task.answer_bytes + 2 * (OVERHEAD + 2)


class HostLink:
    """Memory and registers behind a line.

    Every request is repeated until it is answered. Requests of one call may overtake each other, so
    they never overlap in memory; a call returns when all its requests are answered.

    Parameters
    ----------
    attempts : how often the board is asked in vain until the driver gives it up.
    clock : the time in seconds.

    Attributes
    ----------
    repeated : the number of repeated requests; 0 on a line without faults.
    """

    def __init__(self, line: Line, attempts: int = ATTEMPTS,
                 clock: Callable[[], float] = time.monotonic):
        self.line, self.repeated, self.attempts, self._clock = line, 0, attempts, clock
        self._unframe, self._largest = Unframe(), LARGEST
        self._sequence, self._order = count(), count()
        self._open: dict[int, _Request] = {}
        self._once: dict[int, int] = {}         # sequence to order of what was sent once
        self._answered = self._lost = self._line_bytes = 0

    @property
    def dropped(self) -> int:
        """The number of the board's frames that arrived corrupted."""
        return self._unframe.dropped

    @property
    def faults(self) -> str:
        """The faults of the line, and what helps; "" where nothing was lost."""
        if not self._lost:
            return ""
        total = self._answered + self._lost
        each = self._line_bytes / total / -log((self._answered + 1) / (total + 1))
        return (f"the line spoils about one byte in {max(1, round(each)):,}: take a short, "
                f"shielded cable, at the computer itself and not at a hub")

    def read(self, address: int, size_bytes: int) -> bytes:
        """Memory; address and size are multiples of `GRAIN`."""
        _require_grains(address, size_bytes)
        return self._perform(_Task(READ, 1, address, size_bytes,
                                   lambda at, size: pack("<IB", at, size - 1)))

    def write(self, address: int, data: bytes,
              progress: Callable[[int], None] = lambda size: None) -> None:
        """Memory; address and size are multiples of `GRAIN`. `progress` is told the bytes written.
        """
        _require_grains(address, len(data))
        self._perform(_Task(WRITE, 1, address, len(data), lambda at, size: (
            pack("<I", at) + data[at - address:at - address + size])), progress)

    def registers(self, first: int, words: int) -> list[int]:
        """Read words from word address `first` on."""
        raw = self._perform(_Task(READ_REGISTERS, 4, first, words,
                                  lambda at, size: pack("<IB", at, size - 1)))
        return list(unpack(f"<{words}I", raw))

    def set_register(self, address: int, value: int) -> None:
        self._perform(_Task(WRITE_REGISTER, 4, address, 1,
                            lambda at, size: pack("<II", at, value)))

    def _perform(self, whole: _Task, progress: Callable[[int], None] = lambda size: None) -> bytes:
        """Performs a task in parts; returns what was answered, in order."""
        answers: dict[int, bytes] = {}
        waiting = deque([whole] if whole.size else [])
        self._open, self._silent = {}, 0
        self._fill(waiting)
        self._until = self._clock() + self._turn_seconds()
        while self._open:
            frames = list(self._receive(min(request.due for request in self._open.values())))
            for frame in frames:
                if request := self._answered_by(frame):
                    answers[request.task.at] = frame.body
                    progress(request.task.size * request.task.unit)
            self._count_silence(bool(frames))
            waiting.extendleft(reversed(self._repeat_what_is_due()))
            self._fill(waiting)
        return b"".join(answers[at] for at in sorted(answers))

    def _count_silence(self, heard: bool) -> None:
        """Counts turns in which nothing came."""
        now = self._clock()
        if not heard and now < self._until:
            return
        self._silent = 0 if heard else self._silent + 1
        self._until = now + self._turn_seconds()
        if self._silent >= self.attempts:
            raise LinkError(f"Board at {self.line.name} does not answer: look whether it has power "
                            f"and the bitstream, and whether its baud rate is {self.line.baud}")

    def _turn_seconds(self) -> float:
        """The time that an answer may take: all requests in flight share the line; escapes may
        double their bytes.
        """
        under_way = sum(request.line_bytes for request in self._open.values())
        return PATIENCE + 2 * under_way * 10 / self.line.baud

    def _fill(self, waiting: deque[_Task]) -> None:
        """Sends what is waiting, as much as may be in flight."""
        while waiting and len(self._open) < WINDOW[waiting[0].kind]:
            task, *rest = waiting.popleft().cut(self._largest)
            waiting.extendleft(reversed(rest))
            self._begin(task)

    def _begin(self, task: _Task) -> None:
        request = _Request(Frame(self._free(), task.kind, task.body(task.at, task.size)), task)
        self._open[request.frame.sequence] = request
        self._send(request)

    def _free(self) -> int:
        """A sequence that no request in flight has: some may wait while hundreds are answered."""
        return next(number for at in self._sequence if (number := at % 256) not in self._open)

    def _send(self, request: _Request) -> None:
        self.line.send(framed(request.frame))
        request.sent, request.order = request.sent + 1, next(self._order)
        if request.sent == 1:
            self._once[request.frame.sequence] = request.order
        else:
            self._once.pop(request.frame.sequence, None)
        request.due = self._clock() + self._turn_seconds()

    def _answered_by(self, frame: Frame) -> _Request | None:
        """Takes a frame; gives the request that it is the answer to."""
        if (proof := self._once.pop(frame.sequence, None)) is not None:
            self._note_losses(proof)
        request = self._open.get(frame.sequence)
        if request is None:
            return None                                 # that to a probe, or a repeated request
        kind = request.frame.kind
        if frame.kind == REFUSED:
            raise LinkError(f"Board at {self.line.name} refuses a request of kind {kind}: "
                            f"is the memory as large as the program needs, and no run on?")
        if frame.kind != kind | ANSWER or len(frame.body) != request.task.answer_bytes:
            return None
        self._answered += 1
        self._line_bytes += request.line_bytes
        return self._open.pop(frame.sequence)

    def _note_losses(self, order: int) -> None:
        """Counts what was sent earlier than what is answered now as lost, or its answer."""
        for request in self._open.values():
            if request.order < order:
                request.lost, request.due = request.lost + 1, self._clock()
                request.order = next(self._order)       # lost once, whatever else is answered
                self._lost += 1
                self._line_bytes += request.line_bytes

    def _repeat_what_is_due(self) -> list[_Task]:
        """Repeats requests, and a probe behind them; gives those that are to be cut instead."""
        now, cut = self._clock(), []
        due = [request for request in self._open.values() if request.due <= now]
        for request in due:
            self.repeated += 1
            if request.lost >= LOSSES and len(parts := request.task.cut(GRAIN)) > 1:
                self._largest = GRAIN
                cut += parts
                del self._open[request.frame.sequence]
            elif request.sent >= MOST_SENT:
                raise LinkError(f"Board at {self.line.name} answers too little: "
                                f"{self.faults or 'look whether it works'}")
            else:
                self._send(request)
        if due:
            self._probe()
        return cut

    def _probe(self) -> None:
        """Asks for a register."""
        sequence = self._free()
        self.line.send(framed(Frame(sequence, READ_REGISTERS, pack("<IB", 0, 0))))
        self._once[sequence] = next(self._order)

    def _receive(self, due: float) -> Iterator[Frame]:
        """Yields received frames, or none once it is `due`."""
        seconds = max(due - self._clock(), 0.0)
        yield from self._unframe.feed(self.line.receive(seconds))


def _require_grains(address: int, size_bytes: int) -> None:
    if address % GRAIN or size_bytes % GRAIN:
        raise ValueError(f"Address and size must be multiples of {GRAIN}, "
                         f"not {address:#x} and {size_bytes}")
