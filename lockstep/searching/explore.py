"""Carries out ``lockstep explore``."""

import argparse
import json
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
from lockstep.options.arguments import certificates_of
from lockstep.options.whole import calibration_of
from lockstep.compare import networks
from lockstep.printing.lines import say
from lockstep.report import require_plotly
from runtime.exploring import (Exploration, MachineBudget, MachineSpace, axes_of_file, axis_of,
                               budget_of, objectives_of, run_point)
from runtime.exploring.answers import answer_of
from runtime.exploring.axes import AxisError, VariedAxis
from runtime.exploring.exploration import RunPoints
from runtime.exploring.networks import ExploredNetwork
from runtime.exploring.objectives import (MeasuredPoint, Objective, ObjectiveError,
                                          usual_objectives)
from runtime.exploring.points import AddedInstructions, ExploredPoint
from runtime.tuning.children import usable_cores
from runtime.whole import energy_refusal

__all__ = ["explore"]

LISTED = 256            # the largest grid that auto takes
SEARCHED = 200          # trials of other strategies by default
INTERRUPTED = 130


def explore(args: argparse.Namespace) -> int:
    if args.report:
        require_plotly()
    technology = load_technology(args.technology)
    builds = args.synthesize or args.route
    if builds:
        _require_cells(technology, args.route)
        require_tools(args.route)
    elif args.jobs:
        raise RequestError("--jobs must come with --synthesize or --route")
    budgets = [budget_of(text) for text in args.limits]
    objectives = _objectives(args, technology)
    for one in (*objectives, *(budget.objective for budget in budgets)):
        one.require(technology)
    space = _space(args, budgets, technology)
    strategy, trials = _strategy(args, space)
    status = 0
    with ExitStack() as stack:
        calibration = calibration_of(args)
        files = networks(args.networks, args.size, int8=calibration is None)
        records = stack.enter_context(Records(args.db) if args.db else Records.in_cache())
        exploration = Exploration(
            space, [ExploredNetwork.of(_name(name), path, calibration)
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
        answer = answer_of(exploration)
    _write(args, answer)
    show_answer(answer)
    wrong = {identity: reason for identity, reason in exploration.checked.items() if reason}
    for identity, reason in wrong.items():
        say(f"wrong: {answer['points'][_place(answer, identity)]['label']}: {reason}")
    return status or (1 if wrong else 0)


def _objectives(args: argparse.Namespace, technology: Technology) -> tuple[Objective, ...]:
    if args.objective is None:
        return usual_objectives(technology)
    return objectives_of(args.objective.split(","))


def _require_figures(exploration: Exploration) -> None:
    """Refuses objectives of which no point can have a figure, before anything is measured."""
    asked = {part for one in (*exploration.objectives, *(
        budget.objective for budget in exploration.budgets)) for part in one.reads}
    energies = exploration.technology.energies
    if "energy" in asked and energies and (
            reason := energy_refusal(exploration.host, energies)):
        raise ObjectiveError(f"Objective energy must have the energy of the host: {reason}; or "
                             f"name other ones by --objective")
    if "accuracy" in asked and not any(one.calibration for one in exploration.networks):
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
    if args.json:
        write_text(args.json, json.dumps(answer, indent=1) + "\n")
    if args.report:
        from lockstep.report.exploring import write_exploration_page

        with progress_bar(f"writing {args.report.name}", 0, lambda: 0):
            with whole_file(args.report) as file:
                write_exploration_page(file, answer)
