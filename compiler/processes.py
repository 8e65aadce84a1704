"""Tools that we start, and our own end: nothing that we started outlives us.

A tool runs in a session of its own, where no signal of a terminal reaches it. It is killed with all
that it started when whoever called it gives up, when `end` ends this process, and when this process
is killed: then by the guardian, a small process that reads from a pipe until nobody writes to it.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, ClassVar, NoReturn

GRACE_SECONDS = 0.4
"""From the interrupt of a tool, at which it may tidy up, to its death."""

ERRORS = 2      # descriptor of standard error

_GUARDIAN = """
import os, signal, sys
for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
    signal.signal(number, signal.SIG_IGN)
tools = set()
for line in sys.stdin:
    (tools.add if line[0] == "+" else tools.discard)(int(line[1:]))
for tool in tools:
    try:
        os.killpg(tool, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""

Tool = subprocess.Popen[str]
Command = Sequence[str]

_lock = threading.Lock()
_tools: set[Tool] = set()
_scratch: set[Path] = set()
_guardian: "Guardian | None" = None
_ending = False


def run_tool(command: Command, cwd: Path | None = None, env: Mapping[str, str] | None = None,
             timeout: float | None = None, among: set[Tool] | None = None
             ) -> subprocess.CompletedProcess[str]:
    """Runs a tool; returns its output and its status.

    `timeout` is in seconds. While it runs it is a member of `among`. In `cwd` lies what it keeps
    for itself meanwhile. Raises OSError if it cannot be started, `subprocess.TimeoutExpired`.
    """
    env = dict(os.environ if env is None else env)
    if cwd is not None:
        env["TMPDIR"] = str(cwd.absolute())
    with _started(command, cwd, env) as tool:
        if among is not None:
            among.add(tool)
        out, err = tool.communicate(timeout=timeout)
    hold()
    return subprocess.CompletedProcess(command, tool.returncode, out, err)


def call_all(commands: Sequence[Command], at_once: int = 2, cwd: Path | None = None
             ) -> list[subprocess.CompletedProcess[str]]:
    """Run tools side by side. Whoever interrupts ends them all."""
    running: set[Tool] = set()
    with ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(run_tool, command, cwd, among=running) for command in commands]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            for tool in list(running):
                kill(tool)
            raise


@contextmanager
def companion(command: Command, errors: IO[str], env: Mapping[str, str] | None = None
              ) -> Iterator[Tool]:
    """A tool that is talked to while the body runs: it reads `stdin` and writes `stdout`. What it
    writes to standard error goes to the file `errors`. It is killed at the end of the body.
    """
    with _started(command, None, dict(os.environ if env is None else env), errors) as tool:
        yield tool


@contextmanager
def _started(command: Command, cwd: Path | None, env: Mapping[str, str],
             errors: IO[str] | None = None) -> Iterator[Tool]:
    """A tool; with a file for its `errors` one that is talked to."""
    with _lock:
        tool = None if _ending else _open(command, cwd, env, errors)
        if tool is not None:
            _tools.add(tool)
            _tell(f"+{tool.pid}\n")
    if tool is None:
        hold()
        raise AssertionError("a process that is ending never comes here")
    try:
        with tool:
            try:
                yield tool
            finally:
                kill(tool)
    finally:
        with _lock:
            _tools.discard(tool)
            _tell(f"-{tool.pid}\n")


def _open(command: Command, cwd: Path | None, env: Mapping[str, str], errors: IO[str] | None
          ) -> Tool:
    return subprocess.Popen(command, cwd=cwd, env=env, text=True, errors="replace",
                            stdin=subprocess.PIPE if errors else subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=errors or subprocess.PIPE,
                            start_new_session=True)


def kill(tool: Tool) -> None:
    """Kills a tool and all that it started."""
    if tool.poll() is None:
        _signal_group(tool.pid, signal.SIGKILL)


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


# ---- the guardian ------------------------------------------------------------------------------

def _tell(line: str) -> None:
    """The guardian of this process, which is started when it is first told something."""
    global _guardian
    if _guardian is None or _guardian.process.poll() is not None:
        _guardian = Guardian()
        line = "".join(f"+{tool.pid}\n" for tool in _tools)
    with suppress(BrokenPipeError):
        os.write(_guardian.pipe, line.encode())


