"""Reports of runs, as plain data: docs/machine.md, Reports."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from accel.figures.bounds import stream_cycles
from accel.machine.machine import Machine
from accel.machine.status import Run
from accel.figures.work import Work
from compiler import notebook
from compiler.graph.graph import Graph
from compiler.graph.notes import UNUSED, Note
from runtime.instructions import idle_lines, instruction_rows
from runtime.module import Module, Step


class RunReport(dict[str, Any]):
    """Figures of a run: plain data that shows its layers as text, and in notebooks as a table with
    a picture of the time in which each unit is busy.
    """

    def __repr__(self) -> str:
        rows = [("layer", "operator", "cycles", "ideal", "array busy"), *(
            (name, op, f"{cycles:,}", f"{ideal:,}", busy)
            for name, op, cycles, ideal, busy in self._rows())]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(cell.ljust(width) if place < 2 else cell.rjust(width)
                           for place, (cell, width) in enumerate(zip(row, widths)))
                 for row in rows]
        return "\n".join([self._title(), *(lines if len(rows) > 1 else ())])

    def _repr_html_(self) -> str:
        return notebook.table(
            self._title(), ["layer", "operator", "cycles", "ideal cycles", "array busy"],
            [*self._rows()]) + notebook.lanes(self._lanes(), self["cycles"])

    def _title(self) -> str:
        return (f"{self['cycles']:,} cycles, {self['seconds'] * 1e3:.3f} ms at the machine's "
                f"clock, array busy {self['utilization']:.1%}")

    def _rows(self) -> Iterator[tuple[str, str, int, int, str]]:
        for row in self["layers"]:
            yield (row["name"], row["op"], row["cycles"], row["ideal_cycles"],
                   f"{row['utilization']:.1%}")

    def _lanes(self) -> dict[str, list[notebook.Span]]:
        """The layers one after the other, in a lane of each unit; without activities in one."""
        found: dict[str, list[notebook.Span]] = {}
        begin = 0
        for row in self["layers"]:
            end = begin + row["cycles"]
            for lane, busy in (row["busy"] or {"layers": row["cycles"]}).items():
                found.setdefault(lane, []).append((
                    begin, end, busy / row["cycles"] if row["cycles"] else 0.0,
                    f"{row['name']}: {row['cycles']:,} cycles, busy {busy:,}"))
            begin = end
        return {lane: found[lane] for lane in found}


def report(module: Module, runs: Sequence[Run], machine: Machine | None,
           wall_seconds: float) -> RunReport:
    """Figures of one inference; JSON-serializable.

    `cycles`, `macs` (useful ones), `utilization`, `seconds` (at the machine's clock),
    `wall_seconds`, `machine_hash`, `bound_cycles` (what the programs take at least, whatever their
    tilings; 0 where it is not known), `layers`, `host` (why each node is there), `segments` and
    `copies` in order of execution, `layout` (what is converted between NCHW and NHWC, and what
    would be with all of the host in NCHW: counts and bytes), `auto` (the figures that this target
    decided by), `notes` (nodes that could not become integers, and why; nodes that cost extra
    products; instructions of the machine's own that are never executed), `instructions` (of gemm
    and vector: how often each is executed, by which layers, or why not), `device_bytes` (memory of
    each GPU), `counters`, `outputs`. Without cycles (functional simulation, host alone) the figures
    in cycles are 0, without events (boards) those of layers; without a timeline, `busy` and
    `stalls` of the layers are empty. Else for each unit they add up to the layer's cycles.
    """
    layers: list[dict[str, Any]] = []
    for step, run in _programs(module, runs):
        layers += [{"device": step.segment.target, **row} for row in step.execute.rows(run)]
    cycles = sum(run.cycles for run in runs)
    macs = sum(row["macs"] for row in layers)
    instructions = instruction_rows(module, machine) if machine else []
    return RunReport({
        "cycles": cycles, "macs": macs,
        "utilization": _ratio(macs, cycles * machine.config.macs_per_cycle) if machine else 0.0,
        "seconds": cycles / (machine.config.clock_mhz * 1e6) if machine else 0.0,
        "wall_seconds": wall_seconds,
        "machine_hash": machine.hash if machine else "",
        "bound_cycles": _bound(module, runs, machine) if machine else 0,
        "layers": layers,
        "host": module.partition.stay,
        "segments": _segments(module, runs),
        "copies": [{"value": copy.value, "source": copy.source, "target": copy.target}
                   for copy in module.partition.copies],
        "layout": module.layout,
        "auto": module.auto,
        "notes": [*graph_notes(module.graph), *_layer_notes(module), *idle_lines(instructions)],
        "instructions": instructions,
        "device_bytes": module.device_bytes,
        "counters": [{"activity": run.counters.activity, "bytes": run.counters.bytes}
                     for run in runs],
        "outputs": [_output(name, module.get_output(name)) for name in module.graph.outputs],
    })


def _programs(module: Module, runs: Sequence[Run]) -> Iterator[tuple[Step, Run]]:
    """The steps that are programs, with their runs."""
    return zip((step for step in module.steps if step.execute.program is not None), runs,
               strict=True)


def _bound(module: Module, runs: Sequence[Run], machine: Machine) -> int:
    """The bounds of all programs together; streams of prefixes have none."""
    bounds = [0 if run.places else stream_cycles(machine, step.execute.work)
              for step, run in _programs(module, runs)]
    return sum(bounds) if all(bounds) else 0


def _segments(module: Module, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Programs have their cycles, 0 where they are not simulated; native code has none."""
    cycles = {id(step): run.cycles for step, run in _programs(module, runs)}
    return [{"device": step.segment.target, "nodes": [node.name for node in step.segment.nodes],
             "operators": [node.op for node in step.segment.nodes],
             "cycles": cycles.get(id(step), 0)} for step in module.steps]


def graph_notes(graph: Graph) -> list[str]:
    """The notes of the graph, but for those of instructions, which have reasons of their own."""
    return [text for text in graph.notes
            if not ((note := Note.of(text)) and note.fate == UNUSED)]


def _layer_notes(module: Module) -> list[str]:
    """The notes of layers, once for each node."""
    return list(dict.fromkeys(str(Note(layer.node.name, layer.node.op, "", layer.note))
                              for layer in _layers(module) if layer.note))


def _layers(module: Module) -> Iterator[Work]:
    for step in module.steps:
        for group in step.execute.work:
            yield from group


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _output(name: str, array: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"name": name, "shape": list(array.shape), "dtype": array.dtype.name,
            "sha256": hashlib.sha256(little.tobytes()).hexdigest()}
