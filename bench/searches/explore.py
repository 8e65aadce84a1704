"""Explorations measured: their speed, the fronts that they find, what a new user waits for.

``speed`` measures ``--machines`` machines with three networks, from an empty database, on the cores
that this process may use, and then compares the values of the front with those of the host.
``front`` searches the front of a space of 2,304 machines with a tenth of the evaluations, several
seeds, and compares its hypervolume with that of the whole grid, which is kept in a database
(``--db``) so that it is measured once. ``new`` runs the command that a new user would type, with
``--model``, resnet18.onnx of examples/zoo.py.

All times are wall-clock times; processor time is told beside them, since machines may be shared.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from accel.machine.loading import load_machine
from bench.frame import Bench, Sheet
from bench.inputs.explore_network import write_small_network
from compiler.errors import RequestError
from compiler.tune.records import Records
from compiler.tune.space import Result
from lockstep.compare import networks
from runtime.exploring import (Exploration, MachineSpace, PointTrial, axis_of, hypervolume,
                               objectives_of)
from runtime.exploring.networks import ExploredNetwork
from runtime.exploring.front_search import turned
from runtime.tuning.children import Children, usable_cores

BASE = "pynq-1x16x16"
MACHINES = 200
NETWORKS = ("resnet18", "mobilenet_v1", "keywords")
SPEED_SPACE = ("block_in=8,16,32", "block_out=8,16,32", "bus_bytes=8,16,32",
               "wgt=half,same,double", "acc=half,same,double", "memory.latency=32,64")
FRONT_SPACE = ("block_in=4,8,16,32", "block_out=4,8,16,32", "bus_bytes=4,8,16,32",
               "wgt=eighth,quarter,half,same", "vector_beats=1,2,4", "stage_depth=1,2,4")
OBJECTIVES = ("ms,luts,energy", "cycles,luts", "cycles,bytes")
SHARE = 0.1             # of the grid's evaluations
TABLE = "45nm"
LIMIT_SECONDS = 600.0
Figures = dict[str, float | int | str]

BENCH = Bench(__file__, __doc__)
BENCH.option("--machines", type=int, default=MACHINES, help="of speed")
BENCH.option("--size", type=int, default=224, help="of images of speed")
BENCH.option("--db", type=Path, help="of the values of the grid of front")
BENCH.option("--seeds", type=int, default=5, help="of front")
BENCH.option("--share", type=float, default=SHARE, help="of the evaluations of front")
BENCH.option("--model", type=Path, help="of new")
BENCH.option("--processes", type=int, default=usable_cores())


def _told(sheet: Sheet, figures: Figures) -> None:
    for name, value in figures.items():
        sheet.figure(name, value, ".4g" if isinstance(value, float) else "")


@BENCH.part(NETWORKS)
def speed(sheet: Sheet) -> None:
    _told(sheet, measured_speed(sheet.options.machines, sheet.cases, sheet.size, sheet.processes))


@BENCH.part(extra=True)
def front(sheet: Sheet) -> None:
    if sheet.db is None:
        raise RequestError("--db must be given: a database of the grid's values")
    _told(sheet, measured_front(sheet.db, sheet.seeds, sheet.share, sheet.processes))


@BENCH.part(extra=True)
def new(sheet: Sheet) -> None:
    if sheet.model is None:
        raise RequestError("--model must be given: resnet18.onnx of examples/zoo.py")
    _told(sheet, measured_new(sheet.model))


def space(varied: Sequence[str]) -> MachineSpace:
    return MachineSpace(load_machine(BASE), BASE, [axis_of(text) for text in varied])


def measured_speed(machines: int, names: Sequence[str], size: int, processes: int) -> Figures:
    """Random machines, all networks, an empty database: seconds, and what was proved."""
    files = networks(names, size)
    with tempfile.TemporaryDirectory() as folder, \
            Records(Path(folder) / "r.sqlite") as records, \
            Children(processes, LIMIT_SECONDS) as children:
        exploration = Exploration(
            space(SPEED_SPACE), [ExploredNetwork.of(name, path) for name, path in files.items()],
            objectives_of(OBJECTIVES[0].split(",")), records, strategy="random", trials=machines,
            table=TABLE)
        begin = time.monotonic()
        exploration.run(children.results)
        measured = time.monotonic()
        exploration.check(children.results)
        end = time.monotonic()
    used = os.times()
    return {"explore_machines": len(exploration.measured), "explore_networks": len(names),
            "explore_minutes": (end - begin) / 60, "explore_check_minutes": (end - measured) / 60,
            "explore_processor_minutes": (used.children_user + used.children_system) / 60,
            "explore_processes": processes, "explore_failed": len(exploration.failed),
            "explore_front": len(exploration.checked),
            "explore_front_wrong": sum(map(bool, exploration.checked.values()))}


class FromGrid:
    """Runs trials by looking them up among the results of a grid."""

    def __init__(self, known: Mapping[str, Result]):
        self.known, self.count = known, 0

    def __call__(self, trials: Iterator[PointTrial]) -> Iterable[tuple[PointTrial, Result]]:
        for trial in trials:
            self.count += 1
            yield trial, self.known[trial.id]


def measured_front(path: Path, seeds: int, share: float, processes: int,
          varied: Sequence[str] = FRONT_SPACE) -> Figures:
    """The share of the grid's hypervolume that searches find, the least and the mean of seeds."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        write_small_network(file := Path(folder) / "small.onnx")
        network = ExploredNetwork.of("small", file)
        with Records(path) as records, Children(processes, LIMIT_SECONDS) as children:
            begin, seen = time.monotonic(), {}

            def grid(trials: Iterator[PointTrial]) -> Iterable[tuple[PointTrial, Result]]:
                for number, found in enumerate(children.results(trials), 1):
                    if number % 64 == 0:
                        print(f"{number} of a round, {time.monotonic() - begin:.0f} s",
                              file=sys.stderr, flush=True)
                    yield found

            whole = Exploration(space(varied), [network], objectives_of(["cycles"]), records,
                                table=TABLE)
            whole.run(grid)
            for point, _ in whole.measured.values():
                trial = whole.trial(network, point)
                seen[trial.id] = whole.known(network, point)
        figures["front_grid"] = len(seen)
        for names in OBJECTIVES:
            shares = {kind: [volume_share(whole, seen, network, names, kind, seed, share, folder)
                             for seed in range(seeds)] for kind in ("search", "random")}
            for kind, found in shares.items():
                key = f"front_{names.replace(',', '_')}_{kind}"
                figures[f"{key}_least"] = min(found)
                figures[f"{key}_mean"] = sum(found) / len(found)
        figures["front_evaluations"] = int(share * len(seen))
    return figures


