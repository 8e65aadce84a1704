"""Carries out ``lockstep explore``."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

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
from runtime.exploring.objectives import MeasuredPoint
from runtime.exploring.points import AddedInstructions, ExploredPoint
from runtime.instructions import idle_lines
from runtime.tuning.children import usable_cores

__all__ = ["explore"]

LISTED = 256            # the largest grid that auto takes
SEARCHED = 200          # trials of other strategies by default
INTERRUPTED = 130
MOST_ROWS = 20          # of a table; the front is shown whole


def explore(args: argparse.Namespace) -> int:
    if args.report:
        require_plotly()
    builds = args.synthesize or args.route
    if builds:
        require_tools(args.route)
    elif args.jobs:
        raise RequestError("--jobs must come with --synthesize or --route")
    objectives = objectives_of(args.objective.split(","))
    budgets = [budget_of(text) for text in args.budget]
    space = _space(args, budgets)
    strategy, trials = _strategy(args, space)
    status = 0
    with ExitStack() as stack:
        files = networks(args.networks, args.size)
        records = stack.enter_context(Records(args.db) if args.db else Records.in_cache())
        exploration = Exploration(
            space, [ExploredNetwork.of(_name(name), path) for name, path in files.items()],
            objectives, records, budgets, strategy, trials, args.seed,
            args.energy)
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


def _space(args: argparse.Namespace, budgets: Sequence[MachineBudget]) -> MachineSpace:
    axes: list[VariedAxis] = [axis_of(text) for text in args.vary]
    axes += axes_of_file(args.space) if args.space else []
    added = [AddedInstructions.of(source) for source in args.add]
    if not axes and not added:
        raise AxisError("Something must be varied: --vary FIELD=A,B, --space FILE or --add FILE.py")
    cheap = [budget for budget in budgets if budget.objective.of_machine]

    def refusal(point: ExploredPoint) -> str:
        alone = MeasuredPoint(point.machine, {}, {})
        return next((reason for budget in cheap if (reason := budget.refusal(alone))), "")

    return MachineSpace(load_machine(args.base), str(args.base), axes, added, refusal)


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
        ["", "machine", *(one["name"] for one in asked),
         *(answer["networks"] if several else []), "bound by"],
        [[_mark(point), point["label"], *(_value(point["values"][one["name"]], base["values"][
            one["name"]], point is base) for one in asked),
          *([f"{point['networks'][name]['cycles']:,}" for name in answer["networks"]]
            if several else []), _bound(point["bounds"])] for point in shown], 2)
    show_cores(answer)
    hidden = len(answer["points"]) - len(shown)
    if hidden > 0:
        say(f"{hidden:,} more machines, which others beat: --json and --report have them")
    _say_rest(answer)


def _say_idle(answer: Mapping[str, Any]) -> None:
    """The instructions that no network executes on a machine that has them, each once."""
    told: dict[str, str] = {}
    for point in answer["points"]:
        networks = [*point["networks"].values()]
        for row in networks[0]["idle"]:
            if all(row["name"] in [other["name"] for other in network["idle"]]
                   for network in networks):
                told.setdefault(row["name"], next(idle_lines([row], shipped=True))
                                + f" (machine {point['label']})")
    for line in told.values():
        say(line)


def _say_rest(answer: Mapping[str, Any]) -> None:
    _say_idle(answer)
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
    return "*" if point["front"] else ""


def _value(value: Sequence[Any], base: Sequence[Any], is_base: bool) -> str:
    number, low, high, beyond = value
    error = f" ±{(high - low) / 2 / number:.0%}" if number and high > low else ""
    change = "" if is_base or not base[0] else f" ({number / base[0] - 1:+.0%})"
    return f"{_number(number)}{error}{'?' if beyond else ''}{change}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.4g}"


def _bound(bounds: Mapping[str, float]) -> str:
    return ", ".join(f"{bound} {share:.0%}" for bound, share in [*bounds.items()][:3]
                     if share >= 0.01)
