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
from lockstep.searching.explore_cores import build_cores, require_tools, show_cores
from lockstep.printing.progress import progress_bar
from lockstep.printing.table import show_columns
from lockstep.options.arguments import certificates_of
from lockstep.compare import networks
from lockstep.printing.lines import say
from lockstep.report import require_plotly
from runtime.exploring import (Exploration, MachineBudget, MachineSpace, axes_of_file, axis_of,
                               budget_of, objectives_of, run_point)
from runtime.exploring.answers import answer_of
from runtime.exploring.axes import AxisError, VariedAxis
from runtime.exploring.exploration import ExploredNetwork, RunPoints
from runtime.exploring.objectives import MeasuredPoint, usual_objectives
from runtime.exploring.points import AddedInstructions, ExploredPoint
from runtime.tuning.children import usable_cores

__all__ = ["explore"]

LISTED = 256            # the largest grid that auto takes
SEARCHED = 200          # trials of other strategies by default
INTERRUPTED = 130
MOST_ROWS = 20          # of a table; the front is shown whole


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
    objectives = (usual_objectives(technology) if args.objective is None
                  else objectives_of(args.objective.split(",")))
    budgets = [budget_of(text) for text in args.budget]
    for one in (*objectives, *(budget.objective for budget in budgets)):
        one.require(technology)
    space = _space(args, budgets, technology)
    strategy, trials = _strategy(args, space)
    status = 0
    with ExitStack() as stack:
        files = networks(args.networks, args.size)
        records = stack.enter_context(Records(args.db) if args.db else Records.in_cache())
        exploration = Exploration(
            space, [ExploredNetwork.of(_name(name), path) for name, path in files.items()],
            objectives, records, budgets, strategy, trials, args.seed, technology)
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
    _show(answer)
    wrong = {identity: reason for identity, reason in exploration.checked.items() if reason}
    for identity, reason in wrong.items():
        say(f"wrong: {answer['points'][_place(answer, identity)]['label']}: {reason}")
    return status or (1 if wrong else 0)


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


def _show(answer: Mapping[str, Any]) -> None:
    """The table: the front first, then the base and the others nearest to it."""
    asked = [one for one in answer["objectives"] if one["asked"]]
    front = [answer["points"][number] for number in answer["front"]]
    others = [point for point in answer["points"] if not point["front"]]
    first = asked[0]
    others.sort(key=lambda point: point["values"][first["name"]][0] * (-1) ** first["greatest"])
    base = answer["points"][0]
    shown = [*front, *([] if base["front"] else [base]),
             *[point for point in others if point is not base][:max(MOST_ROWS - len(front), 0)]]
    several = len(answer["networks"]) > 1
    show_columns(
        f"{_counted(answer)} like {answer['base']}, front of "
        f"{', '.join(one['name'] for one in asked)} first; strategy {answer['strategy']}, seed "
        f"{answer['seed']}",
        ["", "machine", *(one["title"] for one in asked),
         *(answer["networks"] if several else []), "bound by"],
        [[_mark(point), point["label"], *(_value(one["name"], point, base) for one in asked),
          *([f"{point['networks'][name]['cycles']:,}" for name in answer["networks"]]
            if several else []), _bound(point["bounds"])] for point in shown], 2)
    show_cores(answer)
    hidden = len(answer["points"]) - len(shown)
    if hidden > 0:
        say(f"{hidden:,} more machines, which others beat: --json and --report have them")
    say(f"technology {answer['technology']['name']}: {answer['technology']['text']}")
    if any(point["rivals"] for point in shown):
        say("~ not distinguishable: within the errors of estimates it may be off the front (*~), "
            "or on it (~)")
    _say_rest(answer)


def _say_rest(answer: Mapping[str, Any]) -> None:
    over = sum(bool(point["over_budget"]) for point in answer["points"])
    if over:
        say(f"{over:,} machines are over the budget {', '.join(answer['budgets'])}")
    checked = [point for point in answer["points"] if point["checked"] is not None]
    if checked:
        good = sum(not point["checked"] for point in checked)
        say(f"values of {good} of {len(checked)} machines on the front are those of the host, all "
            f"programs are proved")
    for kind, what in (("refused", "cannot be built or are over the budget"),
                       ("failed", "could not be measured")):
        if answer[kind]:
            say(f"{len(answer[kind]):,} machines {what}, such as: {answer[kind][0]['reason']}")


def _counted(answer: Mapping[str, Any]) -> str:
    """The machines, and how often they were measured where some were with several efforts."""
    points = answer["points"]
    machines = {(point["hash"], json.dumps(point["geometry"])) for point in points}
    mappings = f" in {len(points):,} mappings" if len(machines) < len(points) else ""
    return f"{len(machines):,} machines{mappings}"


def _mark(point: Mapping[str, Any]) -> str:
    return "*" * point["front"] + "~" * bool(point["rivals"])


def _value(name: str, point: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    """A figure, its error, and the change from the base, with ``~`` where errors overlap."""
    number, low, high, beyond = point["values"][name]
    first, least, most, _ = base["values"][name]
    error = f" ±{(high - low) / 2 / abs(number):.0%}" if number and high > low else ""
    unsure = point["hash"] != base["hash"] and low < most and least < high
    change = ("" if point is base or not first else
              f" ({'~' * unsure}{(number - first) / abs(first):+.0%})")
    return f"{_number(number)}{error}{'?' if beyond else ''}{change}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.4g}"


def _bound(bounds: Mapping[str, float]) -> str:
    return ", ".join(f"{bound} {share:.0%}" for bound, share in [*bounds.items()][:3]
                     if share >= 0.01)
