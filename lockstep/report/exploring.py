"""The page that ``lockstep explore --report`` writes: fronts, machines, each field alone.

It holds the answer (`runtime.exploring.answers`) as JSON, from which the pictures are drawn, and
the table of machines as HTML.
"""

from collections.abc import Mapping, Sequence
from typing import IO, Any

from lockstep.printing.instructions import OWN_HEADINGS, own_cells
from lockstep.report.page import page_parts
from lockstep.report.templates import rendered

MOST_REASONS = 100


def write_exploration_page(file: IO[bytes], answer: Mapping[str, Any]) -> None:
    """Writes the page, as UTF-8; it works offline."""
    title = f"{', '.join(answer['networks'])} on machines like {answer['base']}"
    names = [one["name"] for one in answer["objectives"]]
    titles = [one["title"] for one in answer["objectives"]]
    file.write(rendered(
        "report/exploring.html", **page_parts(answer, title, "exploring.js"),
        numbers=_numbers(answer), headings=["machine", *titles, "on the host", "bound by"],
        rows=[_row(point, names) for point in _ordered(answer)], built=_built(answer),
        own=own_cells(answer), own_headings=OWN_HEADINGS, refused=_refused(answer),
        most_reasons=MOST_REASONS).encode())


def _numbers(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [("machines measured", f"{len(answer['points']):,}"),
            ("combinations", f"{answer['combinations']:,}"),
            ("on the front", f"{len(answer['front']):,}"),
            ("strategy, seed", f"{answer['strategy']}, {answer['seed']}"),
            ("technology", f"{answer['technology']['name']}: {answer['technology']['text']}"),
            ("host", answer["host"]["text"]),
            *(("network", text) for text in (*answer["quantized"], *answer["made_for"])),
            ("budget", ", ".join(answer["budgets"]) or "none")]


def _ordered(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The front first, then the others in the order in which they were measured."""
    points = answer["points"]
    return [points[number] for number in answer["front"]] + [
        point for point in points if not point["front"]]


def _row(point: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [_mark(point) + point["label"],
            *(_figure(point["values"][name][0]) for name in names), on_host(point),
            ", ".join(f"{bound} {share:.0%}"
                      for bound, share in [*point["bounds"].items()][:3])]


def on_host(point: Mapping[str, Any]) -> str:
    """The layers of the host, and what it and copies take of the time; ``!`` where the base divides
    networks otherwise.
    """
    count, share = point["host_layers"], point["host_share"]
    mark = " !" if point["other_division"] else ""
    return f"{count} {'layer' if count == 1 else 'layers'}, {share:.0%}{mark}"


def _mark(point: Mapping[str, Any]) -> str:
    mark = "★" * point["front"] + "~" * bool(point["rivals"])
    return f"{mark} " if mark else ""


def _built(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The cores that tools have built, beside the estimates."""
    points = [point for point in answer["points"] if point["built"]]
    names = [one["name"] for one in answer["objectives"]
             if any(one["name"] in point["built"]["figures"] for point in points)]
    tools = ", ".join(dict.fromkeys(tool for point in points for tool in point["built"]["tools"]))
    return {"headings": ["machine", *names, "FPGA"], "tools": tools,
            "rows": [_built_row(point, names) for point in points]}


def _built_row(point: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    built = point["built"]
    return [point["label"],
            *(f"{_figure(built['figures'][name])} ({built['off'][name]:+.1%})"
              if name in built["figures"] else "-" for name in names),
            built["error"] or built["device"] or "-"]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.4g}"


def _refused(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Points that cannot be built, are over the budget or were not measured, with the reasons."""
    return [(", ".join(f"{name} {option}" for name, option in one["choices"].items()),
             one["reason"]) for one in answer["refused"]] + [
            (", ".join(f"{name} {there}" for name, (_, there) in one["changes"].items()),
             one["reason"]) for one in answer["failed"]]
