"""The parts of a datapath, counted in its plan: before synthesis, without control logic."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from accel.datapath.dataflow import DataflowNode
from accel.datapath.placement import Operation, factor_bits
from accel.datapath.plan import DatapathPlan, plan
from accel.machine.machine import Machine

KINDS: Mapping[str, frozenset[str]] = {
    "multipliers": frozenset(("mul",)),
    "adders": frozenset("add sub min max abs lt le gt ge eq ne round fold".split()),
    "shifters": frozenset(("stick", "left")),
    "multiplexers": frozenset("mux pick element select limit clip".split()),
    "table memories": frozenset(("lookup",)),
    "gates": frozenset("and or xor".split()),
}
"""Classes of operators: a comparison is an adder, and a digit of a shift is a shifter."""


@dataclass(frozen=True)
class UnitResources:
    """Operators and data registers of a datapath.

    Parameters
    ----------
    stages : cycles from operands to value.
    register_bits : of the registers between stages, those of multipliers' results included.
    operators : class to width to number: ``{"adders": {"33": 16}}``. The width of a multiplier is
        that of its factors, ``33x16``; else that of the widest of operands and result.
    """

    stages: int
    register_bits: int
    operators: Mapping[str, Mapping[str, int]]

    def count(self, kind: str) -> int:
        """The number of operators of a class."""
        return sum(self.operators.get(kind, {}).values())


def resources(machine: Machine) -> dict[str, UnitResources]:
    """The parts of gemm's and vector's datapaths, by unit. Raises PlanError."""
    return {unit: resources_of(plan(machine, unit)) for unit in ("gemm", "vector")}


def resources_of(datapath: DatapathPlan) -> UnitResources:
    return UnitResources(datapath.compute_cycles, sum(datapath.registers()),
                     _counted(datapath, datapath.operations))


def _counted(datapath: DatapathPlan, operations) -> dict[str, dict[str, int]]:
    counts = {kind: Counter[str]() for kind in KINDS}
    for operation in operations:
        for kind, members in KINDS.items():
            if operation.node.kind in members:
                counts[kind][_width(operation.node)] += _copies(datapath, operation)
    return {kind: dict(sorted(count.items(), key=lambda item: (len(item[0]), item[0])))
            for kind, count in counts.items() if count}


def _copies(datapath: DatapathPlan, operation: Operation) -> int:
    copies, node = datapath.copies(operation), operation.node
    if node.kind == "fold":             # of an odd number of terms one passes as it is
        return copies // node.terms * (node.attr[1] // 2)
    return copies


def _width(node: DataflowNode) -> str:
    if node.kind == "mul":
        return "x".join(str(factor_bits(arg)) for arg in node.args)
    return str(max(part.interval.width for part in (node, *node.args)))


def used_by(machine: Machine, name: str) -> dict[str, dict[str, int]]:
    """The operators through which an instruction's values go, shared ones included."""
    datapath = plan(machine, machine.units[machine.opcodes[name]])
    body = datapath.opcodes.index(machine.opcodes[name])
    reached: set[DataflowNode] = set()

    def reach(node: DataflowNode) -> None:
        if node in reached:
            return
        reached.add(node)
        match node.kind:
            case "mux":
                args = [arg for arg, bodies in zip(node.args, node.attr) if body in bodies]
            case "pick":
                count, rows = node.attr
                cases = [(arg, test) for arg, row in zip(node.args, rows)
                         for bodies, test, _ in row if body in bodies]
                args = [arg for arg, _ in cases]
                args += [node.args[count + test] for _, test in cases if test is not None]
            case _:
                args = node.args
        for arg in args:
            reach(arg)

    reach(datapath.value.node)
    return _counted(datapath, [operation for operation in datapath.operations
                               if operation.node in reached])


def added_by(machine: Machine, name: str) -> tuple[UnitResources, UnitResources] | None:
    """The resources of its unit's datapath without an instruction, and with it; None where the unit
    has no other.
    """
    unit = machine.units[machine.opcodes[name]]
    others = tuple(one for one in machine.declarations if one.name != name)
    if all(one.unit != unit for one in others):
        return None
    without = Machine(machine.config, others)
    return resources_of(plan(without, unit)), resources_of(plan(machine, unit))
