"""Operators of a datapath: how many of which width an element of a body goes through."""

from collections import Counter
from collections.abc import Iterable
from math import prod, sqrt

from accel.datapath.dataflow import COMPARISONS, DataflowNode
from accel.datapath.placement import Operation, factor_bits
from accel.datapath.plan import DatapathPlan
from accel.estimates.tables import EnergyTable

Operators = Counter[tuple[str, int, int]]
"""Numbers of operators by kind (``add``, ``multiply``, ``logic``) and the widths of its operands;
of an addition and of logic the second is 0."""

_ADDERS = frozenset(("add", "sub", "min", "max", "abs", "round", "fold", *COMPARISONS))
_LOGIC = frozenset(("and", "or", "xor", "select", "limit", "mux", "pick", "stick", "left",
                    "element", "zeros", "clip"))


def operators(plan: DatapathPlan, body: str) -> Operators:
    """The operators that an element of a body (its name) goes through, in all lanes.

    Others, whose results no multiplexer takes, are left out; the hardware may still switch them.
    """
    number = [one.name for one in plan.bodies].index(body)
    return _counted(plan, [plan.placed[node] for node in _cone(plan, number)])


def all_operators(plan: DatapathPlan) -> Operators:
    """All operators of the datapath."""
    return _counted(plan, plan.operations)


def pipeline_bits(plan: DatapathPlan, body: str) -> int:
    """Bits of the pipeline's registers that hold values of an element of a body. The others are
    written as well, and stay as they are."""
    number = [one.name for one in plan.bodies].index(body)
    return sum(plan.registers(set(_cone(plan, number))))


def operand_bits(plan: DatapathPlan, body: str) -> int:
    """Bits of operands that an element of a body takes from the buses."""
    number = [one.name for one in plan.bodies].index(body)
    widths: dict[str, int] = {}
    for node in _cone(plan, number):
        if node.kind == "read":
            bus = node.attr[0]
            widths[bus] = max(widths.get(bus, 0), node.interval.width)
    return sum(prod(plan.buses[bus]) * width for bus, width in widths.items())


def price(counted: Operators, table: EnergyTable) -> float:
    """The energy of operators in pJ."""
    total = 0.0
    for (kind, a, b), count in counted.items():
        if kind == "multiply":
            total += count * table.multiply.at(sqrt(a * b))
        else:
            total += count * (table.add.at(a) if kind == "add" else table.logic_pj * a)
    return total


def _cone(plan: DatapathPlan, body: int) -> list[DataflowNode]:
    """The nodes that the value of a body depends on, each once."""
    seen, waiting = {plan.value.node: True}, [plan.value.node]
    while waiting:
        for arg in _taken(waiting.pop(), body):
            if arg not in seen:
                seen[arg] = True
                waiting.append(arg)
    return list(seen)


def _taken(node: DataflowNode, body: int) -> list[DataflowNode]:
    """The arguments that a node takes for a body."""
    if node.kind == "mux":
        return [arg for arg, bodies in zip(node.args, node.attr, strict=True) if body in bodies]
    if node.kind == "pick":
        count, rows = node.attr
        tests, chosen = node.args[count:], []
        for value, row in zip(node.args[:count], rows, strict=True):
            own = [test for bodies, test, _ in row if body in bodies]
            chosen += [value] * bool(own) + [tests[test] for test in own if test is not None]
        return chosen
    return list(node.args)


def _counted(plan: DatapathPlan, operations: Iterable[Operation]) -> Operators:
    result: Operators = Counter()
    for operation in operations:
        node, copies = operation.node, plan.copies(operation)
        if node.kind == "mul":
            a, b = map(factor_bits, node.args)
            result["multiply", a, b] += copies
        elif node.kind in _ADDERS:
            width = max(one.interval.width for one in (node, *node.args))
            if node.kind == "fold":         # an odd term passes by
                copies = copies // node.terms * (node.attr[1] // 2)
            result["add", width, 0] += copies
        elif node.kind in _LOGIC and any(arg.kind != "const" for arg in node.args[1:]):
            result["logic", node.interval.width, 0] += copies
    return result
