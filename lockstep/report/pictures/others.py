"""Pictures of a quantization, and of two machines."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lockstep.printing.lines import shortened
from lockstep.report.pictures.files import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 7.0             # inches
NAMES = 24              # under a picture
NOISE = {"alone_db": "alone", "accumulated_db": "accumulated", "effect_db": "at output"}


def quantization_pictures(figures: Mapping[str, Any]) -> dict[str, Drawing]:
    """The noise of each layer, by the name of its file."""
    return {"noise": partial(_noise, figures["layers"])}


def _noise(layers: Sequence[Mapping[str, Any]], figure: "Figure") -> None:
    """Signal to noise of each layer's result, in order; crosses mark layers in float."""
    figure.set_size_inches(WIDTH, 2.8)
    axes, places = figure.subplots(), range(len(layers))
    for key, label in NOISE.items():
        values = [float("nan") if layer[key] is None else layer[key] for layer in layers]
        if any(value == value for value in values):
            axes.plot(places, values, ".-", linewidth=.8, markersize=4, label=label)
    floats = [place for place in places if not layers[place]["quantized"]]
    if floats:
        axes.plot(floats, [0] * len(floats), "x", color="#888", label="in float")
    shown = places[::-(-len(layers) // NAMES) or 1]
    axes.set_xticks(shown, [shortened(layers[place]["name"], 18) for place in shown], rotation=60,
                    ha="right", fontsize=6)
    axes.set_ylabel("dB")
    axes.legend(ncols=4)


def comparison_pictures(figures: Mapping[str, Any], hardware: Sequence[tuple[str, int, int]]
                        ) -> dict[str, Drawing]:
    """The cycles of networks, if there are any, and the hardware relative to the first machine, by
    the names of their files.
    """
    names = [machine["name"] for machine in figures["machines"]]
    cycles = [(network, sides[0]["cycles"], sides[1]["cycles"])
              for network, sides in figures["networks"].items()]
    counts = [(name, 100.0, 100 * there / here) for name, here, there in hardware if here]
    drawings = {"hardware": partial(_pairs, counts, names, "of the first machine, %")}
    return {"cycles": partial(_pairs, cycles, names, "cycles"), **drawings} if cycles else drawings


def _pairs(rows: Sequence[tuple[str, float, float]], names: Sequence[str], label: str,
           figure: "Figure") -> None:
    """Two bars for each row."""
    figure.set_size_inches(WIDTH, .9 + .26 * len(rows))
    axes = figure.subplots()
    for number, name in enumerate(names):
        axes.barh([place + .4 * number - .2 for place in range(len(rows))],
                  [row[1 + number] for row in rows], height=.38, label=name)
    axes.set_yticks(range(len(rows)), [shortened(row[0], 40) for row in rows])
    axes.set(xlabel=label, ylim=(len(rows) - .4, -.6))
    axes.legend()
