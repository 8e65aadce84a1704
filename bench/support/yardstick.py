"""A peer for what has none: CPython compiles part of its own standard library, in the same process.

Seconds on one processor say nothing of those on another; how often this fits into them does. Times
that are compared should be of the same run.
"""

import sysconfig
import time
from pathlib import Path

MODULES = ("_pydecimal", "argparse", "asyncio/base_events", "doctest", "inspect", "pickle",
           "tarfile", "typing", "unittest/mock", "zipfile" if (
               Path(sysconfig.get_path("stdlib")) / "zipfile.py").exists() else "zipfile/__init__")
ROUNDS = 5


def yardstick() -> float:
    """Seconds of processor time for compiling these modules once: the best of some rounds."""
    folder = Path(sysconfig.get_path("stdlib"))
    sources = {name: (folder / f"{name}.py").read_text() for name in MODULES}
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for name, text in sources.items():
            compile(text, name, "exec")
        times.append(time.process_time() - begin)
    return min(times)
