"""The cache: entries under the hash of all that they were made from.

It lies in ``$LOCKSTEP_CACHE``, else ``$XDG_CACHE_HOME/lockstep``, else ``~/.cache/lockstep``.

An entry is a folder ``KIND/KEY``. It is built apart, under a lock, and appears whole: processes
that want it at once are safe. With it lie the hashes of its files. Nothing of an entry is used
before they are found to be right, and what is not right is built again. What was being built when
a process was killed goes when the next one looks into the cache.

Entries are executed. So they count only where they, and the folders that they lie in, belong to
this user or to root, and nobody else may write them. Nobody else may put another cache in place
of it either: links on the way to it belong to this user or to root, and no folder above it is one
that anybody may write, unless it is sticky, as /tmp is. Where that is not so, or where this user
may not write, an entry is kept in this user's own cache, else in a folder of this user beside other
temporary files; a line says so.
"""

import errno
import fcntl
import hashlib
import json
import logging
import os
import pwd
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from .errors import Error
from .processes import remove, remove_at_end, undisturbed

RESULTS = ("networks", "quantized", "tilings")
"""Kinds of entries that commands have computed; the others are built from sources alone."""

FRESH = "LOCKSTEP_RESULTS"
"""The variable that names another folder for results, where they are to be computed again."""

HASHES = "hashes.json"
BUILDS = "builds"               # folder of what is being built
TEXT = "text"                   # file of a note
OTHERS = stat.S_IWGRP | stat.S_IWOTH
REMEDY = "LOCKSTEP_CACHE may name a folder of this user's"

_log = logging.getLogger(__name__)


class BuildError(Error):
    """Native code could not be built; the message says which tool failed, and how."""


class CacheError(BuildError, OSError):
    """The cache cannot be written. What can be done without one is."""


class _Passed(Error):
    """A place or an entry that is not taken: the reason."""


def cache_folder() -> Path:
    """The folder where entries are kept, unless it is passed over."""
    if chosen := os.environ.get("LOCKSTEP_CACHE"):
        return Path(chosen).absolute()
    return _own_folder()


def _own_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser() / ".cache"
    return Path(base).absolute() / "lockstep"


def in_the_way(place: Path) -> str | None:
    """Why there can be no cache: a part of its path is no folder."""
    existing = _existing(place)
    return None if existing.is_dir() else f"Cache {place} must be a folder, but {existing} is none"


def _existing(path: Path) -> Path:
    """The longest part of a path that is there; a link may lead nowhere."""
    return next(part for part in (path, *path.parents) if os.path.lexists(part))


def _places(kind: str) -> Iterator[Path]:
    """The folders where entries of a kind may be, the best place first."""
    if kind in RESULTS and (fresh := os.environ.get(FRESH)):
        yield Path(fresh).absolute()
        return
    yield (first := cache_folder())
    if (own := _own_folder()) != first:
        yield own
    yield Path(tempfile.gettempdir()).absolute() / f"lockstep-{os.geteuid()}"


def find(kind: str, key: str) -> Path | None:
    """The folder of an entry whose files are right; None if there is none."""
    try:
        place, is_right = _place(kind, key[:32])
    except CacheError:
        return None
    return place / kind / key[:32] if is_right else None


def build_once(kind: str, key: str, what: str | None, build: Callable[[Path], None],
               takes: str = "up to a minute") -> Path:
    """The folder of `key` in the cache; `build` fills it, in another place, if it is not there.

    `what`, and how long it `takes`, are shown on a terminal while it is being built; without it,
    nothing is. Raises CacheError if it cannot be kept.
    """
    place, is_right = _place(kind, key[:32])
    folder = place / kind / key[:32]
    if is_right:
        return folder
    with _apart(place, folder) as scratch:
        if not _is_right(folder):               # else another process has built it meanwhile
            with _spinner(what and f"Building {what} (once; {takes})"):
                _make(folder, scratch, build)
    return folder


def note(kind: str, key: str, text: str) -> None:
    """Keep a small text, in place of the last one. Raises CacheError if it cannot be kept."""
    def write(folder: Path) -> None:
        (folder / TEXT).write_text(text)

    place, _ = _place(kind, key[:32])
    folder = place / kind / key[:32]
    with _apart(place, folder) as scratch:
        _make(folder, scratch, write)


