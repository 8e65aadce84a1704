"""Prints the end of a run: the table of layers, which target ran what, and why."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from accel.figures.layers import LayerRow
from compiler.graph.notes import Note
from lockstep.printing.columns import LAYER_COLUMNS, cells
from lockstep.printing.lines import counted, host_entries, say, shortened
from lockstep.printing.table import show_table
from lockstep.printing.whole import accuracy_text, whole_time

_SEGMENTS = 8       # further ones are only counted
_PADDED = 3


def show(figures: Mapping[str, Any], verbose: bool = False, bounds: bool = False) -> None:
    """Prints advice, the layers, the totals and what ran on the host; with `bounds` the layers
    beside the least that they take.
    """
    from runtime.driver.pipeline import is_about_float

    for note in filter(is_about_float, figures["notes"]):
        say(note)
    timed = any(layer["cycles"] for layer in figures["layers"])
    if figures["layers"]:
        _show_layers(figures, timed, bounds)
    if figures["cycles"]:
        say(f"{figures['cycles']:,} cycles, {figures['seconds'] * 1e3:.3f} ms at "
            f"{_clock(figures)}, array busy {figures['utilization']:.1%}")
    if "technology" in figures:
        say(f"technology {figures['technology']['name']}: {figures['technology']['text']}")
    if part := figures.get("whole"):
        say(whole_time(part))
    if told := figures.get("quantized"):
        say(f"quantized: {told['quantized']} of {told['layers']} layers, accuracy "
            f"{accuracy_text(told)}")
    if bounds and figures["cycles"] and figures["bound_cycles"]:
        say(f"at least {figures['bound_cycles']:,} cycles whatever the tilings: a better mapping "
            f"saves {1 - figures['bound_cycles'] / figures['cycles']:.1%} at most")
    for line in (*_padding(figures["layers"]), *_division(figures, verbose), *_layout(figures),
                 *reason_lines(figures, verbose)):
        say(line)
    for output in figures["outputs"]:
        say(f"output {output['name']} {output['dtype']}{output['shape']} "
            f"sha256 {output['sha256'][:16]}")
    precision = figures.get("precision", {"errors": {}})
    for name, error in precision["errors"].items():
        say(f"{name} in {precision['kind']}: {error:.1e} of its greatest element from float32")
    if figures["seed"] is not None:
        say(f"random input, seed {figures['seed']}")


def _padding(layers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The share of the array that padded blocks leave, of all products and of the layers that get
    least."""
    rows = [row for row in map(LayerRow.of, layers) if row.array_bound]
    padded = sorted((row for row in rows if row.array_bound < 1), key=lambda row: row.array_bound)
    if padded:
        whole = sum(row.macs for row in rows) / sum(row.macs / row.array_bound for row in rows)
        few = [f"{row.array_bound:.1%} to {shortened(row.name)}" for row in padded[:_PADDED]]
        more = [f"less than all to {len(padded) - _PADDED} more"] if len(padded) > _PADDED else []
        yield f"padding leaves {whole:.1%} of the array: {', '.join([*few, *more])}"


def _clock(figures: Mapping[str, Any]) -> str:
    """The clock that times are at."""
    if "technology" not in figures:
        return "the machine's clock"
    technology = figures["technology"]
    share = (technology["mhz_high"] - technology["mhz_low"]) / 2 / technology["mhz"]
    return f"{technology['mhz']:g} MHz" + (f" ±{share:.0%}" if share else "")


def _division(figures: Mapping[str, Any], verbose: bool = False) -> Iterator[str]:
    """The segments in order, if there are several, and the figures that `auto` decided by."""
    auto = figures["auto"]
    yield from segment_lines(figures, verbose)
    if not auto:
        return
    yield from _copies(auto["copies"], verbose)
    others = ", ".join(f"{name} {_micro(s)}" for name, s in auto["candidates"].items())
    yield f"auto took {auto['chosen']} of {others}" + (
        "" if auto["exact"] else "; not all divisions were looked at")
    yield "assumed: " + ", ".join(f"{name} {figure['value']:g} {figure['unit']}"
                                  for name, figure in auto["assumed"].items())
    yield from auto["notes"]


