"""Folders of pools among temporary files. A process that is killed leaves its own; the next pool
removes it.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from compiler.processes import remove, remove_at_end

PREFIX = "lockstep-pool-"
LOCK, UNLOCKED = "lock", "lock.new"


@contextmanager
def pool_folder() -> Iterator[Path]:
    """A folder while the body runs. Those of processes that have gone are removed before."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_left(folder):
            remove(folder)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(
            prefix=PREFIX, ignore_cleanup_errors=True)))
        stack.enter_context(remove_at_end(folder))
        lock = stack.enter_context((folder / UNLOCKED).open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / UNLOCKED).rename(folder / LOCK)       # so nobody sees one that is not held
        yield folder


def _is_left(folder: Path) -> bool:
    """True if nobody holds the folder's lock.

    A folder without a lock is just being made. Those of other users are theirs, whatever they have
    put there.
    """
    with suppress(OSError):
        if folder.lstat().st_uid != os.geteuid():
            return False
    with suppress(OSError), (folder / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
