"""What a run did, as plain data: docs/machine.md, Reports."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accel.layers import Layer
from accel.machine import Machine
from accel.program import Program
from accel.status import Run
from runtime.module import Module

__all__ = ["block_products", "report"]


def report(module: Module, runs: Sequence[Run], machine: Machine | None,
           wall_seconds: float) -> dict[str, Any]:
    """Figures of one inference; JSON-serializable.

    `cycles`, `macs` (useful ones), `utilization`, `seconds` (at the machine's clock),
    `wall_seconds`, `machine_hash`, `layers`, `host` (why each node is there), `notes` (what could
    not become integers, and why), `counters`, `outputs`. Without cycles (functional simulation,
    host alone) the figures in cycles are 0.
    """
    layers: list[dict[str, Any]] = []
    for compiled, run in zip(module.accelerated, runs, strict=True):
        assert machine is not None
        layers += _layers(machine, compiled.program, compiled.layers, run)
    cycles = sum(run.cycles for run in runs)
    macs = sum(layer.macs for compiled in module.accelerated for layer in compiled.layers)
    return {
        "cycles": cycles, "macs": macs,
        "utilization": _ratio(macs, cycles * machine.config.macs_per_cycle) if machine else 0.0,
        "seconds": cycles / (machine.config.clock_mhz * 1e6) if machine else 0.0,
        "wall_seconds": wall_seconds,
        "machine_hash": machine.hash if machine else "",
        "layers": layers,
        "host": dict(module.partition.reasons),
        "notes": list(module.graph.notes),
        "counters": [{"activity": run.counters.activity, "bytes": run.counters.bytes}
                     for run in runs],
        "outputs": [_output(name, module.get_output(name)) for name in module.graph.outputs],
    }


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _output(name: str, array: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"name": name, "shape": list(array.shape), "dtype": array.dtype.name,
            "sha256": hashlib.sha256(little.tobytes()).hexdigest()}


def _layers(machine: Machine, program: Program, layers: Sequence[Layer],
            run: Run) -> list[dict[str, Any]]:
    rows, begin, before = [], 0, 0
    moved = _dram_bytes(machine, program)
    for layer, (name, end) in zip(layers, program.layers, strict=True):
        done = int(run.retire[begin:end].max()) if run.cycles else 0
        cycles = max(done - before, 0)
        products = block_products(layer)
        ideal = max(products, -(-_compulsory(layer) // machine.config.bus_bytes))
        rows.append({
            "name": name, "op": layer.node.op, "device": "accel", "cycles": cycles,
            "ideal_cycles": ideal, "macs": layer.macs,
            "utilization": _ratio(layer.macs, cycles * machine.config.macs_per_cycle),
            "dram_bytes": int(moved[begin:end].sum()), "stalls": {}})
        begin, before = end, max(before, done)
    if run.cycles:
        rows.append({"name": "finish", "op": "fetch", "device": "accel",
                     "cycles": run.cycles - before, "ideal_cycles": 0, "macs": 0,
                     "utilization": 0.0, "dram_bytes": program.words.size, "stalls": {}})
    return rows


def block_products(layer: Layer) -> int:
    """Cycles that gemm needs at one block product a cycle; 0 for layers without products."""
    if "w" not in layer.operator.stages:
        return 0
    acc = layer.operator["acc"]
    groups, height, width, channels = acc.shape[:4]
    kernel = layer.operator["w"].shape[1:4]
    return int(groups * height * width * channels * np.prod(kernel))


def _compulsory(layer: Layer) -> int:
    """Bytes of weights, inputs and outputs, once each."""
    stages = layer.operator.stages
    roles = (*layer.inputs, *layer.constants, "output")
    return sum(stages[role].buffer.size_bytes for role in roles)


def _dram_bytes(machine: Machine, program: Program) -> np.ndarray:
    """Bytes that each instruction moves between DRAM and the buffers, padding not counted."""
    return np.array([_moved(i.fields) if i.unit in ("load", "store") else 0
                     for i in program.instructions(machine)], np.int64)


def _moved(fields: Mapping[str, Any]) -> int:
    count: int = fields["run"]
    for loop in fields["loops"]:
        count *= max(loop["extent"] - loop["before"] - loop["after"], 0)
    return count
