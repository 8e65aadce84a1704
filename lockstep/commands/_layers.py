"""The table that a run ends with."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["largest_stall", "show"]


def show(figures: Mapping[str, Any]) -> None:
    """Print the layers, the sums and what ran on the host."""
    from rich.console import Console

    console = Console(markup=False, emoji=False)        # names are printed as they are
    timed = any(layer["cycles"] for layer in figures["layers"])
    if figures["layers"]:
        console.print(_table(figures, timed))
    if figures["cycles"]:
        console.print(f"{figures['cycles']:,} cycles, {figures['seconds'] * 1e3:.3f} ms at the "
                      f"machine's clock, array busy {figures['utilization']:.1%}")
    for line in (*_division(figures), *_layout(figures)):
        console.print(line, highlight=False)
    for name, reason in figures["host"].items():
        console.print(f"on the host: {name} ({reason})", highlight=False)
    for note in figures["notes"]:
        console.print(note, highlight=False, markup=False)
    for output in figures["outputs"]:
        console.print(f"output {output['name']} {output['dtype']}{output['shape']} "
                      f"sha256 {output['sha256'][:16]}", highlight=False)
    if figures["seed"] is not None:
        console.print(f"random input, seed {figures['seed']}")


def _division(figures: Mapping[str, Any]) -> Iterator[str]:
    """The segments in order, where there are several, and what `auto` decided by."""
    segments, auto = figures["segments"], figures["auto"]
    priced = auto["segments"] if auto else [None] * len(segments)
    for number, (segment, price) in enumerate(zip(segments, priced, strict=True), 1):
        if len(segments) > 1 or price:
            yield f"segment {number} on {segment['device']}: {_names(segment['nodes'])}" + (
                f", {segment['cycles']:,} cycles" if segment["cycles"] else "") + (
                f", {_micro(price['seconds'])}" if price else "")
    if not auto:
        return
    for copy in auto["copies"]:
        yield (f"copy of {copy['value']} to {copy['target']}: {copy['bytes']:,} bytes, "
               f"{_micro(copy['seconds'])}")
    others = ", ".join(f"{name} {_micro(s)}" for name, s in auto["candidates"].items())
    yield f"auto took {auto['chosen']} of {others}" + (
        "" if auto["exact"] else "; not all divisions were looked at")
    yield "assumed: " + ", ".join(f"{name} {one['value']:g} {one['unit']}"
                                  for name, one in auto["assumed"].items())
    yield from auto["notes"]


def _layout(figures: Mapping[str, Any]) -> Iterator[str]:
    """What is converted between NCHW and NHWC, where anything might be."""
    layout = figures["layout"]
    if layout and layout["at_every_border"]["count"]:
        made, all_ = (f"{one['count']} ({one['bytes']:,} bytes)"
                      for one in (layout, layout["at_every_border"]))
        yield f"changes of layout: {made}; one at every border would be {all_}"


def _names(nodes: Sequence[str]) -> str:
    if len(nodes) < 4:
        return ", ".join(nodes)
    return f"{nodes[0]} to {nodes[-1]} ({len(nodes)} layers)"


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"


def _table(figures: Mapping[str, Any], timed: bool):
    from rich.table import Table

    table = Table(title=f"{figures['model']} on {figures['target']} ({figures['simulator']})",
                  box=None, header_style="bold", pad_edge=False)
    for heading in ("layer", "operator"):
        table.add_column(heading, overflow="fold")
    numbers = ("cycles", "ideal", "array") if timed else ("ideal", "MACs")
    for heading in (*numbers, "DRAM bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    if timed:
        table.add_column("largest stall", no_wrap=True)
    for layer in figures["layers"]:
        cells = ([f"{layer['cycles']:,}", f"{layer['ideal_cycles']:,}",
                  f"{layer['utilization']:.1%}" if layer["macs"] else "-"] if timed
                 else [f"{layer['ideal_cycles']:,}", f"{layer['macs']:,}"])
        stall = [largest_stall(layer)] if timed else []
        table.add_row(layer["name"], layer["op"], *cells, f"{layer['dram_bytes']:,}", *stall)
    return table


def largest_stall(layer: Mapping[str, Any]) -> str:
    """Of the unit that carries the layer: the cause that cost most, and its share of the cycles.

    ``gemm: load 12.3%`` reads: gemm waits for load in 12.3 % of the layer's cycles.
    """
    causes = layer["stalls"].get(layer["carrier"], {})
    if not any(causes.values()):
        return "-"
    cause = max(causes, key=causes.__getitem__)
    return f"{layer['carrier']}: {cause} {causes[cause] / layer['cycles']:.1%}"
