"""Tables of two machines side by side: estimates, units, layers."""

from collections.abc import Iterator, Mapping, Sequence

from accel.estimates.area import area
from accel.estimates.estimate import Estimate
from accel.estimates.silicon import silicon_area
from accel.estimates.technology import Silicon, Technology
from accel.machine.machine import Machine
from lockstep.intrinsics.bench import change
from lockstep.printing.table import show_columns
from lockstep.compare import NetworkCycles
from lockstep.printing.lines import say, shortened

CELLS = ("luts", "registers", "multipliers", "block_rams")


def show_estimates(machines: Sequence[Machine], titles: Sequence[str], technology: Technology
                   ) -> None:
    """Show area, as a whole and by unit, and the clock, as far as the technology has them."""
    here, there = map(area, machines)
    whole = (*(CELLS if "fpga" in technology.has else ()), "gates")
    parts = ("luts", "registers") if "fpga" in technology.has else ("gates",)
    rows = [*_on_a_chip(machines, technology.silicon)] if technology.silicon else []
    rows += [[name, *_pair(getattr(here, name), getattr(there, name))] for name in whole]
    rows += [[f"{unit}: {name}", *_pair(here.units[unit][name], there.units[unit][name])]
             for unit in here.units if unit in there.units for name in parts]
    rows.append(["mhz", *_pair(*map(technology.clock, machines))])
    show_columns(f"area and clock in {technology.name}, estimated (?: extrapolated)",
                 ["", *titles, "change"], rows)
    say(f"technology {technology.name}: {technology.summary}")


def _on_a_chip(machines: Sequence[Machine], silicon: Silicon) -> Iterator[list[str]]:
    areas = [silicon_area(machine, silicon) for machine in machines]
    for title, part in (("area, mm2", "core"), ("logic, mm2", "logic"), ("memories, mm2",
                                                                         "memories")):
        yield [title, *_pair(*(getattr(one, part) for one in areas))]


def _pair(here: Estimate, there: Estimate) -> list[str]:
    return [_estimate(here), _estimate(there), change(here.value, there.value)]


def _estimate(one: Estimate) -> str:
    share = (one.high - one.low) / 2 / one.value if one.value else 0
    value = (f"{one.value:,.0f}" if one.value == int(one.value) else
             f"{one.value:,.1f}" if one.value >= 10 else f"{one.value:.4g}")
    return f"{value}{f' ±{share:.0%}' if 0 < share < 1 else ''}{'?' if one.extrapolated else ''}"


def show_units(name: str, here: NetworkCycles, there: NetworkCycles, titles: Sequence[str]) -> None:
    """Show how long each unit was busy, and the energy that each takes."""
    rows = [[f"{unit}: busy cycles", f"{here.busy[unit]:,}", f"{there.busy[unit]:,}",
             change(here.busy[unit], there.busy[unit])] for unit in here.busy]
    for unit in dict.fromkeys([*here.joules, *there.joules]):
        pair = [one.joules.get(unit, 0.0) for one in (here, there)]     # one may run nothing there
        if any(pair):
            rows.append([f"{unit}: uJ", *(f"{1e6 * joules:,.4g}" for joules in pair),
                         change(*pair)])
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
