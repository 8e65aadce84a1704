"""Sharing of operators among the bodies of a unit.

An element is of one opcode, so operations of different bodies exclude each other. Multipliers,
lookups and shifts by a variable amount are merged as far as no cycle arises (a body that shifts
before it multiplies cannot use both of one that multiplies before it shifts), those of the most
similar widths first; their inputs become multiplexers. What follows a shared operator in two bodies
alike, as the rounding and clamping of requantize and add_scaled, is then one operation anyway.
"""

from dataclasses import dataclass, field

from accel.datapath.dataflow import EXPENSIVE, Dataflow, DataflowNode, Interval, topological

DIGIT = 2
"""Bits of a shift amount that one multiplexer level decodes."""


@dataclass(eq=False)
class _Operator:
    """One shared operator: its operation in each body that uses it, and what it depends on."""

    kind: str
    attr: tuple
    uses: dict[int, DataflowNode] = field(default_factory=dict)
    before: set["_Operator"] = field(default_factory=set)

    def follows(self, other: "_Operator") -> bool:
        return self is other or any(earlier.follows(other) for earlier in self.before)

    @property
    def terms(self) -> int:
        return max(node.terms for node in self.uses.values())

    def takes(self, node: DataflowNode) -> bool:
        """A body may use some of several multipliers that lie beside each other; the others
        multiply zeros."""
        some = self.kind == "mul" and node.terms > 1 < self.terms
        return ((self.kind, self.attr) == (node.kind, node.attr)
                and (some or node.terms == self.terms))

    def area(self, *more: DataflowNode) -> int:
        """The operator's area if it also served the operations `more`."""
        nodes = (*self.uses.values(), *more)
        area = 1
        for position in range(2):
            intervals = [node.args[position].interval for node in nodes]
            area *= Interval(min(i.low for i in intervals), max(i.high for i in intervals)).width
        return area


def _expensive(node: DataflowNode) -> list[DataflowNode]:
    return [inner for inner in topological((node,)) if inner.kind in EXPENSIVE]


def _assign(roots: list[DataflowNode]) -> dict[tuple[int, DataflowNode], _Operator]:
    """An operator for each (body, expensive operation), bodies with many of them first."""
    operators: list[_Operator] = []
    chosen: dict[tuple[int, DataflowNode], _Operator] = {}
    for body in sorted(range(len(roots)), key=lambda b: -len(_expensive(roots[b]))):
        for node in _expensive(roots[body]):
            before = {chosen[body, needed] for arg in node.args for needed in _expensive(arg)}
            free = [operator for operator in operators
                    if operator.takes(node) and body not in operator.uses
                    and not any(other.follows(operator) for other in before)]
            if not free:
                free = [_Operator(node.kind, node.attr)]
                operators += free
            best = min(free, key=lambda operator: (
                operator.area(node) - (operator.area() if operator.uses else 0)))
            best.uses[body] = node
            best.before |= before
            chosen[body, node] = best
    return chosen


class _Merge:
    """Rebuilds the graph with shared operators."""

    def __init__(self, roots: list[DataflowNode]):
        self.graph = Dataflow()
        self.chosen = _assign(roots)
        self.operators: dict[_Operator, DataflowNode] = {}
        self.done: dict[tuple[int, DataflowNode], DataflowNode] = {}

    def node(self, body: int, node: DataflowNode) -> DataflowNode:
        key = (body, node)
        if key not in self.done:
            self.done[key] = self._rebuild(body, node)
        return self.done[key]

    def _rebuild(self, body: int, node: DataflowNode) -> DataflowNode:
        if node.kind in EXPENSIVE:
            shared = self.operator(self.chosen[body, node])
            # A little extra width costs little, and lets the users be one operation.
            much = 4 * node.interval.width < 3 * shared.interval.width
            shared = self.graph.narrow(shared, node.interval) if much else shared
            return (shared if shared.terms == node.terms
                    else self.graph.make("take", (shared,), (node.terms,)))
        if not node.args:
            return self.graph.leaf(node.kind, node.attr, node.interval, node.axes, node.terms)
        args = tuple(self.node(body, arg) for arg in node.args)
        return self.graph.make(node.kind, args, node.attr)

    def operator(self, operator: _Operator) -> DataflowNode:
        if operator not in self.operators:
            args = tuple(self.multiplexer({
                body: self._padded(body, node, position, operator.terms)
                for body, node in sorted(operator.uses.items())}) for position in range(2))
            self.operators[operator] = self._expand(operator, *args)
        return self.operators[operator]

    def _padded(self, body: int, node: DataflowNode, position: int, terms: int) -> DataflowNode:
        """An argument of a body's operation, with zeros for the terms that it does not have."""
        arg = self.node(body, node.args[position])
        return arg if node.terms == terms else self.graph.make("pad", (arg,), (node.terms, terms))

    def multiplexer(self, sources: dict[int, DataflowNode]) -> DataflowNode:
        cases: dict[DataflowNode, tuple[int, ...]] = {}
        for body, node in sources.items():
            cases[node] = (*cases.get(node, ()), body)
        cases = self._summed(cases)
        return self.graph.make("mux", tuple(cases), tuple(cases.values()))

    def _summed(self, cases: dict[DataflowNode, tuple[int, ...]],
                ) -> dict[DataflowNode, tuple[int, ...]]:
        """Merges cases until none is a term of another: a sum whose other terms are zero is the
        term alone, and a case that waits for the other needs no registers.
        """
        for whole in cases:
            for term in cases:
                if whole is not term and (both := self._sum(whole, term, cases)):
                    return self._summed({node: bodies for node, bodies in cases.items()
                                         if node not in (whole, term)} | both)
        return cases

    def _sum(self, whole: DataflowNode, term: DataflowNode,
             cases: dict[DataflowNode, tuple[int, ...]]):
        """Merge two cases into one, if `term` is a term of the other."""
        bodies = cases[whole], cases[term]

        def alone(node: DataflowNode) -> DataflowNode | None:
            if node is term:
                return node
            if node.kind != "add":
                return None
            for side, other in (node.args, node.args[::-1]):
                if (masked_side := alone(side)) is not None:
                    masked = self.graph.make("mux", (other, self.graph.const(0)), bodies)
                    return self.graph.make("add", (masked_side, masked))
            return None

        masked_sum = alone(whole)
        return {masked_sum: tuple(sorted(sum(bodies, ())))} if masked_sum is not None else None

    def _expand(self, operator: _Operator, x: DataflowNode, amount: DataflowNode) -> DataflowNode:
        """Expand a shift into a chain of digits, the coarsest first."""
        if operator.kind in ("mul", "lookup"):
            return self.graph.make(operator.kind, (x, amount))
        if operator.kind == "rshift":
            x = self.graph.make("lsl", (x,), (2,))
        width = amount.interval.width
        for low in reversed(range(0, width, DIGIT)):
            digit = (low, min(DIGIT, width - low))
            if operator.kind == "rshift":
                x = self.graph.make("stick", (x, amount), digit)
            else:
                x = self.graph.make("wrap", (self.graph.make("left", (x, amount), digit),),
                                    operator.attr)
        return x


def share(roots: list[DataflowNode]) -> tuple[Dataflow, list[DataflowNode]]:
    """Rebuild the bodies' values in one new graph that shares expensive operators."""
    merge = _Merge(roots)
    return merge.graph, [merge.node(body, root) for body, root in enumerate(roots)]
