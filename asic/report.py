"""The figures of a netlist as plain data."""

from typing import Any

from .netlist import WIRE_FF_PER_UM, WIRE_PITCHES, MappedCore, wire_pf
from .power import PARTS
from .running import Ran
from .technology import Fitted
from .timing import SlowestPath


def figures_of(netlist: MappedCore, timing: SlowestPath, ran: Ran, network: str,
               fitted: Fitted | None) -> dict[str, Any]:
    """Area in um2 and mm2, the clock in MHz, power in mW at that clock; nothing is laid out."""
    cells, used = netlist.cells, ran.joined()
    seconds = used.cycles / (timing.mhz * 1e6)
    total = sum(unit.um2 for unit in netlist.units.values())
    logic = sum(unit.logic_um2 for unit in netlist.units.values())

    def milliwatts(joules: float) -> float:
        return float(1e3 * joules / seconds)

    units = {name: {
        "cells": unit.cells, "macros": unit.macros, "logic_um2": unit.logic_um2,
        "memory_um2": unit.memory_um2, "share": unit.um2 / total,
        "period_ns": timing.units.get(name),
        "mw": milliwatts(sum(used.units.get(name, {}).values())),
        "parts": {part: milliwatts(joules) for part, joules in used.units.get(name, {}).items()},
        "leakage_mw": float(1e3 * used.leakage_w.get(name, 0.0))}
        for name, unit in netlist.units.items()}
    parts = {part: sum(unit["parts"].get(part, 0.0) for unit in units.values()) for part in PARTS}
    leakage = sum(unit["leakage_mw"] for unit in units.values())
    return {
        "layout": "none: every figure is pre-layout",
        "machine": {"name": netlist.machine.config.name, "hash": netlist.machine.hash},
        "library": {"name": cells.name, "sha256": cells.text_hash, "node_nm": cells.node_nm,
                    "volts": cells.volts, "gates_clocks": bool(cells.gating)},
        "wires": {"ff_per_um": WIRE_FF_PER_UM, "um_per_pin": WIRE_PITCHES * cells.pitch_um,
                  "pf_per_pin": wire_pf(cells)},
        "memories": {"source": netlist.macros.source, "macros": {
            shape.name: count for shape, count in sorted(netlist.shapes.items())},
            "mean_errors": netlist.macros.process.errors},
        "area_mm2": total * 1e-6, "logic_mm2": logic * 1e-6, "memory_mm2": (total - logic) * 1e-6,
        "mhz": timing.mhz, "path": {"begin": timing.begin, "end": timing.end}, "units": units,
        "power": {"mw": sum(parts.values()) + leakage, "parts": parts, "leakage_mw": leakage},
        "run": {"network": network, "runs": ran.runs, "programs": ran.programs,
                "cycles": ran.cycles, "compared": ran.compared, "joules": used.joules},
        "technology": fitted and {"errors": dict(fitted.errors)}}
