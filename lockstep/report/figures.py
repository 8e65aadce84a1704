"""The figures of the page: plain, exact data, equal for equal inputs."""

import hashlib
import math
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from accel.figures.layers import LayerRow
from accel.figures.traffic import unit_bytes
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.structure import FETCH
from lockstep.printing.columns import largest_stall
from lockstep.printing.lines import counted, host_entries
from lockstep.printing.whole import accuracy_text

from .series import Grid, Recording, activity_series, occupancy_series


def page_figures(report: Mapping[str, Any], recordings: Sequence[Recording], machine: Machine,
                 options: Mapping[str, str]) -> dict[str, Any]:
    """Figures of runs with timelines, one after the other.

    `report` is `runtime.report` of the same runs, with ``model``, ``target`` and ``simulator``;
    `options` are further lines for the head. In the result, for each unit the cycles by activity
    add up to those of the run in ``counters``, in ``timeline``, and over the ``layers`` (of
    which each ``finish`` is one).
    """
    grid = Grid.of(report["cycles"])
    layers = _layers(report["layers"], machine, [program for program, _ in recordings])
    return {
        "title": f"{Path(report['model']).name} on {machine.config.name}",
        "head": _head(report, [program for program, _ in recordings], machine, options),
        "cycles": report["cycles"], "seconds": report["seconds"], "macs": report["macs"],
        "utilization": report["utilization"], "ideal": _ideal(layers),
        "bound_cycles": report["bound_cycles"],
        "roofs": _roofs(machine),
        "units": machine.structure.names,
        "movers": {unit.name: "read" if unit.writes else "written"
                   for unit in machine.structure.units if unit.kind.moves} | {FETCH: "read"},
        "activities": machine.structure.activities,
        "counters": {"activity": _added([counters["activity"] for counters in report["counters"]]),
                     "bytes": _sum([counters["bytes"] for counters in report["counters"]])},
        "layers": layers, "energy": report.get("energy", {}),
        "instructions": report["instructions"],
        "provenance": report.get("provenance", {}), "host": report["host"],
        "host_reasons": list(counted("on the host", host_entries(report), verbose=False)),
        "timeline": {"bucket_cycles": grid.width, "activity": activity_series(recordings, grid)},
        "occupancy": {"bucket_cycles": grid.width,
                      "buffers": _buffers(machine, occupancy_series(machine, recordings, grid))},
    }


def _sum(tables: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(table[name] for table in tables) for name in tables[0]}


