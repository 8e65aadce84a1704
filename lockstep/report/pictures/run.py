"""Pictures of a run, of the figures of its page (`lockstep.report.figures`)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from accel.machine.config import UNITS
from lockstep.printing.lines import shortened
from lockstep.report.pictures.axes import logarithmic, with_thousands
from lockstep.report.pictures.files import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0             # inches: both columns of a page
STEPS = 400             # of a time axis
NAME = 26               # characters of a layer
APART = (100, 12)       # names, in pixels
NAMED = 6               # layers in the roofline: those that lose most cycles
COLORS = {
    "busy": "#2f6fb0", "memory": "#cf3f4f", "load": "#f5c04a", "gemm": "#e69a2e",
    "vector": "#c9741f", "store": "#9a5516", "bank": "#b59be0", "hazard": "#8462c4",
    "signal": "#56358f", "command": "#e2e6ea"}
MOVERS = ("#2f6fb0", "#e69a2e", "#9aa5b1")


def _colors(figures: Mapping[str, Any]) -> dict[str, str]:
    """The colors of activities; of units by their place, where they have names of their own."""
    of_units = [COLORS[unit] for unit in UNITS]
    return {unit: of_units[place % len(of_units)]
            for place, unit in enumerate(figures["units"])} | COLORS


def run_pictures(figures: Mapping[str, Any]) -> dict[str, Drawing]:
    """The pictures of a run, by the names of their files."""
    drawings = {"timeline": _timeline, "buffers": _buffers, "roofline": _roofline,
                "stalls": _stalls, "traffic": _traffic}
    return {name: partial(draw, figures) for name, draw in drawings.items()}


# ---- over time ---------------------------------------------------------------------------------

def _timeline(figures: Mapping[str, Any], figure: "Figure") -> None:
    """The share of every step's cycles that each unit was busy, or waited for what."""
    from matplotlib.patches import Patch

    units, width = figures["units"], figures["timeline"]["bucket_cycles"]
    colors = _colors(figures)
    figure.set_size_inches(WIDTH, 1 + .7 * len(units))
    rows: list[Axes] = [*figure.subplots(len(units), sharex=True, squeeze=False)[:, 0]]
    used = [name for name in figures["activities"] if any(
        name in figures["timeline"]["activity"][unit] for unit in units)]
    edges, lengths, starts = _steps(figures["cycles"], width)
    for unit, axes in zip(units, rows):
        table = figures["timeline"]["activity"][unit]
        below = np.zeros(len(starts))
        for name in filter(table.__contains__, used):
            above = below + np.add.reduceat(_expanded(table[name]), starts) / lengths
            axes.stairs(above, edges, baseline=below, fill=True, color=colors[name], linewidth=0)
            below = above
        axes.set(ylim=(0, 1), yticks=[], ylabel=unit, xlim=(0, figures["cycles"]))
    rows[-1].set_xlabel("cycles")
    with_thousands(rows[-1])
    figure.legend(handles=[Patch(color=colors[name], label=_meaning(name, units))
                           for name in used], loc="outside lower center", ncols=4)


def _buffers(figures: Mapping[str, Any], figure: "Figure") -> None:
    """Live entries as a share of each buffer: mean and peak of every step."""
    buffers = figures["occupancy"]["buffers"]
    figure.set_size_inches(WIDTH, .6 + .7 * len(buffers))
    rows: list[Axes] = [*figure.subplots(len(buffers), sharex=True, squeeze=False)[:, 0]]
    edges, lengths, starts = _steps(figures["cycles"], figures["occupancy"]["bucket_cycles"])
    for (name, buffer), axes in zip(buffers.items(), rows):
        peak = np.maximum.reduceat(_expanded(buffer["peak"]), starts) / buffer["entries"]
        mean = np.add.reduceat(_expanded(buffer["sum"]), starts) / lengths / buffer["entries"]
        axes.stairs(100 * peak, edges, fill=True, color="#bcd3ea", label="peak")
        axes.stairs(100 * mean, edges, fill=True, color="#2f6fb0", label="mean")
        axes.set(ylabel=f"{name}, %", ylim=(0, None), xlim=(0, figures["cycles"]))
    rows[0].legend(loc="upper right", ncols=2)
    rows[-1].set_xlabel("cycles")
    with_thousands(rows[-1])


def _expanded(runs: Sequence[int]) -> np.ndarray:
    return np.repeat(np.array(runs[::2], np.int64), runs[1::2])


