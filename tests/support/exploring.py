"""A made-up network of which machines compute the time by a formula, without simulation."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from accel.machine.loading import load_machine
from accel.machine.config import AccelConfig
from compiler.tune.records import Records
from compiler.tune.space import Result
from runtime.exploring import Exploration, MachineSpace, PointTrial, axis_of, objectives_of
from runtime.exploring.networks import ExploredNetwork
from runtime.exploring.point_trials import PointFigures
from runtime.exploring.points import ExploredPoint

BASE = "tiny-1x4x4"
NETWORK = ExploredNetwork("made-up", Path("made-up.onnx"), "0" * 64)


def space(*varied: str, base: str = BASE, **options) -> MachineSpace:
    return MachineSpace(load_machine(base), base, [axis_of(text) for text in varied], **options)


def exploration(records: Records, *varied: str, objectives: str = "cycles,bytes", **options
                ) -> Exploration:
    return Exploration(space(*varied), [NETWORK], objectives_of(objectives.split(",")), records,
                       **options)


class Killed(Exception):
    """The end of a process that explores."""


class MadeUp:
    """Runs trials by the formula. `seen` has those that were run, `fails` says which fail, `lost`
    how many get lost at first. It is killed after so many results.
    """

    def __init__(self, fails=lambda config: False, lost: int = 0, results: int | None = None):
        self.seen: list[PointTrial] = []
        self.fails, self.lost, self.results = fails, lost, results

    def __call__(self, trials: Iterator[PointTrial]) -> Iterable[tuple[PointTrial, Result]]:
        several = [*trials]
        self.seen += several
        for trial in reversed(several):         # results may come in any order
            if self.results == 0:
                raise Killed
            if self.results is not None:
                self.results -= 1
            if self.lost:
                self.lost -= 1
                yield trial, Result(None, "s", "its process crashed by signal 9")
                continue
            config = AccelConfig(**tomllib.loads(trial.toml))
            if self.fails(config):
                yield trial, Result(None, "cycles", "it cannot be")
                continue
            cycles = time_of(config) * (10 - trial.effort) // 10
            bound = "gemm" if config.block_out < 16 else "load"
            figures = PointFigures(100, 10, 0, (("layer", cycles, 1, 10, bound),),
                                   compared=int(trial.values))
            yield trial, Result(float(cycles), "cycles", details=figures.text)


def point_of(space: MachineSpace, choices: Mapping[str, str]) -> ExploredPoint:
    """A point that is not refused."""
    found = space.point(choices)
    assert not isinstance(found, str), found
    return found


def time_of(config: AccelConfig) -> int:
    """Time that falls with the array and the bus until one bounds the other."""
    products = 200_000 // config.macs_per_cycle
    moved = 40_000 // config.bus_bytes * (1 + 4096 / config.wgt_bytes)
    return int(max(products, moved) + 0.2 * min(products, moved) + 30 * config.memory.latency)
