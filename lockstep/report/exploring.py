"""The page that ``lockstep explore --report`` writes: fronts, machines, each field alone.

It holds the answer (`runtime.exploring.answers`) as JSON, from which the pictures are drawn, and
the table of machines as HTML.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import IO, Any

from lockstep.report.page import filled, page_parts

__all__ = ["write_exploration_page"]

MOST_REASONS = 100


def write_exploration_page(file: IO[bytes], answer: Mapping[str, Any]) -> None:
    """Writes the page, as UTF-8; it works offline."""
    title = f"{', '.join(answer['networks'])} on machines like {answer['base']}"
    parts = page_parts(answer, title, "exploring.js") | {
        "SUMMARY": _summary(answer), "TABLE": _table(answer), "BUILT": _built(answer),
        "REFUSED": _refused(answer)}
    file.write(filled("exploring.html", parts).encode())


def _summary(answer: Mapping[str, Any]) -> str:
    numbers = [("machines measured", f"{len(answer['points']):,}"),
               ("combinations", f"{answer['combinations']:,}"),
               ("on the front", f"{len(answer['front']):,}"),
               ("strategy, seed", f"{answer['strategy']}, {answer['seed']}"),
               ("budget", ", ".join(answer["budgets"]) or "none")]
    return "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in numbers)


def _table(answer: Mapping[str, Any]) -> str:
    """The front first, then the others in the order in which they were measured."""
    points = answer["points"]
    order = [*answer["front"], *(number for number, point in enumerate(points)
                                 if not point["front"])]
    names = [one["name"] for one in answer["objectives"]]
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    rows = "".join(_row(points[number], names) for number in order)
    return (f'<table><thead><tr><th scope="col" class="word">machine</th>{heads}'
            f'<th scope="col" class="word">bound by</th></tr></thead><tbody>{rows}</tbody></table>')


def _row(point: Mapping[str, Any], names: Sequence[str]) -> str:
    label = ("★ " if point["front"] else "") + point["label"]
    cells = "".join(f"<td>{_figure(point['values'][name][0])}</td>" for name in names)
    bounds = ", ".join(f"{bound} {share:.0%}" for bound, share in [*point["bounds"].items()][:3])
    return (f'<tr><th scope="row">{escape(label)}</th>{cells}'
            f'<td class="word">{escape(bounds)}</td></tr>')


def _built(answer: Mapping[str, Any]) -> str:
    """The cores that tools have built, beside the estimates; nothing where they have built none."""
    points = [point for point in answer["points"] if point["built"]]
    if not points:
        return ""
    names = [one["name"] for one in answer["objectives"]
             if any(one["name"] in point["built"]["figures"] for point in points)]
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    rows = "".join(_built_row(point, names) for point in points)
    tools = ", ".join(dict.fromkeys(tool for point in points for tool in point["built"]["tools"]))
    return (f'<section><h2>Cores that were built</h2><p>By {escape(tools)}, on an ECP5. In '
            f'parentheses how far the estimate is off.</p><div class="scroll"><table><thead><tr>'
            f'<th scope="col" class="word">machine</th>{heads}<th scope="col" class="word">FPGA'
            f'</th></tr></thead><tbody>{rows}</tbody></table></div></section>')


def _built_row(point: Mapping[str, Any], names: Sequence[str]) -> str:
    built = point["built"]
    cells = "".join(f"<td>{_figure(built['figures'][name])} ({built['off'][name]:+.1%})</td>"
                    if name in built["figures"] else "<td>-</td>" for name in names)
    return (f'<tr><th scope="row">{escape(point["label"])}</th>{cells}'
            f'<td class="word">{escape(built["error"] or built["device"] or "-")}</td></tr>')


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.4g}"


def _refused(answer: Mapping[str, Any]) -> str:
    """Points that cannot be built, are over the budget or were not measured, with the reasons."""
    entries = [(", ".join(f"{name} {option}" for name, option in one["choices"].items()),
                one["reason"]) for one in answer["refused"]]
    entries += [(", ".join(f"{name} {there}" for name, (_, there) in one["changes"].items()),
                 one["reason"]) for one in answer["failed"]]
    if not entries:
        return "<p>There are none.</p>"
    lines = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(reason)}</dd></div>"
                    for name, reason in entries[:MOST_REASONS])
    more = len(entries) - MOST_REASONS
    return (f"<details><summary>{len(entries):,} machines</summary><dl>{lines}</dl>"
            + (f"<p>and {more:,} more</p>" if more > 0 else "") + "</details>")