def _added(tables: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    return {unit: _sum([table[unit] for table in tables]) for unit in tables[0]}


# ---- head --------------------------------------------------------------------------------------

def _head(report: Mapping[str, Any], programs: Sequence[AccelProgram], machine: Machine,
          options: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Headings, each with lines of a name and a value."""
    config, dram = machine.config, machine.config.memory
    return {
        "Machine": {
            "name": config.name,
            "array": f"{config.batch} × {config.block_in} × {config.block_out}, "
                     f"{config.macs_per_cycle:,} products a cycle",
            "bus": f"{config.bus_bytes} bytes a cycle" + (
                f" on each of {config.channels} channels" if config.channels > 1 else ""),
            "buffers": ", ".join(f"{buffer.name} {_binary(buffer.size_bytes)}"
                                 for buffer in config.buffers.values()),
            "queues": f"{config.queue_depth} commands a unit",
            "clock": f"{config.clock_mhz} MHz",
            **({"technology": f"{built['name']}: {built['text']}"}
               if (built := report.get("technology")) else {}),
            "machine hash": machine.hash},
        "Program": {
            "model": report["model"], "target": report["target"],
            "layers": f"{sum(len(program.layers) for program in programs)} on the accelerator, "
                      f"{len(report['host'])} nodes on the host",
            "instructions": f"{sum(program.count for program in programs):,}",
            "program hash": _hash(programs), **options,
            **({"accuracy": accuracy_text(told)} if (told := report.get("quantized")) else {})},
        "Memory": {
            "latency": f"{dram.latency} cycles",
            "outstanding": f"{dram.outstanding} bursts",
            "rate": f"{_rate(machine):g} bytes a cycle",
            "rows": (f"{dram.row_bytes:,} bytes in {dram.banks} banks, {dram.row_miss} cycles a "
                     f"miss" if dram.row_bytes else "none"),
            "order": "that of requests" if dram.in_order else "that of reads, that of writes",
            "refresh": (f"{dram.refresh_cycles} cycles, every {dram.refresh_interval}"
                        if dram.refresh_interval else "none"),
            "stalls": f"random, seed {dram.stall_seed}" if dram.stall_seed else "none"},
        "Versions": {
            "lockstep": metadata.version("lockstep-hw"), "simulator": report["simulator"],
            "plotly": metadata.version("plotly"), "numpy": metadata.version("numpy"),
            "python": platform.python_version()},
    }


def _binary(size: int) -> str:
    """Formats bytes in the usual binary unit: ``32 KiB``."""
    return f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B"


def _hash(programs: Sequence[AccelProgram]) -> str:
    """The SHA-256 of the words and weights."""
    digest = hashlib.sha256()
    for program in programs:
        digest.update(program.words.tobytes())
        digest.update(program.weights.tobytes())
    return digest.hexdigest()


def _rate(machine: Machine) -> float:
    """The bytes per cycle that load and store can move."""
    return machine.config.rate_of(machine.config.memory, clients=2)


def _roofs(machine: Machine) -> dict[str, float]:
    """Roofs of the roofline: products per cycle, and bytes per cycle of bus and memory."""
    return {"macs_per_cycle": machine.config.macs_per_cycle,
            "bus_bytes": machine.config.rate_of(clients=2), "memory_bytes": _rate(machine)}


# ---- layers ------------------------------------------------------------------------------------

def _layers(rows: Sequence[Mapping[str, Any]], machine: Machine,
            programs: Sequence[AccelProgram]) -> list[dict[str, Any]]:
    moved = [table for program in programs for table in _bytes(machine, program)]
    layers, begin = [], 0
    for row, table in zip(rows, moved, strict=True):
        activity = {unit: {"busy": row["busy"][unit], **row["stalls"][unit]}
                    for unit in machine.structure.names}
        shown = (*_SHOWN, *({"energy"} & row.keys()))
        layers.append({"begin": begin, **{key: row[key] for key in shown}, "bytes": table,
                       "activity": activity, "largest_stall": largest_stall(LayerRow.of(row))})
        begin += row["cycles"]
    return layers


def row_of(layer: Mapping[str, Any]) -> LayerRow:
    """The row of a layer of the page's figures."""
    activity = layer["activity"]
    return LayerRow(busy={unit: did["busy"] for unit, did in activity.items()},
                    stalls={unit: {cause: count for cause, count in did.items() if cause != "busy"}
                            for unit, did in activity.items()},
                    moved=layer["bytes"], **{key: layer[key] for key in _SHOWN})


def total_of(figures: Mapping[str, Any]) -> LayerRow:
    """The row that sums up the layers of the page's figures."""
    layers = figures["layers"]
    return LayerRow(name="all", op="", cycles=figures["cycles"],
                    ideal_cycles=figures["ideal"]["cycles"], macs=figures["macs"],
                    utilization=figures["utilization"], bound_cycles=figures["bound_cycles"],
                    moved={unit: sum(layer["bytes"][unit] for layer in layers)
                           for unit in layers[0]["bytes"]})


_SHOWN = ("name", "op", "cycles", "ideal_cycles", "bound_cycles", "macs", "utilization", "carrier")
"""Fields of a row that the page has."""


def _bytes(machine: Machine, program: AccelProgram) -> list[dict[str, int]]:
    """The bytes that each layer's instructions move, and FINISH's; padding does not count."""
    moved = unit_bytes(machine, program)
    edges = [0, *(end for _, end in program.layers), program.count]
    structure = machine.structure
    movers = (structure.roles.load, structure.roles.store, FETCH)
    return [{unit: int(moved[unit][begin:end].sum()) for unit in movers}
            for begin, end in pairwise(edges)]


def _ideal(layers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The total of ideal cycles, and the geometric mean of real ÷ ideal over the layers with ideal
    cycles.
    """
    ratios = [layer["cycles"] / layer["ideal_cycles"] for layer in layers
              if layer["ideal_cycles"] and layer["cycles"]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0
    return {"cycles": sum(layer["ideal_cycles"] for layer in layers), "mean_ratio": mean}


# ---- buffers -----------------------------------------------------------------------------------

def _buffers(machine: Machine, series: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: {"entries": buffer.depth, "entry_bytes": buffer.entry_bytes, **series[name]}
            for name, buffer in machine.config.buffers.items()}
