"""Operations of a datapath in their stages, and the results of its bodies merged into one.

Each node of the dataflow is placed as early as it can be. An addition, comparison, multiplexer or
digit of a shift is one level (two, beyond 36 bits); a multiplier has a stage of its own and thus a
register on either side, and two stages where one multiplier block does not do, or where some
multipliers are made of adders: an FPGA is full then, and each level of gemm's sums has a stage of
its own, too. A lookup has the registers of a block RAM on either side, and a level after it, which
selects a byte. An element is of one body, so what some bodies need late travels in the registers of
others.
"""

from dataclasses import dataclass

from accel.datapath.dataflow import WIDE, Dataflow, DataflowNode, Interval, topological

FACTOR_BITS = 18
"""Bits of a factor, as a signed number, that one multiplier block takes."""

CONSTANTS = ("const", "lane")
"""Kinds of nodes that have no register: every stage has them."""

_ADDERS = frozenset("add sub min max abs lt le gt ge eq ne round fold".split())
_WIRES = frozenset("read imm const lane wrap lsl asr cat every drop pad take across".split())


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A node in its place.

    `stage` computes it; its value is available in that stage (`level` adder levels after the
    register), that of a multiplier or lookup `cycles` stages later. Later stages see it through
    registers.
    """

    node: DataflowNode
    stage: int
    level: int
    cycles: int = 0

    @property
    def available(self) -> int:
        """First stage that can use the value."""
        return self.stage + self.cycles


class StagePlacement:
    """Places each node as early as it can be."""

    def __init__(self, depth: int, soft: bool, read_cycles: int):
        self.depth, self.soft, self.read_cycles = depth, soft, read_cycles
        self.placed: dict[DataflowNode, Operation] = {}

    def place(self, node: DataflowNode) -> Operation:
        if node not in self.placed:
            self.placed[node] = self._earliest(node)
        return self.placed[node]

    def _earliest(self, node: DataflowNode) -> Operation:
        args = [self.place(arg) for arg in node.args]
        stage = max((arg.available for arg in args), default=0)
        if node.kind == "mul":
            slow = self.soft or max(map(factor_bits, node.args)) > FACTOR_BITS
            return Operation(node, stage + 1, 0, 2 if slow else 1)
        if node.kind == "lookup":
            return Operation(node, stage + 1, 1, self.read_cycles - 1)
        level = max((arg.level for arg in args if arg.available == stage), default=0)
        cost = min(_levels(node), self.depth)
        if level + cost > self.depth:
            return Operation(node, stage + 1, cost)
        return Operation(node, stage, level + cost)


def factor_bits(node: DataflowNode) -> int:
    """The width of a factor as a signed number."""
    return node.interval.width + (not node.interval.signed)


def _levels(node: DataflowNode) -> int:
    """The levels of logic of an operation, in adders."""
    if node.kind in _WIRES:
        return 0
    if node.kind in _ADDERS:
        width = max(operand.interval.width for operand in (node, *node.args))
        return 1 if width <= WIDE else 2
    if node.kind == "mux":
        return 0 if len(node.args) <= 2 else 1
    if node.kind == "zeros":
        return 2
    if node.kind == "element":
        return -(-(len(node.args) - 2).bit_length() // 2)
    masks = node.kind in ("and", "or", "xor") and any(a.kind == "const" for a in node.args)
    return 0 if masks else 1


@dataclass(frozen=True, slots=True)
class _Passenger:
    """A value that is available long before `mux` takes it, for some bodies."""

    value: DataflowNode
    mux: DataflowNode
    bodies: tuple[int, ...]


def merged(graph: Dataflow, values: list[DataflowNode], placement: StagePlacement, width: int
           ) -> DataflowNode:
    """Merges the bodies' results into one value of at most `width` bits: in every stage, ready
    results join those that earlier stages handed on.

    A value that some bodies need long after it is available travels in the registers of other
    bodies' results, which those bodies do not have yet, instead of in registers of its own.
    """
    waiting = dict(enumerate(values))
    carried: DataflowNode | None = None
    done: tuple[int, ...] = ()
    passengers, aboard = _passengers(values, placement, width), list[_Passenger]()
    while waiting:
        stage = min(placement.place(node).available for node in waiting.values())
        if leaving := [passenger for passenger in aboard
                       if placement.place(passenger.mux).stage <= stage]:
            assert carried is not None
            rebuilt = _Rebuilt(graph, leaving, carried)
            waiting = {body: rebuilt.node(node) for body, node in waiting.items()}
            passengers, aboard = ([
                _Passenger(rebuilt.node(passenger.value), rebuilt.node(passenger.mux),
                           passenger.bodies)
                for passenger in some if passenger not in leaving] for some in (passengers, aboard))
            continue
        ready = {body: node for body, node in waiting.items()
                 if placement.place(node).available == stage}
        boarding = [passenger for passenger in passengers
                    if placement.place(passenger.value).available <= stage
                    and placement.place(passenger.mux).stage > stage + 1]
        passengers = [passenger for passenger in passengers if passenger not in boarding]
        cases: dict[DataflowNode, tuple[int, ...]] = {}
        if carried is not None:
            cases[carried] = tuple(sorted(
                done + sum((passenger.bodies for passenger in aboard), ())))
        for body, node in ready.items():
            cases[node] = (*cases.get(node, ()), body)
            del waiting[body]
        for passenger in boarding:
            cases[passenger.value] = tuple(sorted(
                cases.get(passenger.value, ()) + passenger.bodies))
        aboard += boarding
        carried = graph.choice(cases)
        done = tuple(sorted((*done, *ready)))
    assert carried is not None
    return carried


def _passengers(values: list[DataflowNode], placement: StagePlacement, width: int
                ) -> list[_Passenger]:
    """One of several that multiplexers take late enough, of a value of at most `width` bits that
    none but they do; of several at once, the first: bodies have room for one."""
    nodes, axes = list(topological(tuple(values))), frozenset().union(*(v.axes for v in values))
    carried = Interval.of(width, True)
    passengers, taken = list[_Passenger](), set[int]()
    for mux in nodes:
        for value, bodies in zip(mux.args, mux.attr, strict=True) if mux.kind == "mux" else ():
            here, there = placement.place(value), placement.place(mux)
            others = [placement.place(node).stage for node in nodes
                      if value in node.args and node is not mux]
            if (value.axes == axes and value.terms == 1 and value.kind not in CONSTANTS
                    and value.interval in carried
                    and there.stage - max([here.available, *others]) > 1
                    and not taken & set(bodies)):
                passengers.append(_Passenger(value, mux, bodies))
                taken |= set(bodies)
    return passengers


class _Rebuilt:
    """Rebuilds nodes so that multiplexers take their passengers from `carried`."""

    def __init__(self, graph: Dataflow, leaving: list[_Passenger], carried: DataflowNode):
        self.graph, self.carried = graph, carried
        self.leaving = {(passenger.mux, passenger.value) for passenger in leaving}
        self.made: dict[DataflowNode, DataflowNode] = {}

    def node(self, node: DataflowNode) -> DataflowNode:
        if node not in self.made:
            self.made[node] = self._make(node)
        return self.made[node]

    def _make(self, node: DataflowNode) -> DataflowNode:
        args = tuple(self.graph.narrow(self.carried, arg.interval)
                     if (node, arg) in self.leaving else self.node(arg) for arg in node.args)
        if args == node.args:
            return node
        return self.graph.make(node.kind, args, node.attr)
