"""Pictures of an exploration, of its answer (`runtime.exploring.answers`)."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from lockstep.printing.lines import shortened
from lockstep.report.pictures.axes import logarithmic
from lockstep.report.pictures.files import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN = 3.4            # inches: one column of a page
LABEL = 34              # characters of a machine
FRONT, OTHER, BASE = "#cf3f4f", "#9aa5b1", "#2f6fb0"


def exploration_pictures(answer: Mapping[str, Any]) -> dict[str, Drawing]:
    """The fronts of each two objectives that were asked for, and what each field does alone to each
    of them, by the names of their files.
    """
    asked = [one for one in answer["objectives"] if one["asked"]]
    fronts = {f"front-{x['name']}-{y['name']}": partial(_front, answer, x, y)
              for x, y in combinations(asked, 2)}
    return fronts | {f"alone-{one['name']}": partial(_alone, answer, one) for one in asked}


def _front(answer: Mapping[str, Any], x: Mapping[str, Any], y: Mapping[str, Any],
           figure: "Figure") -> None:
    """Machines by two objectives with their intervals; the front is that of these two."""
    figure.set_size_inches(COLUMN, 2.6)
    axes, points = figure.subplots(), answer["points"]
    front = front_of(points, x, y)
    others = [point for point in points if point not in front]
    for label, chosen, color in (("others", others, OTHER), ("front", front, FRONT),
                                 ("base", points[:1], BASE)):
        pairs = [(point["values"][x["name"]], point["values"][y["name"]]) for point in chosen]
        axes.errorbar([one[0] for one, _ in pairs], [other[0] for _, other in pairs],
                      xerr=_around([one for one, _ in pairs]),
                      yerr=_around([other for _, other in pairs]), fmt="o", markersize=3,
                      elinewidth=.4, color=color, label=label, zorder=2 + (color != OTHER))
    line = sorted((point["values"][x["name"]][0], point["values"][y["name"]][0]) for point in front)
    axes.plot(*zip(*line), color=FRONT, linewidth=.8, zorder=2)
    logarithmic(axes)
    axes.set(xlabel=x["title"], ylabel=y["title"])
    axes.legend()


def front_of(points: Sequence[Mapping[str, Any]], *objectives: Mapping[str, Any]
             ) -> list[Mapping[str, Any]]:
    """The points that no other one beats in these objectives; of equal ones the first."""
    rows = [[(-1 if one["greatest"] else 1) * point["values"][one["name"]][0]
             for one in objectives] for point in points]

    def beaten(place: int) -> bool:
        return any(all(a <= b for a, b in zip(row, rows[place])) and (row != rows[place]
                   or other < place) for other, row in enumerate(rows) if other != place)

    return [point for place, point in enumerate(points) if not beaten(place)]


def _around(values: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[max(value - low, 0) for value, low, *_ in values],
            [max(high - value, 0) for value, _, high, *_ in values]]


def _alone(answer: Mapping[str, Any], objective: Mapping[str, Any], figure: "Figure") -> None:
    """The change of an objective from the base, by each option alone."""
    name, points = objective["name"], answer["points"]
    base = points[0]["values"][name][0]
    bars = [(f"{axis['axis']} {option['option']}",
             100 * (points[option["point"]]["values"][name][0] / base - 1) if base else 0.0)
            for axis in answer["sensitivity"] for option in axis["options"] if "point" in option]
    figure.set_size_inches(COLUMN, .7 + .16 * len(bars))
    axes = figure.subplots()
    worse = [(change > 0) != objective["greatest"] for _, change in bars]
    axes.barh(range(len(bars)), [change for _, change in bars],
              color=[FRONT if bad else BASE for bad in worse])
    axes.set_yticks(range(len(bars)), [shortened(label, LABEL) for label, _ in bars])
    axes.set(xlabel=f"{name}, change in %", ylim=(len(bars) - .4, -.6))
    axes.axvline(0, color="#5b6875", linewidth=.6)
