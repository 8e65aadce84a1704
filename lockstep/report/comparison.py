"""The page that ``lockstep intrinsic diff --html`` writes: two machines in pictures and tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from lockstep.printing.instructions import side_by_side
from lockstep.report.plain_page import picture, write_plain_page

Rows = Sequence[tuple[str, int, int]]


def write_comparison(file: IO[bytes], figures: Mapping[str, Any], hardware: Rows) -> None:
    """Writes the page of the command's figures, as UTF-8; the page works offline. `hardware` has
    names and the numbers of both machines.
    """
    names = [machine["name"] for machine in figures["machines"]]
    title = f"{names[0]} and {names[1]}"
    cycles = [(network, some[0]["cycles"], some[1]["cycles"])
              for network, some in figures["networks"].items()]
    counts = [row for row in hardware if not row[0].endswith(": bytes")]
    write_plain_page(
        file, title, "comparison.html", figures, sentences=_sentences(figures), names=names,
        cycles=_told(cycles), hardware=_told(hardware),
        instructions=[*side_by_side(figures["networks"])],
        cycles_picture=cycles and _picture(cycles, names, "cycles", "cycles"),
        hardware_picture=_picture(_relative(counts), names, "hardware",
                                  "of the first machine, %", first=not cycles))


def _sentences(figures: Mapping[str, Any]) -> Iterator[str]:
    for field, (here, there) in figures["geometry"].items():
        yield f"{field}: {here} → {there}"
    yield from (f"{name}: is one more" for name in figures["added"])
    yield from (f"{name}: is missing" for name in figures["removed"])
    for name, sentences in figures["changed"].items():
        yield from (f"{name}: {sentence}" for sentence in sentences)
    for name, (here, there) in figures["opcodes"].items():
        yield f"{name}: opcode {here} → {there}"


def _relative(rows: Rows) -> Rows:
    """Numbers as per cent of the first machine's; what it does not have is left out."""
    return [(name, 100, round(100 * there / here)) for name, here, there in rows if here]


def _picture(rows: Rows, names: Sequence[str], place: str, axis: str, first: bool = True) -> str:
    """Draws two bars for each row."""
    import plotly.graph_objects as go

    return picture([go.Bar(name=name, x=[row[0] for row in rows],
                           y=[row[1 + number] for row in rows])
                    for number, name in enumerate(names)], place, first, barmode="group",
                   yaxis_title=axis, legend={"orientation": "h", "y": 1.12})


def _told(rows: Rows) -> list[tuple[str, str, str]]:
    return [(name, f"{here:,}", f"{there:,}") for name, here, there in rows]
