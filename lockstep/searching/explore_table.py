"""The table that ``lockstep explore`` prints, and the sentences below it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lockstep.printing.lines import say
from lockstep.printing.table import show_columns
from lockstep.searching.explore_cores import show_cores
from runtime.instructions import idle_lines

__all__ = ["show_answer"]

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
        ["", "machine", *(one["name"] for one in asked), "on the host", *several, "bound by"],
        [[_mark(point), point["label"], *_values(asked, point, base), _on_host(point),
          *(f"{point['networks'][name]['cycles']:,}" for name in several),
          _bound(point["bounds"])] for point in shown], 2)
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
    say(answer["host"]["text"])
    for line in (*answer["quantized"], *answer["made_for"]):
        say(line)
    if other := sum(bool(point["other_division"]) for point in answer["points"]):
        first = next(point for point in answer["points"] if point["other_division"])
        say(f"! {other:,} machines divide a network otherwise than the base, such as "
            f"{first['label']}: {first['other_division']}; --same-division refuses them")
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


def _on_host(point: Mapping[str, Any]) -> str:
    """The layers of the host, and what it and copies take of the time; ``!`` where the base divides
    networks otherwise.
    """
    count, share = point["host_layers"], point["host_share"]
    mark = " !" if point["other_division"] else ""
    return f"{count} {'layer' if count == 1 else 'layers'}, {share:.0%}{mark}"


def _values(objectives: Sequence[Mapping[str, Any]], point: Mapping[str, Any],
            base: Mapping[str, Any]) -> Iterator[str]:
    """The cells of objectives; decibels differ from the base, others change by a share."""
    for one in objectives:
        value, there = (of["values"][one["name"]] for of in (point, base))
        change = "" if point is base or not there[0] else (
            f" ({value[0] - there[0]:+.1f})" if one["unit"] == "dB"
            else f" ({value[0] / there[0] - 1:+.0%})")
        yield f"{_estimated(value)}{change}"


def _estimated(value: Sequence[Any]) -> str:
    number, low, high, beyond = value
    error = f" ±{(high - low) / 2 / number:.0%}" if number and high > low else ""
    return f"{_number(number)}{error}{'?' if beyond else ''}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.4g}"


def _bound(bounds: Mapping[str, float]) -> str:
    return ", ".join(f"{bound} {share:.0%}" for bound, share in [*bounds.items()][:3]
                     if share >= 0.01)
