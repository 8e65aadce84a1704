"""Carries out ``lockstep tune``."""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from accel.machine.machine import Machine
from accel.mapping.plans.search import EFFORTS
from accel.mapping.target import AccelTarget
from compiler.errors import RequestError
from compiler.files import whole_file, write_text
from compiler.frontend.models import graph_of
from compiler.graph.graph import Graph
from compiler.target_names import ACCEL
from compiler.tune.explorer import Limits
from compiler.tune.record import processor_name
from compiler.tune.records import Records
from compiler.tune.space import Tunable
from lockstep.options.arguments import CACHED_PLANS
from lockstep.options.compilation import checked_plans
from lockstep.printing.table import show_columns
from lockstep.printing.lines import say, shortened, width
from lockstep.report import require_plotly
from runtime import Device, SimulatedDevice, compile_on, simulator
from runtime.devices.device import AbsentDevice
from runtime.driver.targets import Request, Targets, request
from runtime.tuning.child import Child
from runtime.tuning.streams import PooledStreamPlans, StreamPlans
from runtime.tuning.tuning import Run, Searched, Tuning

HEADINGS = ("task", "times", "share", "own", "best", "gain", "trials", "failed")
FIGURES = 66            # columns of the table beside titles
LEAST = 12              # of a title
INTERRUPTED = 130
WIDEST = max(filter(None, EFFORTS), key=lambda effort: effort.breadth)
ALONE = "none"          # of --pool: a process here, without Dask


def tune(args: argparse.Namespace) -> int:
    if args.report:
        require_plotly()
    wanted = request(args.target, args.machine)
    if wanted.auto:
        raise RequestError(f"--target must name targets, not {args.target!r}: auto divides by what "
                           f"is measured, and goes on doing so with the plans that are found")
    targets = wanted.placed(_device)
    searched = _searched(wanted.names, targets)
    graph = graph_of(args.model, dict(args.shape), bind=dict(args.bind))
    limits = Limits(args.trials, args.minutes and 60 * args.minutes, args.patience)

    def compiled(plans) -> object:
        return compile_on(graph, wanted.placed(_device, plans=plans), False,
                          cache=False)

    status = 0
    with ExitStack() as stack:
        records = stack.enter_context(Records(args.db) if args.db else Records.in_cache())
        live = stack.enter_context(_Shown(args))
        streams = StreamPlans(records, args.seed)
        tuning = Tuning(compiled, searched, records, processor_name(), limits, args.strategy,
                        args.seed, lambda tuning: live.update(_tasks(tuning, streams)))
        try:
            if accelerators := _accelerators(wanted.names, targets):
                with ExitStack() as inner:
                    streams = _stream_plans(args, records, accelerators, limits.seconds, inner,
                                            lambda plans: live.update(_tasks(None, plans)))
                    _search_streams(args, graph, wanted, streams)
            if searched:
                with checked_plans(str(args.db) if args.db else CACHED_PLANS):
                    tuning.run(_runner(args, wanted.names, stack))
        except KeyboardInterrupt:
            status = INTERRUPTED
    _show(args, tuning, streams)
    return status


def _search_streams(args: argparse.Namespace, graph: Graph, wanted: Request,
                    streams: StreamPlans) -> None:
    """Compiles with a search of tiles, which simulates at most so many ways of layers."""
    effort = replace(WIDEST, trials=args.trials)
    compile_on(graph, wanted.placed(_device, plans=streams, effort=effort), False, cache=False)


def _accelerators(names: Sequence[str], targets: Targets) -> dict[str, str]:
    """The texts of accelerators, by the fingerprints of their tasks."""
    return {placed.target.machine.hash: name for name, placed in zip(names, targets)
            if isinstance(placed.target, AccelTarget)}


def _stream_plans(args: argparse.Namespace, records: Records, targets: Mapping[str, str],
                  seconds: float | None, stack: ExitStack,
                  watch: Callable[[StreamPlans], None]) -> StreamPlans:
    """Plans whose ways are measured by the workers of a pool, or by one on each core of this
    computer; by this process where it has one core alone, or there is to be no pool.
    """
    cores = len(os.sched_getaffinity(0))
    if not args.pool and cores == 1 or (run := _pool_runner(
            args, tuple(targets.values()), stack, measurers=cores, builders=0)) is None:
        return StreamPlans(records, args.seed, watch, seconds)
    return PooledStreamPlans(records, targets, run, args.seed, watch, seconds)


def _device(machine: Machine) -> Device:
    return SimulatedDevice(machine, simulator("functional"))


def _searched(names: tuple[str, ...], targets: Targets) -> dict[str, Searched]:
    """The targets of which plans are searched, by their fingerprints."""
    named = list(zip(names, targets))               # the host may stand behind them
    if not any(isinstance(placed.target, Tunable | AccelTarget) for _, placed in named):
        raise RequestError(f"--target must name one of which schedules are searched, not "
                           f"{', '.join(names)}")
    for name, placed in named:
        if isinstance(placed.device, AbsentDevice):
            raise RequestError(f"--target must name devices that are here, where plans can be "
                               f"measured, not {name}")
    return {placed.target.fingerprint: Searched(name, placed.target) for name, placed in named
            if isinstance(placed.target, Tunable)}


