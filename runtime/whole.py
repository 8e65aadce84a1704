"""The part of an inference that is not the accelerator's: operators of the host, copies, starts.

An inference takes its steps one after the other: `HostPart.seconds_with` adds up the accelerator's
time and this part. A table of a host (`runtime.pricing.hosts`) counts cycles; ``this`` processor is
measured, and has no energy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accel.estimates.energy import leakage_watts
from accel.estimates.tables import EnergyTable
from accel.machine.machine import Machine
from compiler.graph.division.partition import HOST
from compiler.graph.division.layout import MOVED
from compiler.graph.graph import Graph, Node
from compiler.native import digest, processor
from compiler.quantize.networks.preparation import QUANTIZED
from compiler.tune.record import processor_name
from runtime.module import Module, Step
from runtime.pricing.counting import node_cycles
from runtime.pricing.hosts import HostTable, known_host
from runtime.pricing.link import LINK, Link
from runtime.pricing.prices import samples
from runtime.pricing.timing import measured

PJ = 1e-12


@dataclass(frozen=True)
class HostPart:
    """Time and energy of an inference beside the accelerator.

    Parameters
    ----------
    host : the name of the host. is_measured : its seconds are, on this processor.
    layers : the operators of the network that it computes, by name: without conversions and
        changes of layout.
    seconds : of all its operators. operators : name, operator and seconds of each; none where only
        whole segments were measured.
    copies, copied_bytes, copy_seconds : tensors that cross the link, their bytes as the accelerator
        stores them, and the time of copies and of starts of programs.
    joules : of the host and the copies; None where no energy is known.
    """

    host: str
    is_measured: bool
    layers: tuple[str, ...]
    seconds: float
    operators: tuple[tuple[str, str, float], ...]
    copies: int
    copied_bytes: int
    copy_seconds: float
    joules: float | None

    def seconds_with(self, accelerator_seconds: float) -> float:
        """The seconds of the whole inference."""
        return accelerator_seconds + self.seconds + self.copy_seconds

    def plain(self, accelerator_seconds: float) -> dict[str, Any]:
        """All figures and those of the whole, as plain data."""
        total = self.seconds_with(accelerator_seconds)
        beside = self.seconds + self.copy_seconds
        return asdict(self) | {"whole_seconds": total, "share": beside / total if total else 0.0}


def host_part(module: Module, table: HostTable | None, process: EnergyTable | None = None
              ) -> HostPart | None:
    """The host's part of a module, by a table, or measured here without one; None where other
    targets than the host and the accelerator have a part.
    """
    if any(step.segment.target != HOST and step.execute.program is None for step in module.steps):
        return None
    own = [step for step in module.steps if step.execute.program is None]
    nodes = [node for step in own for node in step.segment.nodes]
    graph = module.partition.graph
    rows = tuple((node.name, node.op, node_cycles(graph, node, table) / (table.mhz * 1e6))
                 for node in nodes) if table else ()
    seconds = (sum(row[2] for row in rows) if table
               else sum(_measured(step, graph) for step in own))
    crossing = [*_crossing(module)]
    starts = len(module.accelerated)
    link = table.link if table else LINK
    return HostPart(
        table.name if table else f"this processor ({processor_name()})", table is None,
        tuple(node.name for node in nodes if _is_layer(module, node)), seconds, rows,
        len(crossing), sum(crossing), _link_seconds(link, crossing, starts),
        _joules(table, process, seconds, sum(crossing)))


def _is_layer(module: Module, node: Node) -> bool:
    """True for what the network asks for: no change of numbers' types or of the layout."""
    types = [module.partition.graph.values[value].dtype for value in (*node.inputs, *node.outputs)]
    return (node.op not in (*QUANTIZED, "encodefloat", "decodefloat")
            and not (node.op == "cast" and "bfloat16" in types)
            and module.partition.reasons.get(node.name, "") != MOVED)


def host_key(host: str) -> str:
    """A text that tells hosts apart, for keys of records."""
    table = known_host(host)
    return table.text if table else f"this {processor()}"


def division_difference(network: str, before: Sequence[str], after: Sequence[str]) -> str:
    """The layers that the host computes in one of two divisions of a network alone; "" for none."""
    more = [layer for layer in after if layer not in before]
    less = [layer for layer in before if layer not in after]
    parts = [f"{', '.join(layers)} {text}" for layers, text in (
        (more, "on the host, not the accelerator"), (less, "on the accelerator, not the host"))
        if layers]
    return f"{network}: {'; '.join(parts)}" if parts else ""


def energy_refusal(host: str, process: EnergyTable) -> str:
    """Why the energy of the whole is absent with this host in this process; "" where it is known.
    """
    table = known_host(host)
    if table is None:
        return "the energy of this processor is absent: give --host table or a file"
    if table.pj_per_cycle(process.name) is None:
        return (f"host {table.name!r} has no energy.pj_per_cycle for {process.name!r}: give a file "
                f"as --host that has it")
    return ""


def waiting_joules(machine: Machine, process: EnergyTable | None, part: HostPart) -> float:
    """The energy that leaks in the accelerator while it waits for the host and copies."""
    watts = leakage_watts(machine, process) if process else None
    return (watts or 0.0) * (part.seconds + part.copy_seconds)


def _measured(step: Step, graph: Graph) -> float:
    """The seconds of a segment of the host here, under the key of `MeasuredPrices`."""
    types = {value: graph.values[value] for value in step.segment.inputs}
    given = samples(types)
    key = digest([*step.compiled.text, *map(str, types.values())])
    return measured(f"segment of {len(step.segment.nodes)} nodes {key}",
                    lambda: step.execute(given))


def _crossing(module: Module) -> Iterator[int]:
    """The bytes of each tensor that crosses the link."""
    for segment in module.accelerated:
        program = segment.program
        assert program is not None, "a segment of the accelerator has a program"
        yield from (slot.size_bytes for slot in (*program.inputs, *program.outputs))


def _link_seconds(link: Link, crossing: list[int], starts: int) -> float:
    return sum(map(link.copy_seconds, crossing)) + starts * link.start_seconds


def _joules(table: HostTable | None, process: EnergyTable | None, seconds: float, copied: int
            ) -> float | None:
    cycle_pj = table.pj_per_cycle(process.name) if table and process else None
    if table is None or process is None or cycle_pj is None:
        return None
    moved = copied * table.moves_per_byte * 8 * process.dram_pj
    return PJ * (seconds * table.mhz * 1e6 * cycle_pj + moved)
