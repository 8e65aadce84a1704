"""Shows the progress of long work on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from runtime import simulator

PATIENCE_SECONDS = 2.0
INTERVAL_SECONDS = 0.2


@contextmanager
def progress_bar(description: str, total: int, done: Callable[[], int],
                 console: Console | None = None, told: Callable[[], str] = str) -> Iterator[None]:
    """Shows a bar on standard error once the body takes longer than `PATIENCE_SECONDS`, and removes
    it at the end. Another thread calls `done` for the share of `total` that is done; a total of 0
    means unknown. `told` says what stands behind the description by then.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(),
               TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(description, total=total or None)
    over = Event()

    def show() -> None:
        if over.wait(PATIENCE_SECONDS):
            return
        with progress:
            while not over.wait(INTERVAL_SECONDS):
                progress.update(task, completed=done(), description=f"{description}{told()}")

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def watching(model: str):
    """Progress bars for `compiler.quantize.quantize`."""
    @contextmanager
    def watch(stage: str, steps: int) -> Iterator[Callable[[int], None]]:
        done: list[int] = []
        with progress_bar(f"{model}: {stage}", steps, lambda: sum(done)):
            yield done.append

    return watch


class Watched:
    """A simulator whose progress and recordings others can read. `events` belong to the running
    program, `done` counts the instructions of earlier ones, `recordings` has the programs with
    their runs, a failed one included.
    """

    def __init__(self, name: str, options: dict[str, Any]):
        self.name, self.options = name, options
        self.events: np.ndarray | None = None
        self.done = 0
        self.recordings: list[tuple[AccelProgram, Run]] = []

    def __call__(self, machine: Machine, program: AccelProgram, memory: np.ndarray) -> Run:
        events = {}
        if self.name != "functional":
            self.events = events["events"] = np.full((2, program.count), -1, np.int64)
        run = simulator(self.name, **self.options, **events)(machine, program, memory)
        self.events, self.done = None, self.done + program.count
        self.recordings.append((program, run))
        return run

    def retired(self) -> int:
        """The number of instructions that have retired so far."""
        events = self.events
        return self.done + (0 if events is None else int((events[1] >= 0).sum()))