def volume_share(whole: Exploration, seen: Mapping[str, Result], network: ExploredNetwork,
                 names: str, kind: str, seed: int, share: float, folder: str) -> float:
    """What a search's front dominates, as a share of what the grid's does, both in logarithms of
    the objectives below the worst of the grid.
    """
    objectives = objectives_of(names.split(","))
    with Records(Path(folder) / f"{names}-{kind}-{seed}.sqlite") as records:
        found = Exploration(whole.space, [network], objectives, records, strategy=kind,
                            trials=int(share * len(seen)), seed=seed, table=whole.table)
        found.run(FromGrid(seen))
    rows, mine = (np.array([[turned(one, one.of(figures).value) for one in objectives]
                            for _, figures in some.measured.values()]) for some in (whole, found))
    reference = rows.max(axis=0)
    return hypervolume(mine, reference) / hypervolume(rows, reference)


def measured_new(model: Path) -> Figures:
    """The command of a new user, in an empty folder with an empty cache of compiled parts."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "lockstep", "explore", str(model.resolve()), "--base",
                   BASE, "--vary", "block_out=8,16,32", "--vary", "wgt=half,same,double",
                   "--report", str(Path(folder) / "page.html")]
        begin = time.monotonic()
        done = subprocess.run(command, env={**os.environ, "LOCKSTEP_CACHE": folder}, check=True,
                              capture_output=True, text=True)
        seconds = time.monotonic() - begin
    print(done.stdout)
    used = os.times()
    return {"explore_new_seconds": seconds,
            "explore_new_processor_seconds": used.children_user + used.children_system}
