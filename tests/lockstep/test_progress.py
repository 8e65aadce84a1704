"""The bar of what takes long."""

import io
from threading import Event

import numpy as np
import pytest
from rich.console import Console

from accel.machine.program import AccelProgram, finish
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from lockstep.printing import progress as _progress
from lockstep.printing.progress import Watched, progress_bar
from tests.support.machines import TINY


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


@pytest.mark.parametrize("module", [cycle, verilated])
def test_events_are_filled_where_others_can_see_them(module) -> None:
    program = AccelProgram.assemble(TINY, [finish()])
    events = np.full((2, 1), -1, np.int64)
    run = module.simulate(TINY, program, events=events)
    assert run.start.tolist() == events[0].tolist() and run.retire.tolist() == events[1].tolist()
    assert (events >= 0).all()


@pytest.mark.parametrize("name", ["functional", "cycle"])
def test_instructions_of_all_programs_are_counted(name: str) -> None:
    program = AccelProgram.assemble(TINY, [finish()])
    watched = Watched(name, {})
    for count in (1, 2):
        assert watched(TINY, program, program.image()).ok
        assert watched.retired() == count


def test_a_program_that_runs_is_counted_as_it_retires() -> None:
    watched = Watched("cycle", {})
    watched.done, watched.events = 5, np.array([[0, 3, 4], [7, -1, 9]])
    assert watched.retired() == 7
