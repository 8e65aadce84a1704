"""Carries out ``lockstep explore``."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from accel.estimates.technology import Technology, load_technology
from accel.machine.loading import load_machine
from compiler.errors import RequestError
from compiler.frontend.kinds import names_model
from compiler.files import whole_file, write_text
from compiler.tune.records import Records
from lockstep.searching.explore_cores import build_cores, require_tools
from lockstep.searching.explore_table import show_answer
from lockstep.printing.progress import progress_bar
from lockstep.printing.rows import point_rows, put_rows
from lockstep.options.arguments import certificates_of
from lockstep.options.whole import calibration_of
from lockstep.compare import networks
from lockstep.printing.lines import say
from lockstep.provenance import Asked
from lockstep.report import require_plotly
from lockstep.report.pictures import put_pictures, require_matplotlib
from lockstep.report.pictures.explored import exploration_pictures
from runtime.exploring import (Exploration, MachineBudget, MachineSpace, axes_of_file, axis_of,
                               budget_of, objectives_of, run_point)
from runtime.exploring.answers import answer_of
from runtime.exploring.axes import AxisError, VariedAxis
from runtime.exploring.exploration import RunPoints
from runtime.exploring.networks import ExploredNetwork
from runtime.exploring.objectives import MeasuredPoint, ObjectiveError, usual_objectives
from runtime.exploring.points import AddedInstructions, ExploredPoint
from runtime.pricing.hosts import THIS
from runtime.tuning.children import usable_cores
from runtime.whole import energy_refusal

LISTED = 256            # the largest grid that auto takes
SEARCHED = 200          # trials of other strategies by default
INTERRUPTED = 130


def explore(args: argparse.Namespace) -> int:
    if args.report:
        require_plotly()
    require_matplotlib(args)
    technology = load_technology(args.technology)
    builds = args.synthesize or args.route
    if builds:
        _require_cells(technology, args.route)
        require_tools(args.route)
    elif args.jobs:
        raise RequestError("--jobs must come with --synthesize or --route")
    objectives = (usual_objectives(technology) if args.objective is None
                  else objectives_of(args.objective.split(",")))
    budgets = [budget_of(text) for text in args.limits]
    for one in (*objectives, *(budget.objective for budget in budgets)):
        one.require(technology)
    space = _space(args, budgets, technology)
    strategy, trials = _strategy(args, space)
    status = 0
    with ExitStack() as stack:
        calibration = calibration_of(args)
        files = networks(args.networks, args.size, int8=calibration is None)
        asked = Asked.of(args, files)
        records = stack.enter_context(Records(args.db) if args.db else Records.in_cache())
        exploration = Exploration(
            space, [ExploredNetwork.of(_name(name), path, calibration, args.shape)
                    for name, path in files.items()],
            objectives, records, budgets, strategy, trials, args.seed, technology, args.host,
            args.same_division)
        _require_figures(exploration)
        run = _runner(args, stack)
        try:
            with _progress(exploration):
                exploration.run(run)
            with progress_bar("the front", 0, lambda: 0):
                if args.effort:
                    exploration.refine(args.effort, run)
                if not args.no_check:
                    exploration.check(run)
            if builds:
                build_cores(exploration, args.route, args.jobs or usable_cores())
        except KeyboardInterrupt:
            status = INTERRUPTED
            if space.base.identity not in exploration.measured:
                return status
        answer: dict[str, Any] = answer_of(exploration) | {
            "provenance": asked.provenance({str(args.base): space.base.machine},
                                           _measured_here(exploration, bool(args.effort)))}
    _write(args, answer)
    if not args.tsv:
        show_answer(answer)
    wrong = {identity: reason for identity, reason in exploration.checked.items() if reason}
    for identity, reason in wrong.items():
        text = f"wrong: {answer['points'][_place(answer, identity)]['label']}: {reason}"
        print(text, file=sys.stderr) if args.tsv else say(text)
    return status or (1 if wrong else 0)


def _measured_here(exploration: Exploration, refined: bool) -> Iterator[str]:
    """Paths in the answer of what the next run may find otherwise, where the host is measured: all
    that follows from its time; which machines there are, where figures choose them.
    """
    if exploration.host != THIS:
        return
    yield "front"
    if exploration.strategy == "search" or refined:
        yield from ("points", "failed", "refused", "sensitivity", "quantized", "made_for")
    else:
        yield from (f"points/*/{name}" for name in ("values", "front", "rivals", "host_share",
                                                   "over_budget", "checked",
                                                   "networks/*/host_seconds"))


def _require_figures(exploration: Exploration) -> None:
    """Refuses objectives of which no point can have a figure, before anything is measured."""
    asked = {part for one in (*exploration.objectives, *(
        budget.objective for budget in exploration.budgets)) for part in one.reads}
    energies = exploration.technology.energies
    if {"energy", "host"} <= asked and energies and (
            reason := energy_refusal(exploration.host, energies)):
        raise ObjectiveError(f"Objective energy must have the energy of the host: {reason}; or "
                             f"name other ones by --objective")
    if "accuracy" in asked and not all(one.calibration for one in exploration.networks):
        raise ObjectiveError("Objective accuracy must come with networks in float, which are "
                             "quantized for each machine: --calibration FILE")


def _place(answer: Mapping[str, Any], identity: str) -> int:
    return next(number for number, point in enumerate(answer["points"])
                if point["identity"] == identity)


def _name(name: str) -> str:
    return Path(name).name if "/" in name or names_model(name) else name


def _require_cells(technology: Technology, routed: bool) -> None:
    if not {"fpga", "clock"} <= technology.has:
        raise RequestError(f"{'--route' if routed else '--synthesize'} must come with --technology "
                           f"ecp5, in whose cells cores are built, not {technology.name!r}")


def _space(args: argparse.Namespace, budgets: Sequence[MachineBudget], technology: Technology
           ) -> MachineSpace:
    axes: list[VariedAxis] = [axis_of(text) for text in args.vary]
    axes += axes_of_file(args.space) if args.space else []
    added = [AddedInstructions.of(source) for source in args.add]
    if not axes and not added:
        raise AxisError("Something must be varied: --vary FIELD=A,B, --space FILE or --add FILE.py")
    cheap = [budget for budget in budgets if budget.objective.of_machine]
    base = load_machine(args.base)
    technology = technology.at(base.config.clock_mhz)

    def refusal(point: ExploredPoint) -> str:
        alone = MeasuredPoint(point.machine, {}, {}, technology)
        return next((reason for budget in cheap if (reason := budget.refusal(alone))), "")

    return MachineSpace(base, str(args.base), axes, added, refusal)


def _strategy(args: argparse.Namespace, space: MachineSpace) -> tuple[str, int | None]:
    strategy = args.strategy
    if strategy == "auto":
        strategy = "grid" if space.size <= LISTED else "search"
    return strategy, args.trials or (None if strategy == "grid" else SEARCHED)


def _runner(args: argparse.Namespace, stack: ExitStack) -> RunPoints:
    """The runner of measurements: processes here, the workers of a pool, or this process."""
    if args.pool:
        from runtime.tuning.pool import WorkerPool

        return stack.enter_context(WorkerPool(args.pool, certificates_of(args.tls))).results
    if args.tls:
        raise RequestError("--tls must come with --pool tls://HOST:PORT")
    if args.processes == 0:
        return lambda trials: ((trial, run_point(trial)) for trial in trials)
    from runtime.tuning.children import Children

    number = args.processes or max(2, usable_cores())
    return stack.enter_context(Children(number, args.limit)).results


@contextmanager
def _progress(exploration: Exploration) -> Iterator[None]:
    points = exploration.trials or exploration.space.size
    if exploration.strategy == "grid":
        points = min(points, exploration.space.size)
    with progress_bar("machines", points * len(exploration.networks), lambda: exploration.done):
        yield


def _write(args: argparse.Namespace, answer: Mapping[str, Any]) -> None:
    put_rows(args, point_rows(answer))
    if args.svg or args.pdf:
        put_pictures(args, exploration_pictures(answer), answer["provenance"])
    if args.json:
        write_text(args.json, json.dumps(answer, indent=1) + "\n")
    if args.report:
        from lockstep.report.exploring import write_exploration_page

        with progress_bar(f"writing {args.report.name}", 0, lambda: 0):
            with whole_file(args.report) as file:
                write_exploration_page(file, answer)