def segment_lines(figures: Mapping[str, Any], verbose: bool) -> Iterator[str]:
    """The segments in order, if there are several; many are counted."""
    segments, auto = figures["segments"], figures.get("auto")
    priced = auto["segments"] if auto else [None] * len(segments)
    if len(segments) > _SEGMENTS and not verbose:
        for device in dict.fromkeys(segment["device"] for segment in segments):
            own = [segment for segment in segments if segment["device"] == device]
            cycles = sum(segment["cycles"] for segment in own)
            yield (f"{len(own)} segments on {device}: "
                   f"{sum(len(segment['nodes']) for segment in own)} layers"
                   + (f", {cycles:,} cycles" if cycles else ""))
        return
    for number, (segment, price) in enumerate(zip(segments, priced, strict=True), 1):
        if len(segments) > 1 or price:
            yield f"segment {number} on {segment['device']}: {_names(segment['nodes'])}" + (
                f", {segment['cycles']:,} cycles" if segment["cycles"] else "") + (
                f", {_micro(price['seconds'])}" if price else "")


def _copies(copies: Sequence[Mapping[str, Any]], verbose: bool) -> Iterator[str]:
    if len(copies) > _SEGMENTS and not verbose:
        yield (f"{len(copies)} copies: {sum(copy['bytes'] for copy in copies):,} bytes, "
               f"{_micro(sum(copy['seconds'] for copy in copies))}")
        return
    for copy in copies:
        yield (f"copy of {shortened(copy['value'])} to {copy['target']}: {copy['bytes']:,} bytes, "
               f"{_micro(copy['seconds'])}")


def _layout(figures: Mapping[str, Any]) -> Iterator[str]:
    """The conversions between NCHW and NHWC, where there could be any."""
    layout = figures["layout"]
    if layout and layout["at_every_border"]["count"]:
        actual, at_borders = (f"{conversions['count']} ({conversions['bytes']:,} bytes)"
                              for conversions in (layout, layout["at_every_border"]))
        yield f"changes of layout: {actual}; one at every border would be {at_borders}"


def reason_lines(figures: Mapping[str, Any], verbose: bool = False) -> Iterator[str]:
    """The reasons for nodes on the host, and the compiler's notes. A network in float, where all
    nodes have the same reason, gets only their number.
    """
    from runtime.driver.pipeline import is_about_float

    notes = [(Note.of(text), text) for text in figures["notes"] if not is_about_float(text)]
    yield from (text for note, text in notes if note is None)
    if any(map(is_about_float, figures["notes"])) and not verbose:
        yield f"on the host: all {len(figures['host'])} operators (--verbose lists them)"
        return
    yield from counted("on the host", host_entries(figures), verbose)
    for fate in dict.fromkeys(note.fate for note, _ in notes if note):
        entries = [(note.node, note.op, note.reason) for note, _ in notes
                   if note and note.fate == fate]
        yield from counted(fate or "note", entries, verbose)


def _names(nodes: Sequence[str]) -> str:
    names = [shortened(name) for name in nodes]
    if len(nodes) < 4:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({len(nodes)} layers)"


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"


def _show_layers(figures: Mapping[str, Any], timed: bool, bounds: bool) -> None:
    columns = ["layer", "operator", *(_bound_columns(timed) if bounds else _columns(timed))]
    show_table(f"{figures['model']} on {figures['target']} ({figures['simulator']})",
               [LAYER_COLUMNS[name].heading for name in columns],
               [cells(columns, LayerRow.of(layer)) for layer in figures["layers"]],
               left=2, last_left=LAYER_COLUMNS[columns[-1]].words)


def _columns(timed: bool) -> Sequence[str]:
    return (("cycles", "ideal", "array", "bytes", "largest stall") if timed
            else ("ideal", "MACs", "bytes"))


def _bound_columns(timed: bool) -> Sequence[str]:
    """Cycles, if there are any, and bytes; each with its bound and the ratio to that."""
    return (*(("cycles", "least cycles", "ratio of cycles") if timed else ()),
            "bytes", "least bytes", "ratio of bytes")
