"""A process of its own that runs trials, so that a trial can lose no more than this process.

Requests and answers are lines of JSON; `runtime.tuning.serving` is the other end.
"""

import json
import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import IO, Any

from compiler.errors import Error
from compiler.processes import Tool, companion, kill
from compiler.tune.space import Result

START_SECONDS = 120.0
"""The most seconds until a new process has imported what it needs; machines may be busy."""

LONGEST_REASON = 300


class ChildLost(Error, RuntimeError):
    """The process has ended, or was ended, before it answered. One line: why."""

    exit_status = 1


class Child:
    """Runs requests in a process that is started when it is first needed, and again after one that
    hung or crashed. It ends with this one.

    Parameters
    ----------
    limit_seconds : the most seconds that a request may take.
    imports : names of modules that the process imports first, those that register targets of
        one's own (`runtime.driver.targets.register`).
    """

    def __init__(self, limit_seconds: float = 60.0, imports: Sequence[str] = ()):
        self.limit_seconds, self.imports = limit_seconds, tuple(imports)
        self._lock = threading.Lock()
        self._running = ExitStack()
        self._tool: Tool | None = None
        self._errors: IO[str] | None = None
        self._closed = False

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process(self) -> int | None:
        """The number of the process; None before it is started."""
        return None if self._tool is None else self._tool.pid

    def run(self, trial: str) -> Result:
        """The result of a trial, from its text."""
        try:
            return Result(**self.ask({"trial": trial})["result"])
        except ChildLost as lost:
            return Result(None, "s", str(lost))

    def build(self, trial: str) -> Result | None:
        """The failure of what a trial builds; else None, and the cache has what it needs."""
        try:
            failure = self.ask({"build": trial})["result"]
            return failure and Result(**failure)
        except ChildLost as lost:
            return Result(None, "s", str(lost))

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request. Raises ChildLost where there is none."""
        with self._lock:
            if self._tool is None or self._tool.poll() is not None:
                self._start()
            return self._answer(json.dumps(request), self.limit_seconds)

    def close(self) -> None:
        """Ends the process, and the request that it may be at."""
        self._closed = True
        if self._tool is not None:
            kill(self._tool)
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._end()
        if self._closed:
            raise ChildLost("its process was ended")
        self._errors = self._running.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
        # As this process would import it, from its own folders first.
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._tool = self._running.enter_context(companion(
            [sys.executable, "-P", "-m", "runtime.tuning.serving", *self.imports], self._errors,
            env))
        self._answer(None, START_SECONDS)

    def _end(self) -> None:
        with suppress(BrokenPipeError):         # of a request that it never read
            self._running.close()
        self._tool = self._errors = None

    def _answer(self, line: str | None, seconds: float) -> dict[str, Any]:
        """The child's answer to a line; without a line, its first message."""
        tool = self._tool
        assert tool is not None and tool.stdin is not None and tool.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            kill(tool)

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            if line is not None:
                tool.stdin.write(f"{line}\n")
                tool.stdin.flush()
            answer = tool.stdout.readline()
            if answer.endswith("\n"):
                return json.loads(answer)
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
            timer.join()
        tool.wait()
        reason = f"took longer than {seconds:g} s" if late.is_set() else self._reason(tool)
        self._end()
        raise ChildLost(reason)

    def _reason(self, tool: Tool) -> str:
        """Why the process has ended by itself."""
        assert self._errors is not None
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines()
        last = f": {said[-1][:LONGEST_REASON]}" if said else ""
        status = tool.returncode
        how = f"ended with status {status}" if status >= 0 else f"crashed by signal {-status}"
        return f"its process {how}{last}"
