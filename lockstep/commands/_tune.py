"""Carries out ``lockstep tune``."""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from compiler.errors import RequestError
from compiler.files import whole_file, write_text
from compiler.frontend.models import graph_of
from compiler.tune.explorer import Limits
from compiler.tune.record import processor_name
from compiler.tune.records import Records
from compiler.tune.space import Tunable
from lockstep.commands._table import show_columns
from lockstep.lines import say, shortened, width
from lockstep.report import require_plotly
from runtime import compile_on
from runtime.targets import Targets, request
from runtime.tuning.child import Child
from runtime.tuning.tuning import Run, Searched, TaskSearch, Tuning

__all__ = ["tune"]

HEADINGS = ("task", "times", "share", "own", "best", "gain", "trials", "failed")
FIGURES = 66            # columns of the table beside titles
LEAST = 12              # of a title
INTERRUPTED = 130
ALONE = "none"          # of --pool: a process here, without Dask


def tune(args: argparse.Namespace) -> int:
    if args.report:
        require_plotly()
    wanted = request(args.target, args.machine)
    if wanted.auto:
        raise RequestError(f"--target must name targets, not {args.target!r}: auto divides by what "
                           f"is measured, and goes on doing so with the plans that are found")
    targets = wanted.placed(lambda machine: None)
    searched = _searched(wanted.names, targets)
    graph = graph_of(args.model, dict(args.shape), bind=dict(args.bind))
    limits = Limits(args.trials, args.minutes and 60 * args.minutes, args.patience)

    def compiled(plans) -> object:
        return compile_on(graph, wanted.placed(lambda machine: None, plans=plans), False,
                          cache=False)

    status = 0
    with ExitStack() as stack:
        records = stack.enter_context(Records(args.db) if args.db else Records.in_cache())
        live = stack.enter_context(_Shown(args))
        tuning = Tuning(compiled, searched, records, processor_name(), limits, args.strategy,
                        args.seed, live.update)
        run = _runner(args, wanted.names, stack)
        try:
            tuning.run(run)
        except KeyboardInterrupt:
            status = INTERRUPTED
    _show(args, tuning, records)
    return status


def _searched(names: tuple[str, ...], targets: Targets) -> dict[str, Searched]:
    """The targets of which plans are searched, by their fingerprints."""
    found = {placed.target.fingerprint: Searched(name, placed.target)
             for name, placed in zip(names, targets)         # the host stands behind them
             if isinstance(placed.target, Tunable)}
    if not found:
        raise RequestError(f"--target must name one of which schedules are searched, not "
                           f"{', '.join(names)}")
    return found


def _runner(args: argparse.Namespace, names: Sequence[str], stack: ExitStack) -> Run:
    """What runs the trials: workers of this computer, a process without Dask, or the workers of a
    pool elsewhere.
    """
    if args.pool != ALONE and (args.pool or find_spec("distributed")):
        from runtime.tuning.certificates import Certificates
        from runtime.tuning.pool import WorkerPool, device_of

        devices = tuple(dict.fromkeys(device_of(name) for name in names))
        return stack.enter_context(WorkerPool(
            args.pool, Certificates.of(args.tls) if args.tls else None, devices=devices,
            limit_seconds=args.limit)).results
    child = stack.enter_context(Child(args.limit))

    def results(trials: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
        while (trial := next(trials, None)) is not None:
            yield trial, child.run(trial.text)

    return results


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

    def update(self, tuning: Tuning) -> None:
        if self._live:
            table = Table(title=f"{tuning.done} trials", box=None, header_style="bold")
            for place, heading in enumerate(HEADINGS):
                table.add_column(heading, justify="right" if place else "left", no_wrap=True)
            for row in _rows(tuning):
                table.add_row(*row)
            self._live.update(table, refresh=True)


def _rows(tuning: Tuning) -> list[tuple[str, ...]]:
    """A row for each task, those that take most time first."""
    searches = sorted(tuning.tasks.values(), key=lambda one: -(_total(one, one.best) or 0))
    whole = sum(_total(one, one.best) or 0 for one in searches) or 1
    rows = []
    for search in searches:
        own, best = search.value(search.own), search.value(search.best)
        gain = f"{100 * (1 - best / own):.1f} %" if own and best is not None else "-"
        share = f"{100 * (_total(search, search.best) or 0) / whole:.1f} %"
        rows.append((shortened(search.task.title, max(LEAST, width() - FIGURES)),
                     str(search.count), share, _time(own, search.unit), _time(best, search.unit),
                     gain, str(search.trials), str(search.errors)))
    return rows


def _total(search: TaskSearch, plan: str) -> float | None:
    value = search.value(plan)
    return None if value is None else search.count * value


def _time(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} cycles" if unit == "cycles" else f"{1e6 * value:,.1f} us"


def _show(args: argparse.Namespace, tuning: Tuning, records: Records) -> None:
    show_columns(f"{args.model.name} for {args.target}: {tuning.done} trials, seed {args.seed}",
                 HEADINGS, _rows(tuning))
    figures = {"model": args.model.name, "target": args.target, "trials": tuning.done,
               "strategy": args.strategy, "seed": args.seed, "tasks": _json(tuning)}
    if args.json:
        write_text(args.json, json.dumps(figures, indent=1) + "\n")
    if args.report:
        from lockstep.report.search import write_search_page

        with whole_file(args.report) as file:
            write_search_page(file, figures)
    if not tuning.tasks:
        say("no task of this network has more than one plan")


def _json(tuning: Tuning) -> list[dict[str, Any]]:
    return [{"title": search.task.title, "digest": search.task.digest, "count": search.count,
             "target": search.searched.text, "own": search.value(search.own),
             "best": search.value(search.best), "unit": search.unit, "plan": search.best,
             "trials": search.trials, "failed": search.errors, "own_plan": search.own,
             "values": [result.value for _, result in search.explorer.trials],
             "estimates": [candidate.estimate for candidate, _ in search.explorer.trials]}
            for search in tuning.tasks.values()]
