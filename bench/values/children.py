"""Judges trials in a copy of this process, which may crash, hang or take all memory."""

import contextlib
import faulthandler
import os
import pickle
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from bench.values.draw import Trial
from bench.values.judge import Finding, Verdict, judged
from bench.values.ways import WAYS

SECONDS = 300.0             # for one way; a network takes a few on a loaded computer
MEMORY_BYTES = 8 << 30
MOST_TRIALS = 150           # of one child: code that was made stays in its memory


class Child:
    """Judges one trial after the other. A child that ends costs the way that it was at; the other
    ways of the trial go on in a new one.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = SECONDS if seconds is None else seconds
        self.process: Any = None
        self.pipe: Connection | None = None
        self.judged = 0

    def judge(self, trial: Trial, ways: Sequence[str]) -> Verdict:
        self.begin(trial, ways)
        while (verdict := self.heard()) is None:
            pass
        return verdict

    def begin(self, trial: Trial, ways: Sequence[str]) -> None:
        """Hands out a trial; `heard` is to be asked until it gives the verdict."""
        self.trial, self.left, self.verdict = trial, list(ways), Verdict(trial.number)
        self._ask()

    def _ask(self) -> None:
        pipe = self._started()
        pipe.send_bytes(pickle.dumps((self.trial.number, self.trial.model.SerializeToString(),
                                      self.trial.inputs, self.left)))
        self._at("bounds")

    def _at(self, way: str) -> None:
        self.way, self.end = way, time.monotonic() + self.seconds

    def heard(self) -> Verdict | None:
        """Waits for what the child says next: the verdict, or nothing yet."""
        assert self.pipe is not None
        if not self.pipe.poll(max(0.0, self.end - time.monotonic())):
            self.close()
            return self._ended("hang")
        try:
            said = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionError):
            self.process.join()
            status = self.process.exitcode
            self.close()
            return self._ended("crash" if status is None else _named(status))
        if isinstance(said, Verdict):
            return _joined(self.verdict, said)
        self._at(said)
        return None

    def _ended(self, how: str) -> Verdict | None:
        """Goes on without the way at which the child ended, if another is left."""
        way = self.way
        self.verdict.findings.append(Finding(way, how, how, f"{way}: the process ended ({how})"))
        self.left = [name for name in self.left if name != way] if way in self.left else []
        if not self.left:
            return self.verdict
        self._ask()
        return None

    def _started(self) -> Connection:
        if self.pipe is not None and self.judged < MOST_TRIALS:
            self.judged += 1
            return self.pipe
        self.close()
        context = get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.pipe), daemon=True)
        sys.stdout.flush()
        self.process.start()
        theirs.close()
        self.judged = 1
        return self.pipe

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
        if self.pipe is not None:
            self.pipe.close()
        self.process = self.pipe = None


Judged = tuple[Trial, Verdict, Child]


def judged_by(children: Sequence[Child], trials: Iterator[tuple[Trial, Sequence[str]]]
              ) -> Iterator[Judged]:
    """Trials, of these ways, with their verdicts as they come, each of the child that is free."""
    busy: list[Child] = []
    free, left = list(children), True
    while left or busy:
        while free and left:
            trial, ways = next(trials, (None, ()))
            if left := trial is not None:
                busy.append(free.pop())
                busy[-1].begin(trial, ways)
        for child in _heard_from(busy):
            if (verdict := child.heard()) is not None:
                busy.remove(child)
                free.append(child)
                yield child.trial, verdict, child


def _heard_from(busy: Sequence[Child]) -> list[Child]:
    """Children that have something to say, or have had their time."""
    if not busy:
        return []
    seconds = min(child.end for child in busy) - time.monotonic()
    ready = wait([child.pipe for child in busy if child.pipe], max(0.0, seconds))
    return [child for child in busy if child.pipe in ready or time.monotonic() >= child.end]


def _named(status: int) -> str:
    return f"crash of {signal.Signals(-status).name}" if status < 0 else f"crash with {status}"


def _joined(first: Verdict, second: Verdict) -> Verdict:
    second.findings[:0] = first.findings
    return second


def _work(pipe: Connection, other: Connection) -> None:
    """The child: what a way writes goes nowhere."""
    import onnx

    other.close()
    faulthandler.disable()          # a crash is told by the status
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def announce(way: str) -> None:
        pipe.send_bytes(pickle.dumps(way))

    with contextlib.suppress(EOFError, ConnectionError, KeyboardInterrupt):
        while True:
            number, model, inputs, ways = pickle.loads(pipe.recv_bytes())
            verdict = judged(number, onnx.ModelProto.FromString(model), inputs,
                             [WAYS[name] for name in ways], announce=announce)
            pipe.send_bytes(pickle.dumps(verdict))
    os._exit(0)