def _steps(cycles: int, bucket: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges of steps in cycles, their lengths, and the bucket at which each begins."""
    buckets = -(-cycles // bucket)
    starts = np.arange(0, buckets, max(1, -(-buckets // STEPS)))
    edges = np.append(starts * bucket, cycles)
    return edges, np.diff(edges), starts


def _meaning(activity: str, units: Sequence[str]) -> str:
    waits = {"memory": "waits for memory", "bank": "bank held", "hazard": "own result pending",
             "signal": "counter full", "command": "no command"}
    return f"waits for {activity}" if activity in units else waits.get(activity, activity)


# ---- by layer ----------------------------------------------------------------------------------

def _roofline(figures: Mapping[str, Any], figure: "Figure") -> None:
    """What each layer with products reached against its products per byte; area: its cycles."""
    figure.set_size_inches(WIDTH / 2, 2.6)
    axes, roofs = figure.subplots(), figures["roofs"]
    layers = [layer for layer in figures["layers"]
              if layer["macs"] and layer["cycles"] and any(layer["bytes"].values())]
    across = np.array([layer["macs"] / sum(layer["bytes"].values()) for layer in layers])
    up = np.array([layer["macs"] / layer["cycles"] for layer in layers])
    ridge = roofs["macs_per_cycle"] / roofs["bus_bytes"]
    low, high = min([*across, ridge]) / 2, max([*across, ridge]) * 4
    slower = roofs["memory_bytes"] < roofs["bus_bytes"]
    places = np.geomspace(float(low), float(high), 200)
    for name, line in (("bus_bytes", "-"), ("memory_bytes", "--"))[:1 + slower]:
        axes.plot(places, np.minimum(places * roofs[name], roofs["macs_per_cycle"]), line,
                  color="#1c2733", linewidth=.8,
                  label=f"{name.removesuffix('_bytes')}, {roofs[name]:g} bytes a cycle")
    share = np.array([layer["cycles"] / figures["cycles"] for layer in layers])
    axes.scatter(across, up, s=8 + 400 * share, color="#2f6fb0", alpha=.7, linewidth=.3,
                 edgecolor="white")
    logarithmic(axes)
    axes.set(xlabel="products per byte", ylabel="products per cycle")
    _name_layers(axes, layers, np.stack([across, up], 1))
    axes.legend(loc="lower right")


def _name_layers(axes: "Axes", layers: Sequence[Mapping[str, Any]], points: np.ndarray) -> None:
    """Names the layers that lose most cycles, where there is room."""
    lost = [layer["cycles"] - layer["ideal_cycles"] for layer in layers]
    named: list[np.ndarray] = []
    for number in sorted(range(len(layers)), key=lost.__getitem__, reverse=True):
        place = axes.transData.transform(points[number])
        if len(named) < NAMED and all(any(abs(place - other) > APART) for other in named):
            named.append(place)
            axes.annotate(shortened(layers[number]["name"], NAME), points[number], fontsize=6,
                          xytext=(4, -7), textcoords="offset points")


def _stalls(figures: Mapping[str, Any], figure: "Figure") -> None:
    """Cycles of each layer by activity of the unit that carries it; a mark at the ideal."""
    layers = figures["layers"]
    tables = [layer["activity"][layer["carrier"] or figures["units"][0]] for layer in layers]
    used = [name for name in figures["activities"] if any(table[name] for table in tables)]
    colors = _colors(figures)
    axes = _bars(figure, layers, {
        _meaning(name, figures["units"]): (colors[name], [table[name] for table in tables])
        for name in used})
    ideal = [(layer["ideal_cycles"], place) for place, layer in enumerate(layers)
             if layer["ideal_cycles"]]
    axes.plot(*zip(*ideal), "|", color="#1c2733", markersize=7, label="ideal") if ideal else None
    axes.set_xlabel("cycles")
    with_thousands(axes)
    figure.legend(loc="outside lower center", ncols=4)


def _traffic(figures: Mapping[str, Any], figure: "Figure") -> None:
    """Bytes that each layer's instructions move."""
    layers = figures["layers"]
    axes = _bars(figure, layers, {
        name: (color, [layer["bytes"][name] for layer in layers])
        for name, color in zip(layers[0]["bytes"], MOVERS)})
    axes.set_xlabel("bytes")
    with_thousands(axes)
    figure.legend(loc="outside lower center", ncols=4)


def _bars(figure: "Figure", layers: Sequence[Mapping[str, Any]],
          parts: Mapping[str, tuple[str, Sequence[int]]]) -> "Axes":
    """Stacked bars, a row for each layer, by label with color and lengths."""
    figure.set_size_inches(WIDTH, 1 + .16 * len(layers))
    axes, places = figure.subplots(), np.arange(len(layers))
    left = np.zeros(len(layers))
    for label, (color, lengths) in parts.items():
        axes.barh(places, lengths, left=left, color=color, height=.75, label=label)
        left += lengths
    axes.set_yticks(places, [shortened(layer["name"], NAME) for layer in layers])
    axes.set_ylim(len(layers) - .4, -.6)
    return axes