def noted(kind: str, key: str) -> str | None:
    """The text that `note` kept; None if there is nothing, or nothing right."""
    folder = find(kind, key)
    try:
        return (folder / TEXT).read_text() if folder else None
    except OSError:                             # it was removed just now
        return None


# ---- places ------------------------------------------------------------------------------------

def _place(kind: str, name: str) -> tuple[Path, bool]:
    """The folder of an entry, or where to build it; and whether it is there and right."""
    reasons: list[str] = []
    for place in _places(kind):
        try:
            entry = place, _has(place, kind, name)
        except _Passed as reason:
            reasons.append(str(reason))
        else:
            if reasons:
                _say(f"{reasons[0]}; {place} is used")
            return entry
    raise CacheError("; ".join([*reasons, REMEDY]))


def _has(place: Path, kind: str, name: str) -> bool:
    """True if the entry is there, and right; if not, it can be built there."""
    _require_folders(place, kind)
    _tidy(place)
    if _is_right(place / kind / name):
        return True
    if reason := in_the_way(place) or in_the_way(place / kind):
        raise _Passed(reason)
    if not os.access(_existing(place / kind), os.W_OK | os.X_OK):
        raise _Passed(f"Cache {place} cannot be written by this user")
    return False


def _require_folders(place: Path, kind: str) -> None:
    """Raise _Passed unless the folders of a place are this user's, and stay so."""
    for folder in (place, place / kind, place / BUILDS):
        _require_trust(folder, f"Cache {folder}")
        if folder == place or folder.is_symlink():      # else the way to it was looked at
            for step in _steps(str(_existing(folder))):
                _require_lasting(step, folder)


def _steps(path: str) -> Iterator[str]:
    """All files that are looked up on the way to one: folders, and links with the ways to where
    they lead.
    """
    above, name = os.path.split(path)
    if name:
        yield from _steps(above)
    yield path
    if os.path.islink(path):
        yield from _steps(os.path.join(above, os.readlink(path)))


def _require_lasting(step: str, folder: Path) -> None:
    """Raise _Passed where somebody else may put another file in place of the next step."""
    try:
        status = os.lstat(step)
    except (FileNotFoundError, NotADirectoryError):     # a link leads nowhere
        return
    if stat.S_ISLNK(status.st_mode):
        if status.st_uid not in (0, os.geteuid()):
            raise _Passed(f"Cache {folder} lies behind {step}, a link of another user, "
                          f"{_user(status.st_uid)}")
    elif stat.S_ISDIR(status.st_mode) and (
            status.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH):
        raise _Passed(f"Cache {folder} lies in {step}, where anybody may put another one "
                      f"(chmod o-w)")


def _require_trust(path: Path | str, what: str, is_entry: bool = False) -> os.stat_result | None:
    """Raise _Passed unless it belongs to this user or root, and nobody else may write it. An entry
    may be no link.
    """
    try:
        status = os.lstat(path) if is_entry else os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _Passed(f"{what} cannot be read ({error.strerror})") from None
    if status.st_uid not in (0, os.geteuid()):
        raise _Passed(f"{what} belongs to another user, {_user(status.st_uid)}")
    if status.st_mode & OTHERS and not stat.S_ISLNK(status.st_mode):
        raise _Passed(f"{what} can be written by other users (chmod go-w)")
    return status


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@cache
def _say(line: str) -> None:
    """Logs a message once in this process."""
    _log.warning("%s", line)


# ---- entries -----------------------------------------------------------------------------------

def _is_right(folder: Path) -> bool:
    """True if an entry is there, with the files that were built. Raises _Passed where it must not
    be executed.
    """
    known = _require_trust(folder, f"Entry {folder} of the cache", is_entry=True)
    if known is None:
        return False
    try:
        hashes = _hashes(folder) if stat.S_ISDIR(known.st_mode) else {HASHES: ""}
        if HASHES not in hashes:                 # an older Lockstep wrote none
            return False
        if hashes.pop(HASHES) and json.loads((folder / HASHES).read_bytes()) == hashes:
            return True
    except (ValueError, RecursionError):
        pass
    except FileNotFoundError:                   # it was removed just now
        return False
    except OSError as error:
        raise _Passed(f"Entry {folder} of the cache cannot be read ({error.strerror})") from None
    _say(f"The cache has a damaged entry, which is made again: {folder}")
    return False


