"""Work in a child process, for LLVM: where it meets a defect of its own, it ends the process.

The child is a fork, so nothing is loaded for it. It has no file of its parent, takes one piece of
work after the other, and ends when it has had none for a while, or when its parent has ended: most
of what a fork costs is the memory that both touch for the first time, once for all pieces.
"""

import faulthandler
import gc
import os
import pickle
import resource
import select
import signal
import struct
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn, TypeVar

Result = TypeVar("Result")

IDLE_SECONDS = 2.0
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OWN_ENDS = (signal.SIGABRT, signal.SIGSEGV, signal.SIGILL, signal.SIGBUS, signal.SIGFPE,
            signal.SIGTRAP)
"""Signals that a process gets for what it does."""

ERRORS = 2                      # descriptor of standard error
LENGTH = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class _Child:
    """A child: where its work goes, and where answers come from."""

    number: int
    work: int
    answers: int

    def status(self) -> int:
        """The way in which it ended. It takes no more work."""
        os.close(self.work)
        os.close(self.answers)
        return os.waitpid(self.number, 0)[1]


_child: _Child | None = None


def apart(function: Callable[..., Result], *args: object) -> Result | None:
    """The result of a module's function, called in a child; None if that ended itself before. An
    exception of the function is raised here, ChildProcessError where somebody killed the child. One
    thread calls at a time, and none holds locks that the function takes.
    """
    global _child
    request = pickle.dumps((function, args))
    while True:
        child = _child = _child or _begun()
        try:
            answer = _asked(child, request)
        except BaseException:
            os.kill(child.number, signal.SIGKILL)
            child.status()
            _child = None
            raise
        if answer is not None:
            break
        _child = None
        status = child.status()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) not in OWN_ENDS:
            raise ChildProcessError(signal.Signals(os.WTERMSIG(status)).name)
        if status:                          # else it had had no work for too long
            return None
    result = pickle.loads(answer)
    if isinstance(result, Exception):
        raise result
    return result


def _asked(child: _Child, request: bytes) -> bytes | None:
    try:
        _write(child.work, request)
    except BrokenPipeError:
        return None
    return _read(child.answers)


def _begun() -> _Child:
    """A new child, which no signal meets before it is ready."""
    (taken, work), (answers, given) = os.pipe(), os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        with warnings.catch_warnings():     # of threads, whose locks the child never takes
            warnings.simplefilter("ignore", DeprecationWarning)
            number = os.fork()
        if number == 0:
            _serve(taken, given)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(taken)
    os.close(given)
    return _Child(number, work, answers)


def _forget() -> None:
    """The child of a parent is none of a fork of that parent."""
    global _child
    if _child is not None:
        os.close(_child.work)
        os.close(_child.answers)
        _child = None


os.register_at_fork(after_in_child=_forget)


# In the child


def _serve(taken: int, given: int) -> NoReturn:
    """Takes work until there is none; silent, and without a core where it is ended."""
    try:
        for number in ENDS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()
        gc.disable()
        _close_all_but(taken, given)
        waiting = select.poll()
        waiting.register(taken)
        while waiting.poll(IDLE_SECONDS * 1000):
            request = _read(taken)
            if request is None:
                break
            _write(given, pickle.dumps(_called(*pickle.loads(request))))
        os._exit(0)
    finally:
        os._exit(1)


def _called(function: Callable[..., object], args: tuple) -> object:
    try:
        return function(*args)
    except Exception as error:          # noqa: BLE001 - raised again by who asked
        return error


def _close_all_but(*kept: int) -> None:
    """Files of the parent would stay open as long as the child has them, ports among them."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(ERRORS + 1):
        os.dup2(nowhere, number)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > ERRORS and number not in kept:
            with suppress(OSError):                     # that of the list is closed already
                os.close(number)


# Pipes


def _write(pipe: int, message: bytes) -> None:
    rest = memoryview(LENGTH.pack(len(message)) + message)
    while rest:
        rest = rest[os.write(pipe, rest):]


def _read(pipe: int) -> bytes | None:
    """A message; None where nobody writes any more."""
    head = _exactly(pipe, LENGTH.size)
    return head and _exactly(pipe, *LENGTH.unpack(head))


def _exactly(pipe: int, count: int) -> bytes | None:
    parts = []
    while count and (part := os.read(pipe, min(count, 1 << 20))):
        parts.append(part)
        count -= len(part)
    return None if count else b"".join(parts)
