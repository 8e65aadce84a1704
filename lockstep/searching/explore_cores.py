"""Builds the cores of an exploration's front by yosys and nextpnr, and shows what they make."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from accel.estimates.area import area
from lockstep.printing.table import show_columns
from lockstep.printing.lines import say
from runtime.exploring.answers import label_of
from runtime.exploring.cores import BuiltCore
from runtime.exploring.exploration import Exploration
from runtime.exploring.points import ExploredPoint
from runtime.tuning.children import Children

LIMIT_SECONDS = 86_400.0        # of a core; the largest take nextpnr an hour
RATES = 4.0, 25.0               # seconds for a thousand LUTs: of yosys, and with nextpnr

FIGURES = ("luts", "registers", "multipliers", "block_rams", "mhz")


def require_tools(routed: bool) -> None:
    """Raises BuildError, which says what to install, where a tool is missing."""
    from fpga.building.tools import Tools

    Tools("yosys", "nextpnr") if routed else Tools("yosys")


class TimeLeft:
    """Estimates how long cores take, by their LUTs in thousands and by those that are done."""

    def __init__(self, sizes: Sequence[float], jobs: int, rate: float):
        self.left, self.jobs, self.rate = list(sizes), jobs, rate
        self._size = self._seconds = 0.0

    def done(self, size: float, seconds: float) -> None:
        """Counts a core as done, after these seconds of tools; one that was in the cache, 0, says
        nothing of others.
        """
        self.left.remove(size)
        if seconds:
            self._size, self._seconds = self._size + size, self._seconds + seconds
            self.rate = self._seconds / self._size

    def seconds(self, passed: float) -> float:
        """Until all are done, where so many seconds have passed since they were begun."""
        whole = max((self._size + sum(self.left)) / self.jobs, max(self.left, default=0.0))
        return max(self.rate * whole - passed, 1.0)

    def text(self, passed: float = 0.0) -> str:
        seconds = self.seconds(passed)
        return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def build_cores(exploration: Exploration, routed: bool, jobs: int) -> None:
    """Builds each core of the front once, so many at a time, the largest first. What is built stays
    in the cache; a line on standard error tells of each.
    """
    from fpga.building.core_trials import CoreTrial

    points: dict[str, ExploredPoint] = {}
    for identity in exploration.front():
        point = exploration.measured[identity][0]
        points.setdefault(point.machine.hash, point)
    sizes = {name: area(point.machine).luts.value / 1e3 for name, point in points.items()}
    order = sorted(points, key=lambda name: -sizes[name])
    trials = [CoreTrial(label_of(exploration.space.differences(points[name])), points[name].toml,
                        points[name].sources, name, routed) for name in order]
    left = TimeLeft([sizes[name] for name in order], min(jobs, len(trials)), RATES[routed])
    console, begin = Console(stderr=True), time.monotonic()

    def passed() -> float:
        return time.monotonic() - begin

    def tell(what: str) -> None:
        console.print(f"{passed():6.0f} s  {what}", highlight=False, markup=False, soft_wrap=True)

    what = "yosys and nextpnr" if routed else "yosys"
    tell(f"{what} for {len(trials)} core{'s' * (len(trials) > 1)}, {left.jobs} at a time: about "
         f"{left.text()}")
    with Children(left.jobs, LIMIT_SECONDS, ("fpga.building.core_trials",)) as children:
        for number, (trial, result) in enumerate(children.results(iter(trials)), 1):
            core = BuiltCore.of(result)
            exploration.built[trial.machine_hash] = core
            left.done(sizes[trial.machine_hash], result.value or 0.0)
            rest = f", about {left.text(passed())} left" if left.left else ""
            tell(f"{number} of {len(trials)}{rest}: {trial.name}: {_told(core)}")


def _told(core: BuiltCore) -> str:
    luts = f"{core.figures['luts']:,} LUTs" if core.figures else ""
    mhz = f"{core.figures['mhz']:g} MHz on {core.device}" if core.device else ""
    return ", ".join(filter(None, (luts, mhz, core.error)))


def show_cores(answer: Mapping[str, Any]) -> None:
    """The table of built cores; none where none were."""
    points = [answer["points"][number] for number in answer["front"]]
    built = [point for point in points if point["built"] and point["built"]["figures"]]
    if built:
        tools = max((point["built"]["tools"] for point in built), key=len)
        names = [name for name in FIGURES
                 if any(name in point["built"]["figures"] for point in built)]
        placed = any(point["built"]["device"] for point in built)
        show_columns(
            f"{len(built)} of these by {', '.join(tools)}; in parentheses how far the estimate is "
            f"off", ["machine", *names, *(["FPGA"] if placed else [])],
            [[point["label"], *(_figure(point["built"], name) for name in names),
              *([point["built"]["device"]] if placed else [])] for point in built])
    for point in points:
        if point["built"] and point["built"]["error"]:
            say(f"not built: {point['label']}: {point['built']['error']}")


def _figure(built: Mapping[str, Any], name: str) -> str:
    if name not in built["figures"]:
        return "-"
    off = built["off"][name]
    return f"{built['figures'][name]:,}" + (f" ({off:+.1%})" if off else "")
