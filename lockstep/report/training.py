"""The page that ``lockstep train --page`` writes: curves of loss and rate."""

from collections.abc import Mapping
from typing import IO, Any

from lockstep.report.plain_page import picture, write_plain_page


def write_training_page(file: IO[bytes], figures: Mapping[str, Any]) -> None:
    """Writes the page of the command's figures, as UTF-8; the page works offline."""
    write_plain_page(file, f"Training of {figures['model']}", "training.html", figures,
                     summary=_summary(figures), losses=_curves(figures))


def _summary(figures: Mapping[str, Any]) -> str:
    return (f"{figures['steps']:,} steps, {figures['parameters']} weights of "
            f"{figures['numbers']:,} numbers, loss {figures['loss']}: {figures['losses'][0]:.4g} "
            f"in the first step, {figures['losses'][-1]:.4g} in the last")


def _curves(figures: Mapping[str, Any]) -> str:
    """Draws the loss before each step, and the rate of it."""
    import plotly.graph_objects as go

    steps = list(range(len(figures["losses"])))
    lines = [go.Scatter(x=steps, y=figures["losses"], name="loss", mode="lines"),
             go.Scatter(x=steps, y=figures["rates"], name="rate", mode="lines", yaxis="y2",
                        line={"dash": "dot"})]
    return picture(lines, "losses", xaxis_title="step", yaxis_title="loss",
                   yaxis2={"title": "rate", "overlaying": "y", "side": "right"},
                   legend={"orientation": "h", "y": 1.15})