class Guardian:
    """A process that ends when its `pipe` has no writer any more."""

    def __init__(self):
        reader, self.pipe = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARDIAN], stdin=reader, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(reader)


@atexit.register
def _dismiss() -> None:
    global _guardian
    if _guardian is not None:
        os.close(_guardian.pipe)
        _guardian.process.wait()
        _guardian = None


# ---- the end of this process -------------------------------------------------------------------

@contextmanager
def remove_at_end(path: Path) -> Iterator[Path]:
    """A file or folder that `end` removes, if it comes before the end of the body."""
    _scratch.add(path)
    try:
        yield path
    finally:
        hold()
        _scratch.discard(path)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Makes `end` wait for a body that takes a moment."""
    with _lock:
        yield


def hold() -> None:
    """Stop here if this process is ending: what looks like a failure now is not one."""
    while _ending:
        time.sleep(1)


def end(status: int) -> NoReturn:
    """End this process at once, from any thread, with all that it started and left about."""
    global _ending
    _ending = True                      # from now on no tool is started
    _lock.acquire(timeout=GRACE_SECONDS)
    _hush()
    started = _descendants()
    for number in (signal.SIGINT, signal.SIGKILL):
        for process in started:
            _signal_group(process, number)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
        until = time.monotonic() + GRACE_SECONDS
        while any(map(_is_running, started)) and time.monotonic() < until:
            time.sleep(0.01)
    for path in list(_scratch):
        remove(path)
    os._exit(status)


def _hush() -> None:
    """From now on standard error is for nobody: other threads may complain of what ends."""
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), b"\x1b[?25h")         # a spinner has hidden the cursor
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), ERRORS)


def remove(path: Path) -> None:
    """A file or folder; somebody may still be writing there, or remove it, too."""
    for _ in range(3):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        if not os.path.lexists(path):
            return


def _descendants() -> list[int]:
    """Processes that this one started, and those that they did; not the guardian."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (known := _stat(int(folder.name))):
            children.setdefault(int(known[1]), []).append(int(folder.name))
    processes = children.get(os.getpid(), [])
    if _guardian is not None:
        processes = [process for process in processes if process != _guardian.process.pid]
    for process in processes:
        processes += children.get(process, [])
    return processes


def _is_running(process: int) -> bool:
    known = _stat(process)
    return known is not None and known[0] not in "ZX"


def _stat(process: int) -> list[str] | None:
    """State, parent and what follows them in ``/proc/PID/stat``; None if there is no process."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return None


def end_by_signals() -> None:
    """SIGINT and SIGTERM `end` this process from now on, with status 130 and 143.

    Python itself would first wait for native code that runs in its main thread. Signals that
    whoever started this process has it ignore stay ignored.
    """
    heard, signalled = os.pipe()
    os.set_blocking(signalled, False)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _heard)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(heard,), name="signals", daemon=True).start()


def _heard(number: int, frame: object) -> None:
    """`_listen` does it."""


def _listen(heard: int) -> None:
    while True:
        number = os.read(heard, 1)[0]
        if number in (signal.SIGINT, signal.SIGTERM):
            end(128 + number)


# ---- forks -------------------------------------------------------------------------------------

class OwnLock:
    """A lock of this process. A forked child has another one, free: the thread that held it does
    not come along.
    """

    _all: ClassVar["weakref.WeakSet[OwnLock]"] = weakref.WeakSet()

    def __init__(self):
        self._lock = threading.Lock()
        self._all.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @classmethod
    def renew(cls) -> None:
        for instance in cls._all:
            instance._lock = threading.Lock()


def _forked() -> None:
    """A child has none of its parent's tools and locks, and hears its own signals."""
    OwnLock.renew()
    global _lock, _guardian, _ending
    _lock, _ending = threading.Lock(), False
    _tools.clear()
    _scratch.clear()
    if _guardian is not None:
        os.close(_guardian.pipe)
        _guardian.process.returncode = 0        # it is not ours to wait for
        _guardian = None
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _heard:
            signal.set_wakeup_fd(-1)
            signal.signal(number, signal.SIG_DFL)


os.register_at_fork(after_in_child=_forked)
