"""The whole of a run in the terminal: accelerator, host and copies."""

from collections.abc import Mapping
from typing import Any

NAMED = 4               # layers of the host


def accuracy_text(told: Mapping[str, Any]) -> str:
    """The accuracy of a quantized network: decibels, or the number of a metric."""
    value, unit = told["accuracy"], told["unit"]
    return f"{value:.1f} {unit}" if unit else f"{value:,.4g}"


def whole_time(part: Mapping[str, Any]) -> str:
    """The host's part of a run, and the whole, from `HostPart.plain`."""
    layers, count = part["layers"], len(part["layers"])
    named = f": {', '.join(layers)}" if 0 < count <= NAMED else ""
    how = "measured" if part["is_measured"] else "by counts"
    return (f"host {1e3 * part['seconds']:.3f} ms ({count} {'layer' if count == 1 else 'layers'}"
            f"{named}), copies {1e3 * part['copy_seconds']:.3f} ms; the whole "
            f"{1e3 * part['whole_seconds']:.3f} ms, {part['share']:.1%} of it beside the "
            f"accelerator (host: {part['host']}, {how})")


def whole_energy(part: Mapping[str, Any], accelerator_joules: float) -> str:
    """The energy of the host's part, and of the whole with what leaks meanwhile."""
    joules = part["joules"]
    if joules is None:
        return "energy of host and copies: absent"
    whole = joules + accelerator_joules + part["waiting_joules"]
    return (f"energy of host and copies {1e6 * joules:,.4g} uJ; the whole {1e6 * whole:,.4g} uJ, "
            f"with {1e6 * part['waiting_joules']:,.4g} uJ that leak meanwhile")
