"""Says on standard error how far something is that takes minutes."""

import time
from collections.abc import Callable

from rich.console import Console


def stopwatch() -> Callable[[str], None]:
    """A function that says a line with the seconds since the stopwatch was made."""
    console, begin = Console(stderr=True), time.monotonic()
    return lambda what: console.print(f"{time.monotonic() - begin:6.0f} s  {what}",
                                      highlight=False)
