"""Memory of processes that tests start."""

import re
from pathlib import Path

__all__ = ["peak_bytes"]


def peak_bytes() -> int:
    """The most that this program had in memory. What `getrusage` says holds for the process, with
    the program that it was before.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10
