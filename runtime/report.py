"""What a run did, as plain data: docs/machine.md, Reports."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from accel.figures.attribution import activities, layer_ends
from accel.figures.traffic import dram_bytes
from accel.machine.machine import Machine
from accel.machine.program import Program
from accel.machine.status import STALLS, Run
from accel.mapping.work import Work
from compiler.graph.notes import Note
from compiler.graph.partition import ACCEL
from runtime.module import Module

__all__ = ["layer_rows", "report"]

Activities = Mapping[str, Mapping[str, int]]
"""Unit to activity to cycles."""


def report(module: Module, runs: Sequence[Run], machine: Machine | None,
           wall_seconds: float) -> dict[str, Any]:
    """Figures of one inference; JSON-serializable.

    `cycles`, `macs` (useful ones), `utilization`, `seconds` (at the machine's clock),
    `wall_seconds`, `machine_hash`, `layers`, `host` (why each node is there), `segments` and
    `copies` in order of execution, `layout` (what is converted between NCHW and NHWC, and what
    would be with all of the host in NCHW: counts and bytes), `auto` (what that target decided by),
    `notes` (what could not become integers, and why; what costs more products than it has),
    `counters`, `outputs`.
    Without cycles (functional simulation, host alone) the figures in cycles are 0, without events
    (boards) those of layers; without a timeline, `busy` and `stalls` of the layers are empty. Else
    for each unit they add up to the layer's cycles.
    """
    layers: list[dict[str, Any]] = []
    for compiled, run in zip(module.accelerated, runs, strict=True):
        assert machine is not None
        layers += layer_rows(machine, compiled.program, compiled.work, run)
    cycles = sum(run.cycles for run in runs)
    macs = sum(layer.macs for layer in _layers(module))
    return {
        "cycles": cycles, "macs": macs,
        "utilization": _ratio(macs, cycles * machine.config.macs_per_cycle) if machine else 0.0,
        "seconds": cycles / (machine.config.clock_mhz * 1e6) if machine else 0.0,
        "wall_seconds": wall_seconds,
        "machine_hash": machine.hash if machine else "",
        "layers": layers,
        "host": dict(module.partition.reasons),
        "segments": _segments(module, runs),
        "copies": [{"value": copy.value, "source": copy.source, "target": copy.target}
                   for copy in module.partition.copies],
        "layout": module.layout,
        "auto": module.auto,
        "notes": [*module.graph.notes, *_layer_notes(module)],
        "counters": [{"activity": run.counters.activity, "bytes": run.counters.bytes}
                     for run in runs],
        "outputs": [_output(name, module.get_output(name)) for name in module.graph.outputs],
    }


def _segments(module: Module, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Those of the accelerator with their cycles, 0 where they are not simulated."""
    cycles = iter(run.cycles for run in runs)
    return [{"device": one.target, "nodes": [node.name for node in one.nodes],
             "operators": [node.op for node in one.nodes],
             "cycles": next(cycles) if one.target == ACCEL else 0}
            for one in module.partition.segments]


def _layer_notes(module: Module) -> list[str]:
    """What layers have to say, once for each node."""
    return list(dict.fromkeys(str(Note(layer.node.name, layer.node.op, "", layer.note))
                              for layer in _layers(module) if layer.note))


def _layers(module: Module) -> Iterator[Work]:
    for compiled in module.accelerated:
        for group in compiled.work:
            yield from group


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _output(name: str, array: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"name": name, "shape": list(array.shape), "dtype": array.dtype.name,
            "sha256": hashlib.sha256(little.tobytes()).hexdigest()}


def layer_rows(machine: Machine, program: Program, work: Sequence[Sequence[Work]],
               run: Run) -> list[dict[str, Any]]:
    """A row for each group of layers that were computed at the same time, and one for the rest.
    """
    moved = dram_bytes(machine, program)
    *intervals, rest = _intervals(program, run)
    rows, begin, before = [], 0, None
    for group, (name, end), interval in zip(work, program.layers, intervals, strict=True):
        again, before = group[0].node is before, group[0].node
        moves = sum(layer.input_bytes + layer.other_bytes for layer in group)
        moves -= group[0].input_bytes if again else 0       # another part of the node before
        ideal = max(sum(layer.products for layer in group), -(-moves // machine.config.bus_bytes))
        rows.append(_row(machine, name, " + ".join(layer.node.op for layer in group), *interval,
                         ideal_cycles=ideal, macs=sum(layer.macs for layer in group),
                         dram_bytes=int(moved[begin:end].sum()),
                         carrier=_carrier(machine, program.words[begin:end])))
        begin = end
    if run.retire.size:
        rows.append(_row(machine, "finish", "fetch", *rest, dram_bytes=program.words.size))
    return rows


def _intervals(program: Program, run: Run) -> list[tuple[int, Activities]]:
    """Length of each layer's interval and of what follows, and what the units did there."""
    if not run.retire.size:             # of values alone, or on a board, which counts cycles only
        return [(0, {})] * (len(program.layers) + 1)
    ends = [*layer_ends(program, run), run.cycles]
    did = activities(run.timeline, ends) if run.timeline else [{}] * len(ends)
    return list(zip(np.diff(ends, prepend=0).tolist(), did, strict=True))


def _row(machine: Machine, name: str, op: str, cycles: int, did: Activities, *,
         ideal_cycles: int = 0, macs: int = 0, dram_bytes: int = 0,
         carrier: str = "") -> dict[str, Any]:
    return {
        "name": name, "op": op, "device": "accel", "cycles": cycles, "ideal_cycles": ideal_cycles,
        "macs": macs, "utilization": _ratio(macs, cycles * machine.config.macs_per_cycle),
        "dram_bytes": dram_bytes, "carrier": carrier,
        "busy": {unit: what["busy"] for unit, what in did.items()},
        "stalls": {unit: {cause: what[cause] for cause in STALLS} for unit, what in did.items()}}


def _carrier(machine: Machine, words: np.ndarray) -> str:
    """The unit that the time of a layer is explained by: the first of these that it needs."""
    needed = {machine.units[opcode] for opcode in set(words[:, 0].tolist())}
    return next((unit for unit in ("gemm", "vector", "load", "store") if unit in needed), "")