def _hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file, by its path in there; what is no file has the hash ``""``."""
    hashes: dict[str, str] = {}
    for path, known in _within(str(folder)):
        hashes[path[len(str(folder)) + 1:]] = _hash(path) if stat.S_ISREG(known.st_mode) else ""
    return hashes


def _within(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """All files below a folder: whatever is no folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            known = _require_trust(entry.path, f"File {entry.path} of the cache", is_entry=True)
            if known is None:
                continue                        # it was removed just now
            if stat.S_ISDIR(known.st_mode):
                yield from _within(entry.path)
            else:
                yield entry.path, known


def _hash(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make(folder: Path, scratch: Path, build: Callable[[Path], None]) -> None:
    """Build an entry, and put it where `folder` is to be."""
    fresh = scratch / "made"
    with undisturbed():                 # not after `end` has removed what lies about
        _make_folder(fresh)
    try:
        build(fresh)
        for path in fresh.rglob("*"):
            path.chmod(path.stat().st_mode & ~OTHERS)
        hashes = fresh / HASHES
        hashes.write_text(json.dumps(_hashes(fresh)))
        hashes.chmod(hashes.stat().st_mode & ~OTHERS)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CacheError(f"Cache {folder.parents[1]} must be where there is room "
                             f"({error.strerror})") from None
        raise
    with suppress(FileNotFoundError):
        folder.rename(scratch / "before")
    fresh.rename(folder)


@contextmanager
def _apart(place: Path, folder: Path) -> Iterator[Path]:
    """A folder for what becomes `folder`; whoever else wants to make it waits."""
    scratch = place / BUILDS / f"build-{folder.parent.name}-{folder.name}"
    with ExitStack() as stack:
        try:
            for parent in (folder.parent, scratch.parent):
                _make_folder(parent)
            _require_folders(place, folder.parent.name)     # somebody else may have been faster
            stack.enter_context(_held(scratch.with_name(f"{scratch.name}.lock")))
        except _Passed as reason:
            raise CacheError(f"{reason}; {REMEDY}") from None
        except OSError as error:
            raise CacheError(f"Cache {place} must be a folder that can be written "
                             f"({error.strerror}); LOCKSTEP_CACHE may name another one") from None
        with remove_at_end(scratch):
            try:
                remove(scratch)
                with undisturbed():
                    _make_folder(scratch)
                yield scratch
            finally:
                remove(scratch)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """A lock file, which goes with the body, or when a signal ends this process."""
    with ExitStack() as stack:
        file = None
        while file is None:
            with undisturbed():
                file = _locked(path)
                if file is not None:
                    stack.enter_context(remove_at_end(path))
            if file is None:
                _wait_for(path)
        try:
            yield
        finally:
            remove(path)                        # while it is held: see `_locked`
            os.close(file)


def _locked(path: Path) -> int | None:
    """A lock file of this name, held until it is closed; None where somebody else holds it, or has
    just removed it.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_file(path, file):
            return file
    except BlockingIOError:
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def _wait_for(path: Path) -> None:
    """Waits until nobody holds the lock."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def _is_file(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _make_folder(path: Path) -> None:
    """Makes a folder and its parents, which only this user may write, whatever the umask is."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(mode=0o755, exist_ok=True)


@cache
def _tidy(place: Path) -> None:
    """Remove what processes left that were killed, whose locks are free."""
    with suppress(OSError):
        for name in {entry.name.removesuffix(".lock") for entry in (place / BUILDS).iterdir()}:
            lock = place / BUILDS / f"{name}.lock"
            with suppress(OSError):
                held = _locked(lock)
                if held is not None:
                    remove(place / BUILDS / name)
                    remove(lock)
                    os.close(held)


@contextmanager
def _spinner(text: str | None) -> Iterator[None]:
    if not text or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield
