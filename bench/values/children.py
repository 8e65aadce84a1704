"""Judges trials in a copy of this process, which may crash, hang or take all memory."""

import contextlib
import faulthandler
import os
import pickle
import resource
import signal
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from bench.values.draw import Trial
from bench.values.judge import Finding, Verdict, judged
from bench.values.ways import WAYS

__all__ = ["Child"]

SECONDS = 60.0              # for one way; a network takes less than one
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
        left, verdict = list(ways), Verdict(trial.number)
        while left:
            found, (way, how) = self._ask(trial, left)
            if found is not None:
                return _joined(verdict, found)
            verdict.findings.append(Finding(way, how, how, f"{way}: the process ended ({how})"))
            left = [name for name in left if name != way] if way in left else []
        return verdict

    def _ask(self, trial: Trial, ways: Sequence[str]) -> tuple[Verdict | None, tuple[str, str]]:
        """The verdict; or the way at which the child ended, and how."""
        pipe = self._started()
        pipe.send_bytes(pickle.dumps((trial.number, trial.model.SerializeToString(), trial.inputs,
                                      list(ways))))
        at = "bounds"
        while True:
            if not pipe.poll(self.seconds):
                self.close()
                return None, (at, "hang")
            try:
                said = pickle.loads(pipe.recv_bytes())
            except (EOFError, ConnectionError):
                self.process.join()
                status = self.process.exitcode
                self.close()
                return None, (at, "crash" if status is None else _named(status))
            if isinstance(said, Verdict):
                return said, ("", "")
            at = said

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
