"""Files that are whole or not there: how Lockstep writes every file of its own.

The exceptions are files in folders that nobody else sees, such as those that
`compiler.native.build_once` fills, and files that tools write.
"""

import errno
import fcntl
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from compiler.errors import ArgumentError, Error, RequestError
from compiler.processes import remove_at_end

LINKS = 40          # as many as Linux follows
NEW_MODE = 0o666    # before the umask
SCRATCH = ".lockstep-"


class FileError(RequestError, OSError):
    """A file that cannot be written: which, and why."""

    def __init__(self, path: str | os.PathLike[str], error: OSError | ValueError):
        super().__init__(f"{os.fspath(path)!r} cannot be written: "
                         f"{getattr(error, 'strerror', None) or error}")
        self.errno = getattr(error, "errno", None)


class FileInProgress:
    """A binary file, `file`, that grows beside `path` until `finish` puts it there, or `abandon`
    removes it; `path` keeps its mode. Several may grow for one path: the last to finish stays.

    If `path` is a symbolic link, the file that it leads to is replaced. What is no regular file,
    such as a device, a pipe, or ``/dev/stdout`` wherever that leads, is written as it is. Raises
    FileError where this cannot begin or end; `file` raises OSError.
    """

    def __init__(self, path: str | os.PathLike[str]):
        if not isinstance(path, str | os.PathLike):
            raise ArgumentError(f"Path must be text or a path, not {path!r}")
        self.path = path
        self._scratch: str | None = None
        self._registered = ExitStack()
        try:
            target, present = _destination(path)
            if isinstance(target, int):
                self.file: IO[bytes] = io.BufferedWriter(_Stream(target, "wb", closefd=False))
            elif present and not stat.S_ISREG(present.st_mode):
                self.file = open(target, "wb")
            else:
                self.file = self._begin(target, present)
                self._target = target
        except (OSError, ValueError) as error:
            raise FileError(path, error) from None

    def _begin(self, target: str, present: os.stat_result | None) -> IO[bytes]:
        if present and not os.access(target, os.W_OK):
            raise _system_error(errno.EACCES)
        _remove_leftovers(os.path.dirname(target))
        scratch = os.path.join(os.path.dirname(target),
                               f"{SCRATCH}{os.getpid()}-{secrets.token_hex(8)}")
        self._registered.enter_context(remove_at_end(Path(scratch)))    # if a signal ends us
        descriptor = _created(scratch)
        self._registered.callback(os.close, os.dup(descriptor))         # held until it is in place
        self._scratch = scratch
        if present:
            os.fchmod(descriptor, present.st_mode & 0o777)
        return open(descriptor, "wb")

    def finish(self, durable: bool = False) -> None:
        """The file is whole: it takes its place; if `durable`, not before the disk has it."""
        try:
            if durable and self._scratch is not None:
                self.file.flush()
                os.fsync(self.file.fileno())
            self.file.close()
            if self._scratch is not None:
                os.replace(self._scratch, self._target)
                self._scratch = None
                self._registered.close()
                if durable:
                    _sync_folder(os.path.dirname(self._target))
        except OSError as error:
            raise FileError(self.path, error) from None

    def abandon(self) -> None:
        """Leave no trace, but of what went to a device; after `finish`, do nothing."""
        with suppress(OSError):         # a full disk, which has been said
            self.file.close()
        if self._scratch is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._scratch)
            self._scratch = None
        self._registered.close()


class _Stream(io.FileIO):
    """A file that others write to as well, so that nobody may go back in it."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation("tell")

    def seek(self, position: int, whence: int = 0, /) -> int:
        raise io.UnsupportedOperation("seek")


@contextmanager
def whole_file(path: str | os.PathLike[str], durable: bool = False) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the body is through, and otherwise leaves
    no trace: see `FileInProgress`. One that is `durable` outlasts a loss of power. Raises FileError
    where it cannot be written.
    """
    growing = FileInProgress(path)
    try:
        yield growing.file
        growing.finish(durable)
    except Error:
        raise
    except OSError as error:
        raise FileError(path, error) from None
    finally:
        growing.abandon()


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """As `whole_file`."""
    with whole_file(path) as file:
        file.write(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """As `whole_file`, in UTF-8; names of files may be in it that are not."""
    write_bytes(path, text.encode(errors="surrogateescape"))


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise FileError where `whole_file` could not begin; `path` stays as it is."""
    if not is_stream(path):             # opening it might already say something to somebody
        FileInProgress(path).abandon()


def is_stream(path: str | os.PathLike[str]) -> bool:
    """True if `whole_file` writes to what is there, and does not replace it. Raises FileError where
    it cannot begin.
    """
    try:
        target, present = _destination(path)
    except (OSError, ValueError) as error:
        raise FileError(path, error) from None
    return isinstance(target, int) or bool(present and not stat.S_ISREG(present.st_mode))


def _sync_folder(folder: str) -> None:
    """The disk has the names in there, too."""
    descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _destination(path: str | os.PathLike[str]) -> tuple[str | int, os.stat_result | None]:
    """The end of links from here, and what is there; no folder. If they lead to a descriptor of
    this process, its number.

    ``/dev/stdout`` may lead to a file of which the shell holds a descriptor: only through this one
    does what is written stand in its order.
    """
    own, place = f"/proc/{os.getpid()}/fd", os.fspath(path)
    for _ in range(LINKS):
        folder, name = os.path.split(place)
        folder = os.path.realpath(folder)
        if folder == own and name.isdecimal():
            return int(name), os.fstat(int(name))
        place = os.path.join(folder, name)
        if not os.path.islink(place):
            return place, _present(place)
        place = os.path.join(folder, os.readlink(place))
    raise _system_error(errno.ELOOP)


def _created(path: str) -> int:
    """A new file, locked while anybody has it open: see `_remove_leftovers`. Where there are no
    locks, leftovers stay.
    """
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, NEW_MODE)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)            # somebody took it for a leftover just before


def _remove_leftovers(folder: str) -> None:
    """Remove what killed processes were writing in there: its lock is free."""
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if entry.name.startswith(SCRATCH):
                _remove_if_free(entry.path)


def _remove_if_free(path: str) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(descriptor)


def _present(path: str) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise _system_error(errno.EISDIR)
    return status


def _system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