def _runner(args: argparse.Namespace, names: Sequence[str], stack: ExitStack) -> Run:
    """The runner of trials: workers of this computer, a process without Dask, or the workers of a
    pool elsewhere.
    """
    if run := _pool_runner(args, names, stack):
        return run
    child = stack.enter_context(Child(args.limit))

    def results(trials: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
        while (trial := next(trials, None)) is not None:
            yield trial, child.run(trial.text)

    return results


def _pool_runner(args: argparse.Namespace, names: Sequence[str], stack: ExitStack,
                 measurers: int = 1, builders: int | None = None) -> Run | None:
    """Runs trials on the workers of a pool; None where there is to be none."""
    if args.pool == ALONE or not (args.pool or find_spec("distributed")):
        return None
    from lockstep.options.arguments import certificates_of
    from runtime.tuning.pool import WorkerPool, device_of

    devices = tuple(dict.fromkeys(device_of(name) for name in names))
    return stack.enter_context(WorkerPool(
        args.pool, certificates_of(args.tls), devices=devices, measurers=measurers,
        builders=builders, limit_seconds=args.limit)).results


class _Shown:
    """The table of tasks, live on a terminal; nothing elsewhere."""

    def __init__(self, args: argparse.Namespace):
        console = Console(stderr=True)
        self._live = Live(console=console, transient=True, auto_refresh=False) if (
            console.is_terminal) else None

    def __enter__(self) -> "_Shown":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def update(self, tasks: Sequence[Mapping[str, Any]]) -> None:
        if self._live:
            table = Table(title=f"{sum(task['trials'] for task in tasks)} trials", box=None,
                          header_style="bold")
            for place, heading in enumerate(HEADINGS):
                table.add_column(heading, justify="right" if place else "left", no_wrap=True)
            for row in _rows(tasks):
                table.add_row(*row)
            self._live.update(table, refresh=True)


def _rows(tasks: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """A row for each task, those that take most first; shares are of what has one unit."""
    whole: dict[str, float] = {}
    for task in tasks:
        whole[task["unit"]] = whole.get(task["unit"], 0.0) + _total(task)
    rows = []
    for task in sorted(tasks, key=lambda task: -_total(task) / (whole[task["unit"]] or 1)):
        own, best, unit = task["own"], task["best"], task["unit"]
        gain = f"{100 * (1 - best / own):.1f} %" if own and best is not None else "-"
        share = f"{100 * _total(task) / (whole[unit] or 1):.1f} %"
        rows.append((shortened(task["title"], max(LEAST, width() - FIGURES)), str(task["count"]),
                     share, _time(own, unit), _time(best, unit), gain, str(task["trials"]),
                     str(task["failed"])))
    return rows


def _total(task: Mapping[str, Any]) -> float:
    return task["count"] * (task["best"] or 0)


def _time(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} cycles" if unit == "cycles" else f"{1e6 * value:,.1f} us"


def _show(args: argparse.Namespace, tuning: Tuning, streams: StreamPlans) -> None:
    tasks = _tasks(tuning, streams)
    trials = sum(task["trials"] for task in tasks)
    show_columns(f"{args.model.name} for {args.target}: {trials} trials, seed {args.seed}",
                 HEADINGS, _rows(tasks))
    figures = {"model": args.model.name, "target": args.target, "trials": trials,
               "strategy": args.strategy, "seed": args.seed, "tasks": tasks}
    if args.json:
        write_text(args.json, json.dumps(figures, indent=1) + "\n")
    if args.report:
        from lockstep.report.search import write_search_page

        with whole_file(args.report) as file:
            write_search_page(file, figures)
    if not tasks:
        say("no task of this network has more than one plan")


def _tasks(tuning: Tuning | None, streams: StreamPlans) -> list[dict[str, Any]]:
    """All tasks so far, as JSON. Of a stream the trials are the ways that made it faster."""
    searches = [] if tuning is None else tuning.tasks.values()
    return [{"title": task.title, "digest": task.digest, "count": 1, "target": ACCEL,
             "own": found[0][1], "best": found[-1][1], "unit": "cycles", "plan": found[-1][0],
             "trials": len(found), "failed": streams.failed[task], "own_plan": found[0][0],
             "values": [cycles for _, cycles in found], "estimates": [1.0] * len(found)}
            for task, found in streams.found.items()] + [
        {"title": search.task.title, "digest": search.task.digest, "count": search.count,
         "target": search.searched.text, "own": search.value(search.own),
         "best": search.value(search.best), "unit": search.unit, "plan": search.best,
         "trials": search.trials, "failed": search.errors, "own_plan": search.own,
         "values": [result.value for _, result in search.explorer.trials],
         "estimates": [candidate.estimate for candidate, _ in search.explorer.trials]}
        for search in searches]
