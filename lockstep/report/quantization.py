"""The page that ``lockstep quantize --report`` writes: noise of each layer, picture and table."""

from collections.abc import Mapping, Sequence
from typing import IO, Any

from lockstep.printing.lines import shortened
from lockstep.report.plain_page import picture, write_plain_page

SERIES = (("alone", "alone_db", "this layer quantized, all others in float"),
          ("accumulated", "accumulated_db", "in the quantized network"),
          ("at output", "effect_db", "noise of the network's output, this layer quantized"))

_NAMES = 16         # under the picture


def write_quantization_page(file: IO[bytes], figures: Mapping[str, Any]) -> None:
    """Writes the page of the command's figures, as UTF-8; the page works offline."""
    series = _present(figures)
    headings = ("layer", *(label for label, *_ in series), "numbers", "operator", "why")
    write_plain_page(
        file, f"Quantization of {figures['model']}", "quantization.html", figures,
        summary=_summary(figures), noise=_picture(figures), headings=headings,
        words=[headings.index(word) for word in ("layer", "numbers", "operator", "why")],
        rows=[_row(layer, series) for layer in figures["layers"]])


def _summary(figures: Mapping[str, Any]) -> str:
    noise, agreement = figures["sqnr_db"], figures["agreement"]
    parts = [f"observer {figures['observer']}", f"{figures['samples']} samples",
             "no noise at the output" if noise is None else f"output {noise:.1f} dB"]
    if agreement is not None:
        parts.append(f"{agreement:.2%} of the largest outputs as in float")
    if figures["equalize"]:
        parts.append(f"{figures['equalized_pairs']} pairs of layers equalized")
    if figures["bias_correction"]:
        parts.append("biases corrected")
    return ", ".join(parts)


def _present(figures: Mapping[str, Any]):
    return [series for series in SERIES
            if any(layer[series[1]] is not None for layer in figures["layers"])]


def _picture(figures: Mapping[str, Any]) -> str:
    """Draws one line per series over the layers in order; marks layers in float at the bottom."""
    import plotly.graph_objects as go

    layers = figures["layers"]
    names, places = [layer["name"] for layer in layers], list(range(len(layers)))
    lines: list[Any] = [
        go.Scatter(x=places, y=[layer[key] for layer in layers], name=f"{label}: {meaning}",
                   mode="lines+markers", connectgaps=False, text=names)
        for label, key, meaning in _present(figures)]
    floats = [place for place in places if not layers[place]["quantized"]]
    if floats:
        lines.append(go.Scatter(
            x=floats, y=[0] * len(floats), name="in float",
            mode="markers", marker={"symbol": "x", "color": "#888"},
            text=[f"{names[place]}: {layers[place]['reason']}" for place in floats]))
    shown = places[::-(-len(places) // _NAMES) or 1]
    return picture(lines, "noise", yaxis_title="dB", legend={"orientation": "h", "y": 1.15},
                   xaxis={"tickvals": shown, "ticktext": [shortened(names[n], 18) for n in shown]})


def _why(layer: Mapping[str, Any]) -> str:
    """Why a layer is in float, or by which instruction of the machine it is computed."""
    by = f"by {layer['by']}, steps off: {layer['steps_off']}" if layer["by"] else ""
    return layer["reason"] or layer["declined"] or by


def _row(layer: Mapping[str, Any], series: Sequence[tuple[str, str, str]]) -> list[str]:
    """A layer's row; its first columns fit a phone."""
    return [layer["name"],
            *("-" if layer[key] is None else f"{layer[key]:.1f}" for _, key, _ in series),
            "int8" if layer["quantized"] else "float", layer["op"], _why(layer)]
