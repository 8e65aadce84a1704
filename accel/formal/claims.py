"""A claim about hardware, and how it is decided."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from accel.datapath.plan import DatapathPlan
from accel.formal.logic import Answer, Logic, Term

SECONDS = 60.0
"""What a claim may take by default."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that is to hold for all inputs.

    Parameters
    ----------
    name : a sentence: ``requantize of vector is what is declared``.
    instruction : the one that it is about, or "" where it is about a part that all of them share.
    decide : asks the solver, in at most so many seconds; the answer's values are those of the
        inputs, where it is refuted.
    datapath : the plan and the number of the body, of a claim about a datapath.
    """

    name: str
    instruction: str
    decide: Callable[[float], Answer]
    datapath: tuple[DatapathPlan, int] | None = None


def undecided(answer: Answer, seconds: float) -> Answer:
    """The answer; where there is none, its reason is all the time that there was."""
    return answer if answer.proved is not None else replace(
        answer, reason=f"not decided in {seconds:.0f} seconds")


def all_of(logic: Logic, truths: Iterable[Term], given: Sequence[Term], seconds: float) -> Answer:
    """Do all truths hold wherever what is given does? One question each, in so many seconds.

    What is given must be possible: else nothing would be said."""
    begin, given = time.monotonic(), tuple(given)
    if not logic.possible(given, seconds):
        raise AssertionError("what a claim begins with is impossible")
    for truth in truths:
        answer = logic.decide(truth, given, max(seconds - (time.monotonic() - begin), 0.001))
        if not answer.proved:
            return undecided(replace(answer, seconds=time.monotonic() - begin), seconds)
    return Answer(True, time.monotonic() - begin)
