"""The page that ``lockstep quantize --report`` writes: noise of each layer, picture and table."""

from collections.abc import Mapping
from html import escape
from typing import IO, Any

from lockstep.lines import shortened

__all__ = ["write_quantization_page"]

SERIES = (("alone", "alone_db", "this layer quantized, all others in float"),
          ("accumulated", "accumulated_db", "in the quantized network"),
          ("at output", "effect_db", "noise of the network's output, this layer quantized"))

_NAMES = 16         # under the picture

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 70rem; padding: 0 1rem }
h1, h2 { font-size: 1.2rem; overflow-wrap: anywhere }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .15rem .8rem .15rem 0; text-align: right }
.word { text-align: left }
th:first-child, td:first-child { overflow-wrap: anywhere; min-width: 8rem; padding-right: .4rem }
td:last-child { min-width: 16rem }
thead th { border-bottom: 1px solid #888 }
"""


def write_quantization_page(file: IO[bytes], figures: Mapping[str, Any]) -> None:
    """Writes the page of the command's figures, as UTF-8; the page works offline."""
    title = f"Quantization of {figures['model']}"
    page = (f"<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">"
            f"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
            f"<h1>{escape(title)}</h1><p>{escape(_summary(figures))}</p>"
            f"<h2>Signal to quantization noise of each layer's result</h2>"
            f"{_picture(figures)}<div class=\"scroll\">{_table(figures)}</div></body></html>\n")
    file.write(page.encode())


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
    picture = go.Figure(lines)
    shown = places[::-(-len(places) // _NAMES) or 1]
    picture.update_xaxes(tickvals=shown, ticktext=[shortened(names[n], 18) for n in shown])
    picture.update_layout(yaxis_title="dB", legend={"orientation": "h", "y": 1.15}, height=480,
                          margin={"l": 60, "r": 10, "t": 40, "b": 120})
    return picture.to_html(full_html=False, include_plotlyjs=True, div_id="noise")


def _why(layer: Mapping[str, Any]) -> str:
    """Why a layer is in float, or by which instruction of the machine it is computed."""
    by = f"by {layer['by']}, steps off: {layer['steps_off']}" if layer["by"] else ""
    return layer["reason"] or layer["declined"] or by


def _table(figures: Mapping[str, Any]) -> str:
    """The table of layers; its first columns fit a phone."""
    series = _present(figures)
    words = ("layer", "numbers", "operator", "why")
    headings = ("layer", *(label for label, *_ in series), "numbers", "operator", "why")
    classes = [' class="word"' if heading in words else "" for heading in headings]
    heads = "".join(f"<th{kind}>{heading}</th>" for heading, kind in zip(headings, classes))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(classes, (
            layer["name"],
            *("-" if layer[key] is None else f"{layer[key]:.1f}" for _, key, _ in series),
            "int8" if layer["quantized"] else "float", layer["op"], _why(layer)))) + "</tr>"
        for layer in figures["layers"])
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
