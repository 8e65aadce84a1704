"""The page that ``lockstep tune --report`` writes: curves of the search, and what it found."""

from collections.abc import Mapping, Sequence
from difflib import ndiff
from typing import IO, Any

from lockstep.printing.lines import shortened
from lockstep.report.plain_page import picture, write_plain_page

MOST_CURVES = 12        # tasks in a picture, those that take most time
LONGEST = 60            # of a task's title in a legend


def write_search_page(file: IO[bytes], figures: Mapping[str, Any]) -> None:
    """Writes the page of the command's figures, as UTF-8; the page works offline."""
    title = f"Search for plans of {figures['model']} for {figures['target']}"
    tasks = sorted(figures["tasks"], key=_time, reverse=True)
    curves = [task for task in tasks if any(value is not None for value in task["values"])]
    write_plain_page(
        file, title, "search.html", figures,
        summary=f"{figures['trials']:,} trials, strategy {figures['strategy']}, seed "
                f"{figures['seed']}",
        curves=curves and _picture([(task, _best_so_far(task)) for task in curves[:MOST_CURVES]],
                                   "trials", "curves", "lines"),
        estimates=curves and _picture([(task, _estimated(task)) for task in curves[:MOST_CURVES]],
                                      "estimate", "estimates", "markers", first=False),
        headings=("task", "times", "own", "best", "gain", "trials", "failed"),
        rows=map(_row, tasks), differences=[
            (f"{task['title']}: {_gain(task)}", _difference(task)) for task in tasks
            if task["plan"] != task["own_plan"]])


def _time(task: Mapping[str, Any]) -> float:
    return task["count"] * (task["own"] or task["best"] or 0)


def _best_so_far(task: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Trials, and the least value up to each over that of the target's own plan."""
    places, least = [], []
    for place, value in enumerate(task["values"], 1):
        if value is not None:
            places.append(float(place))
            least.append(min(value, least[-1] if least else value))
    own = task["own"] or least[0] or 1.0
    return places, [value / own for value in least]


def _estimated(task: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Estimates and values of trials, both in parts of the best."""
    trials = zip(task["estimates"], task["values"], strict=True)
    pairs = [(estimate, value) for estimate, value in trials if value is not None]
    least = min(value for _, value in pairs) or 1.0
    return [estimate for estimate, _ in pairs], [value / least for _, value in pairs]


def _picture(series: Sequence[tuple[Mapping[str, Any], tuple[list[float], list[float]]]],
             axis: str, place: str, mode: str, first: bool = True) -> str:
    import plotly.graph_objects as go

    return picture([go.Scatter(x=x, y=y, mode=mode, name=shortened(task["title"], LONGEST),
                               line={"shape": "hv"} if mode == "lines" else None)
                    for task, (x, y) in series], place, first, xaxis_title=axis,
                   yaxis_title="measured", legend={"orientation": "h", "y": -0.25})


def _row(task: Mapping[str, Any]) -> list[str]:
    return [task["title"], str(task["count"]), _figure(task["own"], task["unit"]),
            _figure(task["best"], task["unit"]), _gain(task), str(task["trials"]),
            str(task["failed"])]


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} cycles" if unit == "cycles" else f"{1e6 * value:,.1f} us"


def _gain(task: Mapping[str, Any]) -> str:
    if not task["own"] or task["best"] is None:
        return "-"
    return f"{100 * (1 - task['best'] / task['own']):.1f} %"


def _difference(task: Mapping[str, Any]) -> list[str]:
    """Lines that only one of the plans has: − the target's own, + the best."""
    return [line for line in ndiff(task["own_plan"].splitlines(), task["plan"].splitlines())
            if line[:2] in ("- ", "+ ")]
