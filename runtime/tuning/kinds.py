"""Kinds of trials, as texts, with what runs them.

A trial's text is a JSON object. One that begins with the key of a registered kind is run by what
was registered for it, in any process that imports that; others are trials of plans.
"""

from collections.abc import Callable

from compiler.errors import Error
from compiler.tune.space import Result
from runtime.exploring.point_trials import PointTrial, is_point, run_point
from runtime.tuning.trials import SECONDS, Trial, run_trial

RunText = Callable[[str], tuple[float, str]]
"""Gives seconds, and details as text; raises an `Error` where there are none."""

_registered: dict[str, RunText] = {}


def register_kind(begin: str, run: RunText) -> None:
    """Registers what runs the trials whose texts begin like this."""
    _registered[begin] = run


def run_text(text: str) -> Result:
    """Runs a trial of a plan, of a point, or of a registered kind."""
    if is_point(text):
        return run_point(PointTrial.of(text))
    for begin, run in _registered.items():
        if text.startswith(begin):
            return _result(run, text)
    return run_trial(Trial.of(text))


def _result(run: RunText, text: str) -> Result:
    try:
        seconds, details = run(text)
    except Error as error:
        return Result(None, SECONDS, " ".join(str(error).split()))
    return Result(seconds, SECONDS, details=details)
