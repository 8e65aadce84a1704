"""Runs work in a copy of this process, bounded in memory and time; keeps its output and explains
its end.

The copy has everything imported already; importing would take most of the time.
"""

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """`address_bytes` bounds the address space beyond that of this process, `cpu_seconds` the
    processor time, `wall_seconds` the time of a process that waits.
    """

    address_bytes: int = 4 << 30
    cpu_seconds: int = 10
    wall_seconds: int = 300


@dataclass(frozen=True, slots=True)
class Ended:
    """An ended process: its status (negative: the signal), its output, its processor time, its peak
    memory beyond that of this process, and whether it was stopped for waiting.
    """

    status: int
    out: str
    err: str
    seconds: float
    bytes: int
    waited: bool = False


def isolated(work: Callable[[], int], folder: Path, limits: Limits) -> Ended:
    """Does the work in a copy of this process, in the folder; its output lies beside the folder."""
    begin, waited = time.monotonic(), False
    sys.stdout.flush()
    sys.stderr.flush()
    said = [folder.with_name(f"{folder.name}.{name}") for name in ("out", "err")]
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, _pages(1).to_bytes(8))     # less than here: copied on write
        _become(work, folder, said, limits)
    held = int.from_bytes(os.read(reader, 8))
    os.close(reader)
    os.close(writer)
    pause = 0.001
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - begin > limits.wall_seconds:
            waited = True
            os.killpg(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)        # processes that it left behind
    out, err = (path.read_text(errors="replace") for path in said)
    for path in said:
        path.unlink()
    return Ended(os.waitstatus_to_exitcode(status), out, err, usage.ru_utime + usage.ru_stime,
                 (usage.ru_maxrss << 10) - held, waited)


def _pages(field: int) -> int:
    """Bytes of this process: of its address space (0), or in memory (1)."""
    pages = int(Path("/proc/self/statm").read_text().split()[field])
    return pages * resource.getpagesize()


def _become(work: Callable[[], int], folder: Path, said: list[Path], limits: Limits) -> None:
    """The child: does what the interpreter would do with the work as its program."""
    status = 70
    try:
        faulthandler.disable()      # pytest's writes to where pytest's own errors go
        os.setpgid(0, 0)
        for number, path in zip((1, 2), said, strict=True):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.stdout = open(1, "w", closefd=False)
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        address = _pages(0) + limits.address_bytes
        resource.setrlimit(resource.RLIMIT_AS, (address, address))
        resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 2))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        status = work()
    except BaseException:       # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        status = 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
