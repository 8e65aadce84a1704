"""The bar of what takes long."""

import io
from threading import Event

import pytest
from rich.console import Console

from lockstep.commands import _progress
from lockstep.commands._progress import progress_bar


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_it_shows_how_far_a_long_thing_is(monkeypatch) -> None:
    monkeypatch.setattr(_progress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(_progress, "INTERVAL_SECONDS", 0.01)
    console, asked, drawn = terminal(), [], Event()

    def done() -> int:
        asked.append(1)
        if len(asked) > 1 and "50%" in shown(console):
            drawn.set()
        return 30

    with progress_bar("net [x]", 60, done, console):
        assert drawn.wait(20)
    assert "net [x]" in shown(console)


def test_it_does_not_show_for_a_short_thing() -> None:
    console = terminal()
    with progress_bar("net", 60, lambda: 0, console):
        pass
    assert shown(console) == ""


def test_it_does_not_show_where_nobody_looks(monkeypatch) -> None:
    monkeypatch.setattr(_progress, "PATIENCE_SECONDS", 0.0)
    console = Console(file=io.StringIO())
    with progress_bar("net", 60, lambda: pytest.fail("asked"), console):
        pass
    assert shown(console) == ""
