"""Axes that several pictures have."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def with_thousands(axes: "Axes") -> None:
    """Numbers across with commas."""
    axes.xaxis.set_major_formatter("{x:,.0f}")


def logarithmic(axes: "Axes") -> None:
    """Both axes in logarithms, with plain numbers at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())
