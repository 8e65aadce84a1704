"""A netlist over several cycles, as terms of a solver."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, log2
from typing import Any

import networkx

from accel.formal.logic import Logic, ProofError, Term
from accel.sim.slice.netlist import (BITWISE, Assign, Cell, Matches, Netlist, NetMemory,
                                     NetOperator, NetPart, NetRead, NetRegister, Nothing, Priority,
                                     Value, Write, bit_of, cell_of, is_constant, netlist_of)

_DEEP = 100_000
"""Levels of logic, over all cycles, that are followed."""


class Unrolled:
    """Outputs of a component in each cycle, as terms of its inputs.

    Inputs are symbols, ``name@cycle``, unless `given` says otherwise; there is no reset. With
    `started` registers and memories begin as after a reset; else with anything, which are symbols
    too: then what holds does so in every state.

    Parameters
    ----------
    component : hardware with a signature.
    given : names of inputs to a function of the cycle, which gives their term, or None for a
        symbol.
    """

    def __init__(self, logic: Logic, component: Any, started: bool = False,
                 given: Mapping[str, Any] | None = None) -> None:
        self.logic, self.started, self.component = logic, started, component
        self.netlist: Netlist = netlist_of(component)
        self._given = dict(given or {})
        self._cells = self.netlist.cells
        self._input_of = {net: (name, place) for name, nets in self.netlist.inputs.items()
                          for place, net in enumerate(nets)}
        self._writes: dict[int, list[Write]] = {}
        for cell in self._cells:
            if isinstance(cell, Write):
                self._writes.setdefault(cell.memory, []).append(cell)
        self._fine = self._circular()
        self._known: dict[Any, Term] = {}

    # ---- what is asked -------------------------------------------------------------------------

    def output(self, name: str, cycle: int) -> Term:
        """An output of the component in a cycle."""
        with _deep():
            return self.value(self.netlist.outputs[name], cycle)

    def input(self, name: str, cycle: int) -> Term:
        key = "input", name, cycle
        if key not in self._known:
            make = self._given.get(name)
            term = make(cycle) if make else self.logic.number(0, 1) if name == "rst" else None
            if term is None:
                term = self.logic.symbol(f"{name}@{cycle}", len(self.netlist.inputs[name]))
            self._known[key] = term
        return self._known[key]

    def port(self, name: str, cycle: int) -> Term:
        """An input or an output."""
        return self.input(name, cycle) if name in self.netlist.inputs else \
            self.output(name, cycle)

    def part(self, name: str, layout: Any, field: str, cycle: int) -> Term | None:
        """A field of an input or an output, of a layout of Amaranth; None if it has no bits."""
        (place,) = (known for key, known in layout if key == field)
        return self.logic.bits(self.port(name, cycle), place.offset, place.width) \
            if place.width else None

    def signal(self, name: str, cycle: int) -> Term:
        """A signal within the component, by its name."""
        with _deep():
            return self.value(self.netlist.signals[name], cycle)

    @property
    def memories(self) -> list[int]:
        """The numbers of the memories."""
        return [number for number, cell in enumerate(self._cells) if isinstance(cell, NetMemory)]

    def address_bits(self, memory: int) -> int:
        cell = self._cells[memory]
        assert isinstance(cell, NetMemory)
        return _address_bits(cell)

    def write_address(self, memory: int, cycle: int) -> Term:
        """The address of the only write port of a memory."""
        (write,) = self._writes[memory]
        with _deep():
            return self.value(write.address, cycle) if write.address else self.logic.number(0, 1)

    # ---- nets ----------------------------------------------------------------------------------

    def value(self, nets: Value, cycle: int) -> Term:
        """Nets side by side; a last one that is repeated is the sign of what is below."""
        count = len(nets)
        while count > 1 and nets[count - 2] == nets[-1] and not is_constant(nets[-1]):
            count -= 1
        return self.logic.widened(self._parts(nets[:count], cycle), len(nets), True)

    def _parts(self, nets: Value, cycle: int) -> Term:
        parts: list[Term] = []
        for run in self._runs(nets):
            first = run[0]
            if is_constant(first):
                number = sum(net << place for place, net in enumerate(run))
                parts.append(self.logic.number(number, len(run)))
            elif first in self._input_of:
                name, place = self._input_of[first]
                parts.append(self.logic.bits(self.input(name, cycle), place, len(run)))
            elif cell_of(first) in self._fine:
                parts.append(self._bit(cell_of(first), bit_of(first), cycle))
            else:
                parts.append(self.logic.bits(self._whole(cell_of(first), cycle), bit_of(first),
                                             len(run)))
        return self.logic.joined(parts)

    def _runs(self, nets: Value) -> Iterator[Value]:
        """Neighbouring bits of a cell, or of an input, together, and constants; bits of cells that
        are taken apart alone."""
        def together(before: int, net: int) -> bool:
            if is_constant(before) or is_constant(net):
                return is_constant(before) and is_constant(net)
            if before in self._input_of and net in self._input_of:
                return net == before + 1 and self._input_of[net][0] == self._input_of[before][0]
            return net == before + 1 and cell_of(net) not in self._fine

        begin = 0
        for place in range(1, len(nets) + 1):
            if place == len(nets) or not together(nets[place - 1], nets[place]):
                yield nets[begin:place]
                begin = place

    def _whole(self, number: int, cycle: int) -> Term:
        key = number, cycle
        if key not in self._known:
            self._known[key] = self._computed(number, self._cells[number], cycle)
        return self._known[key]

    def _computed(self, number: int, cell: Cell, cycle: int) -> Term:
        logic = self.logic
        match cell:
            case NetOperator("m", (test, a, b)):
                return self._chosen(test, a, b, cycle)
            case NetOperator():
                return self._operator(cell, [self.value(nets, cycle) for nets in cell.inputs])
            case NetPart():
                return self._part(cell, cycle)
            case Matches():
                return self._matches(cell, self.value(cell.value, cycle))
            case Priority():
                free, results = self.value((cell.enable,), cycle), []
                for net in cell.inputs:
                    test = self.value((net,), cycle)
                    results.append(logic.binary("and", free, test))
                    free = logic.binary("and", free, logic.inverted(test))
                return logic.joined(results)
            case Assign():
                result = self.value(cell.default, cycle)
                for condition, low, nets in cell.changes:
                    test, high = self.value((condition,), cycle), low + len(nets)
                    known = logic.constant(test)
                    if known == 0:
                        continue
                    value, before = self.value(nets, cycle), logic.bits(result, low, len(nets))
                    pieces = [logic.bits(result, 0, low)] if low else []
                    pieces.append(logic.chosen(test, value, before))
                    if high < cell.width:
                        pieces.append(logic.bits(result, high, cell.width - high))
                    result = logic.joined(pieces)
                return result
            case NetRegister() if cycle > 0:
                return self.value(cell.data, cycle - 1)
            case NetRegister():
                return logic.number(cell.init, cell.width) if self.started else \
                    logic.symbol(f"register{number}@0", cell.width)
            case NetRead():
                memory = self._cells[cell.memory]
                assert isinstance(memory, NetMemory)
                return logic.row(self.memory(cell.memory, cycle),
                                 self._address(memory, cell.address, cycle))
        raise ProofError(f"Hardware must be made of logic, registers and memories for a proof, not "
                         f"of {type(cell).__name__.lower()} ({self.netlist.modules[number]})")

    def _bit(self, number: int, bit: int, cycle: int) -> Term:
        """One bit of a cell that works bit by bit."""
        key = number, bit, cycle
        if key not in self._known:
            self._known[key] = self._bit_of(self._cells[number], bit, cycle)
        return self._known[key]

    def _bit_of(self, cell: Cell, bit: int, cycle: int) -> Term:
        match cell:
            case Assign():
                result = self.value((cell.default[bit],), cycle)
                for condition, low, nets in cell.changes:
                    if low <= bit < low + len(nets):
                        result = self.logic.chosen(self.value((condition,), cycle),
                                                   self.value((nets[bit - low],), cycle), result)
                return result
            case NetOperator("m", (test, a, b)):
                return self._chosen(test, (a[bit],), (b[bit],), cycle)
            case NetOperator():
                return self._operator(cell, [self.value((nets[bit],), cycle)
                                             for nets in cell.inputs])
        raise AssertionError(cell)

    def _chosen(self, test: Value, a: Value, b: Value, cycle: int) -> Term:
        """A multiplexer; a side that is never chosen is not looked at."""
        truth = self.value(test, cycle)
        if (known := self.logic.constant(truth)) is not None:
            return self.value(a if known else b, cycle)
        return self.logic.chosen(truth, self.value(a, cycle), self.value(b, cycle))

    def memory(self, number: int, cycle: int) -> Term:
        """The rows of a memory at the begin of a cycle, an array."""
        key = "memory", number, cycle
        if key in self._known:
            return self._known[key]
        logic, cell = self.logic, self._cells[number]
        assert isinstance(cell, NetMemory)
        bits = _address_bits(cell)
        if cycle == 0:
            array = logic.filled(bits, cell.init, cell.row_bits) if self.started else \
                logic.table(f"memory{number}", bits, cell.row_bits)
        else:
            array = self.memory(number, cycle - 1)
            for write in self._writes.get(number, ()):
                address = self._address(cell, write.address, cycle - 1)
                data, enable = (self.value(nets, cycle - 1)
                                for nets in (write.data, write.enable))
                kept = logic.binary("and", logic.row(array, address), logic.inverted(enable))
                array = logic.stored(array, address, logic.binary(
                    "or", kept, logic.binary("and", data, enable)))
        self._known[key] = array
        return array

    def _address(self, memory: NetMemory, nets: Value, cycle: int) -> Term:
        bits = _address_bits(memory)
        return self.logic.widened(self.value(nets, cycle), bits, False) if nets else \
            self.logic.number(0, bits)

    # ---- cells ---------------------------------------------------------------------------------

    def _operator(self, cell: NetOperator, terms: Sequence[Term]) -> Term:
        logic, symbol = self.logic, cell.symbol
        match symbol, terms:
            case "~", (a,): return logic.inverted(a)
            case "-", (a,): return logic.negated(a)
            case "b" | "r|", (a,): return logic.any(a)
            case "r&", (a,): return logic.all(a)
            case "r^", (a,): return logic.parity(a)
            case "==", (a, b): return logic.compared("eq", a, b)
            case "!=", (a, b): return logic.inverted(logic.compared("eq", a, b))
            case "<<" | "u>>" | "s>>", (a, amount): return self._shifted(symbol, a, amount)
        names = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor",
                 "u//": "udiv", "u%": "urem"}
        if symbol in names:
            return logic.binary(names[symbol], *terms)
        orders = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
        if symbol[0] in "us" and symbol[1:] in orders:
            return logic.compared(symbol[0] + orders[symbol[1:]], *terms)
        raise ProofError(f"Hardware must have no operator {symbol!r} for a proof")

    def _shifted(self, symbol: str, a: Term, amount: Term) -> Term:
        """The solver shifts by a word of the same width: both are widened, then cut."""
        logic, width = self.logic, self.logic.width(a)
        wide = max(width, logic.width(amount))
        kind = {"<<": "shl", "u>>": "shr", "s>>": "ashr"}[symbol]
        return logic.bits(logic.binary(kind, logic.widened(a, wide, symbol == "s>>"),
                                       logic.widened(amount, wide, False)), 0, width)

    def _part(self, cell: NetPart, cycle: int) -> Term:
        logic = self.logic
        offset = self.value(cell.offset, cycle)
        wide = max(len(cell.value), cell.width,
                   len(cell.offset) + max(1, ceil(log2(cell.stride + 1))))
        place = logic.widened(offset, wide, False)
        if cell.stride > 1:
            place = logic.binary("mul", place, logic.number(cell.stride, wide))
        value = logic.widened(self.value(cell.value, cycle), wide, False)
        return logic.bits(logic.binary("shr", value, place), 0, cell.width)

    def _matches(self, cell: Matches, value: Term) -> Term:
        logic, tests = self.logic, []
        for pattern in cell.patterns:
            looked = int("0" + "".join("01"[bit != "-"] for bit in pattern), 2)
            wanted = int("0" + pattern.replace("-", "0"), 2)
            width = len(pattern)
            tests.append(logic.compared("eq", logic.binary("and", value, logic.number(
                looked, width)), logic.number(wanted, width)))
        return logic.some(tests)

    def _circular(self) -> frozenset[int]:
        """The cells of which some bits depend on others of the same cell in one cycle."""
        graph = networkx.DiGraph()
        for number, cell in enumerate(self._cells):
            graph.add_edges_from((number, cell_of(net)) for nets in _inputs(cell) for net in nets
                                 if not is_constant(net))
        loops = [part for part in networkx.strongly_connected_components(graph)
                 if len(part) > 1 or any(graph.has_edge(one, one) for one in part)]
        fine = {number for part in loops for number in part
                if isinstance(self._cells[number], Assign) or isinstance(
                    self._cells[number], NetOperator)
                and self._cells[number].symbol in (*BITWISE, "m")}     # type: ignore[union-attr]
        return frozenset(fine)


def _inputs(cell: Cell) -> Sequence[Value]:
    """Values that a cell's output depends on in the same cycle."""
    match cell:
        case NetOperator(): return cell.inputs
        case NetPart(): return cell.value, cell.offset
        case Matches(): return (cell.value,)
        case Priority(): return (cell.enable,), cell.inputs
        case Assign():
            return [cell.default, *((condition,) for condition, _, _ in cell.changes),
                    *(nets for _, _, nets in cell.changes)]
        case NetRead(): return (cell.address,)
        case NetRegister() | NetMemory() | Write() | Nothing(): return ()


def _address_bits(memory: NetMemory) -> int:
    return max(1, (memory.depth - 1).bit_length())


@contextmanager
def _deep() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEP))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
