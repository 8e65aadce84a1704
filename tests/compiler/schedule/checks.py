"""How the tests of primitives compare programs and refusals."""

from collections.abc import Callable
from textwrap import dedent

import pytest

from compiler.ir import Program, program_text, verify
from compiler.schedule import ScheduleError

__all__ = ["expect", "refused"]


def expect(program: Program, text: str) -> None:
    """The program is well formed and has this text."""
    assert program_text(verify(program)) == dedent(text).removeprefix("\n")


def refused(step: Callable[[], Program], message: str) -> None:
    """The step is refused with exactly this message."""
    with pytest.raises(ScheduleError) as caught:
        step()
    assert str(caught.value) == dedent(message).removeprefix("\n")
