"""How far something is, on a terminal, if it takes long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

__all__ = ["progress_bar"]

PATIENCE_SECONDS = 2.0
INTERVAL_SECONDS = 0.2


@contextmanager
def progress_bar(description: str, total: int, done: Callable[[], int],
                 console: Console | None = None) -> Iterator[None]:
    """Show a bar on standard error while the body takes longer than `PATIENCE_SECONDS`, and
    remove it at the end. `done` is asked from another thread how much of `total` there is; with
    a total of 0 nobody knows.
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
                progress.update(task, completed=done())

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
