"""The table that ``lockstep explore`` prints, and the sentences below it."""

import json
from collections.abc import Mapping
from typing import Any

from lockstep.printing.lines import say
from lockstep.printing.table import show_columns
from lockstep.report.exploring import on_host
from lockstep.printing.instructions import own_instructions
from lockstep.searching.explore_cores import show_cores
from runtime.instructions import idle_lines

ACCURACY = "accuracy"   # a column wherever it is known
MOST_ROWS = 20          # of a table; the front is shown whole


def show_answer(answer: Mapping[str, Any]) -> None:
    """The table: the front first, then the base and the others nearest to it."""
    asked = [one for one in answer["objectives"] if one["asked"] or one["name"] == ACCURACY]
    front = [answer["points"][number] for number in answer["front"]]
    others = [point for point in answer["points"] if not point["front"]]
    first = asked[0]
    others.sort(key=lambda point: point["values"][first["name"]][0] * (-1) ** first["greatest"])
    base = answer["points"][0]
    shown = [*front, *([] if base["front"] else [base]),
             *[point for point in others if point is not base][:max(MOST_ROWS - len(front), 0)]]
    several = answer["networks"] if len(answer["networks"]) > 1 else []
    show_columns(
        f"{_counted(answer)} like {answer['base']}, front of "
        f"{', '.join(one['name'] for one in asked if one['asked'])} first; strategy "
        f"{answer['strategy']}, seed {answer['seed']}",
        ["", "machine", *(one["title"] for one in asked), "on the host", *several, "bound by"],
        [[_mark(point), point["label"], *(_value(one, point, base) for one in asked),
          on_host(point), *(f"{point['networks'][name]['cycles']:,}" for name in several),
          _bound(point["bounds"])] for point in shown], 2, True)
    show_cores(answer)
    hidden = len(answer["points"]) - len(shown)
    if hidden > 0:
        say(f"{hidden:,} more {_machines(hidden)}, which others beat: --json and --report have "
            f"{'it' if hidden == 1 else 'them'}")
    say(f"technology {answer['technology']['name']}: {answer['technology']['text']}")
    if any(point["rivals"] for point in shown):
        say("~ not distinguishable: within the errors of estimates it may be off the front (*~), "
            "or on it (~)")
    _say_rest(answer)


def _say_idle(answer: Mapping[str, Any]) -> None:
    """The instructions that no network executes on any machine that has them."""
    for one in own_instructions(answer):
        if not one["executed"]:
            (line,) = idle_lines([one["row"]], shipped=True)
            say(f"{line} (machine {one['label']})")


def _say_rest(answer: Mapping[str, Any]) -> None:
    _say_idle(answer)
    say(answer["host"]["text"])
    for line in (*answer["quantized"], *answer["made_for"]):
        say(line)
    if other := sum(bool(point["other_division"]) for point in answer["points"]):
        first = next(point for point in answer["points"] if point["other_division"])
        say(f"! {other:,} {_machines(other)} with another division of a network than the base, "
            f"such as {first['label']}: {first['other_division']}; --same-division refuses these")
    over = sum(bool(point["over_budget"]) for point in answer["points"])
    if over:
        say(f"{over:,} {_machines(over)} over the budget {', '.join(answer['budgets'])}")
    checked = [point for point in answer["points"] if point["checked"] is not None]
    if checked:
        good = sum(not point["checked"] for point in checked)
        say(f"values of {good} of {len(checked)} {_machines(len(checked))} on the front are those "
            f"of the host, all programs are proved")
    for kind, what in (("refused", "that cannot be built, or over the budget"),
                       ("failed", "could not be measured")):
        if answer[kind]:
            count = len(answer[kind])
            say(f"{count:,} {_machines(count)} {what}, such as: {answer[kind][0]['reason']}")


def _counted(answer: Mapping[str, Any]) -> str:
    """The machines, and how often they were measured where some were with several efforts."""
    points = answer["points"]
    machines = {(point["hash"], json.dumps(point["geometry"])) for point in points}
    mappings = f" in {len(points):,} mappings" if len(machines) < len(points) else ""
    return f"{len(machines):,} {_machines(len(machines))}{mappings}"


def _machines(count: int) -> str:
    return "machine" if count == 1 else "machines"


def _mark(point: Mapping[str, Any]) -> str:
    return "*" * point["front"] + "~" * bool(point["rivals"])


def _value(one: Mapping[str, Any], point: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    """A figure, its error, and the change from the base, with ``~`` where errors overlap; decibels
    change by a difference, other figures by a share.
    """
    number, low, high, beyond = point["values"][one["name"]]
    first, least, most, _ = base["values"][one["name"]]
    error = f" ±{(high - low) / 2 / abs(number):.0%}" if number and high > low else ""
    unsure = point["hash"] != base["hash"] and low < most and least < high
    share = f"{number - first:+.1f}" if one["unit"] == "dB" else (
        f"{(number - first) / abs(first):+.0%}" if first else "")
    change = "" if point is base or not share else f" ({'~' * unsure}{share})"
    return f"{_number(number)}{error}{'?' if beyond else ''}{change}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.4g}"


def _bound(bounds: Mapping[str, float]) -> str:
    return ", ".join(f"{bound} {share:.0%}" for bound, share in [*bounds.items()][:3]
                     if share >= 0.01)
