"""Estimates of area and clock beside what yosys and nextpnr made of the same machines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from accel.estimates.area import area
from accel.estimates.clock import clock, left_out
from accel.estimates.estimate import Estimate
from accel.estimates.runs import Routing, Synthesis, routings, syntheses
from fpga.building import flow

PAGE = Path(__file__).parents[2] / "docs" / "estimates.md"

BEGIN, END = "<!-- python -m bench accelerator.estimates --write -->\n", "<!-- end -->\n"

Row = dict[str, Any]


def taken(run: Synthesis) -> dict[str, int]:
    """The resources that a core takes."""
    return flow.taken(sum(map(Counter, run.parts.values()), Counter()))


def judge() -> Row:
    """The machines held back from the fit, all routed ones, and a summary of the former's errors:
    of each figure the mean and the worst, relative, and how many lie in their intervals. Of clocks
    also the errors by a fit to the others, each left out in turn.
    """
    cores = [_core(run) for run in syntheses() if run.held_back and not run.unit]
    clocks = [_clock(run) for run in routings()]
    summary = {figure: _summary([row[figure] for row in cores]) for figure in flow.CELLS}
    summary["mhz"] = _summary([row["mhz"] for row in clocks if row["held_back"]])
    errors = [abs(error) for error in left_out(
        [run for run in routings() if not run.held_back])]
    summary["mhz_left_out"] = {"count": len(errors), "mean": mean(errors), "worst": max(errors)}
    return {"area": cores, "clock": clocks, "summary": summary}


def _core(run: Synthesis) -> Row:
    found, real = area(run.spec.machine), taken(run)
    return _named(run) | {figure: _beside(getattr(found, figure), real[figure])
                          for figure in flow.CELLS}


def _clock(run: Routing) -> Row:
    return _named(run) | {"held_back": run.held_back, "board": run.board,
                          "mhz": _beside(clock(run.spec.machine), max(run.seeds.values()))}


def _named(run: Synthesis | Routing) -> Row:
    config = run.spec.machine.config
    return {"machine": config.name, "declared": run.spec.declared,
            "block": f"{config.batch}x{config.block_in}x{config.block_out}",
            "bus_bytes": config.bus_bytes, "stage_depth": config.stage_depth,
            "vector_beats": config.vector_beats}


def _beside(found: Estimate, real: float) -> Row:
    return {"real": real, "value": found.value, "low": found.low, "high": found.high,
            "extrapolated": found.extrapolated, "within": real in found,
            "error": abs(found.value - real) / max(real, 1)}


def _summary(figures: Sequence[Row]) -> Row:
    if not figures:
        return {"count": 0}
    errors = [figure["error"] for figure in figures]
    return {"count": len(errors), "mean": mean(errors), "worst": max(errors),
            "within": sum(figure["within"] for figure in figures)}


def figures(found: Row) -> Iterator[tuple[str, Any, str]]:
    """Figures of a summary: names, values, and how they are printed."""
    for figure, row in found["summary"].items():
        if row["count"]:
            yield f"{figure}_mean_error", row["mean"], ".4f"
            yield f"{figure}_worst_error", row["worst"], ".4f"
            yield f"{figure}_within", _within(row), ""


def written(found: Row, page: str) -> str:
    """The page with its table made anew."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n".join(_tables(found)) + "\n" + END + rest.split(END)[1]


def _tables(found: Row) -> list[str]:
    area_head = ["machine", "block", "bus", "beats", "depth", "instructions", "LUTs", "registers",
                 "multipliers", "block RAMs"]
    clock_head = ["machine", "block", "depth", "", "estimated, MHz", "nextpnr, MHz", "off by"]
    rows = [[row["machine"], row["block"], row["bus_bytes"], row["vector_beats"],
             row["stage_depth"], row["declared"].removesuffix(".py") or "shipped",
             *(_cell(row[figure]) for figure in flow.CELLS)] for row in found["area"]]
    clocks = [[row["machine"], row["block"], row["stage_depth"], _kind(row),
               f"{row['mhz']['value']} ({row['mhz']['low']} to {row['mhz']['high']})",
               row["mhz"]["real"], _off(row["mhz"])] for row in found["clock"]]
    totals = [[figure, f"{row['mean']:.1%}", f"{row['worst']:.1%}",
               _within(row)]
              for figure, row in found["summary"].items() if row["count"]]
    return [*_table(area_head, rows), "", *_table(clock_head, clocks), "",
            *_table(["", "mean error", "worst", "in their intervals"], totals)]


def _within(row: Row) -> str:
    return f"{row['within']}/{row['count']}" if "within" in row else f"-/{row['count']}"


def _kind(row: Row) -> str:
    kind = "held back" if row["held_back"] else f"on {row['board']}" if row["board"] else "fitted"
    return kind + (", extrapolated" if row["mhz"]["extrapolated"] else "")


def _cell(figure: Row) -> str:
    return f"{figure['real']:,} ({_off(figure)})" if figure["error"] else f"{figure['real']:,}"


def _off(figure: Row) -> str:
    return f"{figure['value'] / max(figure['real'], 1) - 1:+.1%}"


def _table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows)]
