"""Measures the time of code on this computer once, and keeps it. A time is processor time, the
least of several samples. The cache of `compiler.native` keeps it by the code's key and the
processor, so that it is the same the next time. A kept time includes the wall-clock time; where
that is much longer, other work interfered, and the next process measures anew.
"""

import json
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Literal

from compiler.native import digest, note, noted, processor

KIND = "times"                      # of entries of the cache


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of one call, with the figures that tell whether to trust it.

    Parameters
    ----------
    seconds : processor time of the thread that calls, the least of several samples. Where a kernel
      has several threads, the others compute at the same time, so they add nothing. wall_seconds :
      wall-clock time of that sample. samples : the number of samples.
    """

    seconds: float
    wall_seconds: float
    samples: int

    @property
    def is_quiet(self) -> bool:
        """True if the thread had a processor almost all the time, undisturbed by other work."""
        return 0 < self.seconds < float("inf") and self.wall_seconds <= _QUIET * self.seconds


@dataclass(frozen=True, slots=True)
class Spread:
    """Wall-clock times of calls, in seconds a call: the median and the quartiles around it.

    Parameters
    ----------
    runs : the number of samples. calls : in each of them; above 1 where one call is too short for
      the clock.
    """

    median: float
    lower_quartile: float
    upper_quartile: float
    runs: int
    calls: int

    def __str__(self) -> str:
        low, middle, high = (f"{1e3 * seconds:.4g}" for seconds in
                             (self.lower_quartile, self.median, self.upper_quartile))
        return f"{middle} ms (quartiles {low} and {high}, {self.runs} runs)"


_SAMPLES, _MOST_SAMPLES = 5, 200
_ENOUGH_SECONDS, _MOST_SECONDS = 0.05, 0.5      # of all samples: quiet ones, and others
_SAMPLE_SECONDS = 50e-6             # a call that is shorter is repeated within a sample
_TICKS = 100                        # the least wall-clock time of a sample
_QUIET = 1.25
_known: dict[str, float] = {}

Clock = Literal["thread_time", "perf_counter"]
"""A clock of the module `time`: what this thread computes, or all that passes."""


def measured(key: str, run: Callable[[], object]) -> float:
    """The seconds of one `run`, or those kept for this key and processor. A time that other work
    disturbed is valid for this process alone: the next one measures anew.
    """
    entry = _entry(key)
    if entry not in _known:
        kept = _kept(entry)
        if kept is None:
            kept = timed(run)
            with suppress(OSError):         # without a cache it is measured again
                note(KIND, entry, json.dumps(asdict(kept)))
        _known[entry] = kept.seconds
    return _known[entry]


def known(key: str) -> float | None:
    """The kept time that `measured` would return; None where it would measure."""
    entry = _entry(key)
    if entry in _known:
        return _known[entry]
    kept = _kept(entry)
    return None if kept is None else kept.seconds


def _entry(key: str) -> str:
    return digest(["host times", key, processor()])


def timed(run: Callable[[], object], clock: Clock = "thread_time", samples: int = _SAMPLES
          ) -> Timing:
    """The quickest of several samples, at least so many; takes more for a while if none is quiet.
    Nothing is kept. The clock is "perf_counter" for what this thread does not compute itself.
    """
    run()                                   # code and data come into the caches
    calls = _calls(run, clock)
    taken: list[tuple[float, float]] = []
    while _wants_more(taken, samples):
        taken.append(_sample(run, calls, clock))
    seconds, wall = min(taken)
    return Timing(seconds / calls, wall / calls, len(taken))


def spread(run: Callable[[], object], runs: int) -> Spread:
    """Times `runs` samples, after calls that warm up. Nothing is kept."""
    run()
    calls = _calls(run, "perf_counter")
    walls = [_sample(run, calls, "perf_counter")[1] / calls for _ in range(runs)]
    low, median, high = (statistics.quantiles(walls, n=4, method="inclusive") if runs > 1
                         else walls * 3)
    return Spread(median, low, high, runs, calls)


def _wants_more(taken: list[tuple[float, float]], samples: int) -> bool:
    count, spent = len(taken), sum(wall for _, wall in taken)
    if count < samples:
        return True
    seconds, wall = min(taken)
    enough = _ENOUGH_SECONDS if Timing(seconds, wall, count).is_quiet else _MOST_SECONDS
    return count < _MOST_SAMPLES and spent < enough


def _calls(run: Callable[[], object], clock: Clock) -> int:
    """The calls in a sample: enough to make it long compared with a tick of the clock."""
    least = max(_SAMPLE_SECONDS, _TICKS * time.get_clock_info(clock).resolution)
    calls = 1
    while (wall := _sample(run, calls, clock)[1]) < least:
        calls = max(2 * calls, int(calls * least / wall) + 1 if wall > 0 else 0)
    return calls


def _sample(run: Callable[[], object], calls: int, clock: Clock) -> tuple[float, float]:
    """The time by the clock and the wall-clock time of this many calls."""
    now: Callable[[], float] = getattr(time, clock)
    wall, begin = time.perf_counter(), now()
    for _ in range(calls):
        run()
    return now() - begin, time.perf_counter() - wall


def _kept(entry: str) -> Timing | None:
    """The kept time if it was quiet; None for others and for entries that cannot be judged."""
    try:
        kept = Timing(**json.loads(noted(KIND, entry) or ""))
        return kept if kept.is_quiet else None
    except (ValueError, TypeError):
        return None
