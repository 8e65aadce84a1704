"""Tables of two machines side by side: estimates, units, layers."""

from collections.abc import Mapping, Sequence

from accel.estimates.area import area
from accel.estimates.clock import clock
from accel.estimates.estimate import Estimate
from accel.machine.machine import Machine
from lockstep.intrinsics.bench import change
from lockstep.printing.table import show_columns
from lockstep.compare import NetworkCycles
from lockstep.printing.lines import shortened

__all__ = ["show_estimates", "show_layers", "show_units"]

FIGURES = ("luts", "registers", "multipliers", "block_rams", "gates")


def show_estimates(machines: Sequence[Machine], titles: Sequence[str]) -> None:
    """Show area, as a whole and by unit, and the clock."""
    here, there = map(area, machines)
    rows = [[name, *_pair(getattr(here, name), getattr(there, name))] for name in FIGURES]
    rows += [[f"{unit}: {name}", *_pair(here.units[unit][name], there.units[unit][name])]
             for unit in here.units if unit in there.units for name in ("luts", "registers")]
    rows.append(["mhz", *_pair(*map(clock, machines))])
    show_columns("area and clock on an ECP5, estimated (?: extrapolated)",
                 ["", *titles, "change"], rows)


def _pair(here: Estimate, there: Estimate) -> list[str]:
    return [_estimate(here), _estimate(there), change(here.value, there.value)]


def _estimate(one: Estimate) -> str:
    share = (one.high - one.low) / 2 / one.value if one.value else 0
    value = f"{one.value:,.0f}" if one.value == int(one.value) else f"{one.value:,.1f}"
    return f"{value}{f' ±{share:.0%}' if 0 < share < 1 else ''}{'?' if one.extrapolated else ''}"


def show_units(name: str, here: NetworkCycles, there: NetworkCycles, titles: Sequence[str]) -> None:
    """Show how long each unit was busy, and the energy that each takes."""
    rows = [[f"{unit}: busy cycles", f"{here.busy[unit]:,}", f"{there.busy[unit]:,}",
             change(here.busy[unit], there.busy[unit])] for unit in here.busy]
    rows += [[f"{unit}: uJ", *(f"{1e6 * one.joules[unit]:,.4g}" for one in (here, there)),
              change(here.joules[unit], there.joules[unit])]
             for unit in here.joules if here.joules[unit] or there.joules.get(unit)]
    show_columns(f"{name}: units", ["unit", *titles, "change"], rows)


def show_layers(name: str, here: NetworkCycles, there: NetworkCycles, titles: Sequence[str]
                ) -> None:
    """Show each layer's cycles and what bounds it. Layers that only one machine has stand there
    once: which are computed together depends on the machine.
    """
    sides: list[Mapping[str, tuple[int, str]]] = [
        {layer: (cycles, bound) for layer, cycles, _, bound in one.rows} for one in (here, there)]
    rows = []
    for layer in dict.fromkeys([*sides[0], *sides[1]]):
        found = [side.get(layer) for side in sides]
        cells = ["-" if one is None else f"{one[0]:,}" for one in found]
        before, after = ("-" if one is None else one[1] or "-" for one in found)
        both = None not in found
        rows.append([shortened(layer), *cells,
                     change(*(one[0] for one in found if one)) if both else "",
                     before if before == after else f"{before} -> {after}"])
    rows.append(["all", f"{here.cycles:,}", f"{there.cycles:,}",
                 change(here.cycles, there.cycles), ""])
    show_columns(f"{name}: cycles of layers, and what bounds them",
                 ["layer", *titles, "change", "bound by"], rows)
