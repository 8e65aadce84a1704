"""The live bits of a netlist as a graph of nodes of at most 64 bits.

A node is what a variable of C++ can hold: a cell, or a piece of one where it works bit by bit. Its
operands are texts of bits: runs of other nodes' bits and constants. Nodes are in an order in which
each comes after those that it reads, but for registers, memories and inputs, which have their
values when a cycle begins.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from accel.sim.slice.netlist import (BITWISE, Assign, Cell, Matches, Netlist, NetlistError,
                                     NetMemory, NetOperator, NetPart, NetRead, NetRegister,
                                     Priority, Value, Write, bit_of, cell_of, is_constant)
from accel.sim.slice.slicing import Live

MOST = 64           # bits of a node

Run = tuple["SliceNode | None", int, int]
"""Bits ``low`` to ``low + count - 1`` of a node; or, without one, a constant `low` of `count`
bits."""

Operand = tuple[Run, ...]
"""Runs, low bits first."""

STATE = ("input", "register", "write")
"""Kinds that no combinational logic computes."""


@dataclass(slots=True, eq=False)
class SliceNode:
    """`kind`: ``input``, ``register``, ``read``, ``write``, ``assign``, ``matches``, ``priority``,
    ``shift``, ``select`` or an operator's symbol.

    Operands and `info` by kind: ``register``: data; initial value. ``read``: address; memory and
    piece of its rows. ``write``: address, data, enable; the same. ``assign``: default, then
    condition and value of each change; first bit and width of each. ``matches``: value; patterns.
    ``priority``: enable, the inputs before, this input. ``shift``: value, offset. ``select``:
    offset, then the values for offsets from 0 on, and 0 for all others. ``input``: name of the
    port and first bit. Comparisons of wide values have their operands in pairs of pieces.
    """

    number: int
    kind: str
    width: int
    module: str
    info: Any = None
    operands: list[Operand] = field(default_factory=list)

    @property
    def combinational(self) -> bool:
        return self.kind not in STATE

    @property
    def whole(self) -> Operand:
        return ((self, 0, self.width),)

    def sources(self) -> list["SliceNode"]:
        """The nodes that it reads, each once."""
        return list(dict.fromkeys(node for operand in self.operands for node in nodes_of(operand)))


@dataclass(frozen=True, slots=True)
class Piece:
    """Bits of a memory's rows that are read and written together."""

    width: int
    depth: int
    init: tuple[int, ...]


@dataclass(slots=True)
class SliceGraph:
    """`order` has the combinational nodes; `pieces` those of memories, by memory and place."""

    order: list[SliceNode]
    registers: list[SliceNode]
    writes: list[SliceNode]
    inputs: dict[str, list[SliceNode]]
    outputs: dict[str, list[Operand]]
    pieces: dict[tuple[int, int], Piece]

    def nodes(self) -> Iterator[SliceNode]:
        """All nodes that compute something."""
        yield from self.order
        yield from self.registers
        yield from self.writes


def nodes_of(operand: Operand) -> Iterator[SliceNode]:
    return (node for node, _, _ in operand if node is not None)


def width_of(operand: Operand) -> int:
    return sum(count for _, _, count in operand)


def constant(value: int, width: int) -> Operand:
    return ((None, value & (1 << width) - 1, width),)


def joined(runs: Iterable[Run]) -> Operand:
    """An operand of as few runs as can be."""
    result: list[Run] = []
    for node, low, count in runs:
        if result:
            last, begin, length = result[-1]
            if last is None and node is None:
                result[-1] = None, begin | low << length, length + count
                continue
            if last is not None and last is node and low == begin + length:
                result[-1] = node, begin, length + count
                continue
        result.append((node, low, count))
    return tuple(result)


def graph_of(netlist: Netlist, live: Live, outputs: Sequence[str]) -> SliceGraph:
    """The graph of live bits. `outputs` are ports; bits that are not live are 0. Raises
    NetlistError for what has no such graph."""
    finer: dict[int, int] = {}
    while True:
        building = _Building(netlist, live, finer)
        graph = building.graph(outputs)
        circular = _ordered(graph)
        if not circular:
            return graph
        # Words of which some bits depend on others of the same word.
        cells = {building.cells[node] for node in circular
                 if building.splits(building.cells[node])}
        cells = {cell for cell in cells if finer.get(cell, 0) < 2}
        if not cells:
            raise NetlistError("Hardware must have no combinational cycle for the slice; one runs "
                               f"through {circular[0].module}")
        for cell in sorted(cells):
            finer[cell] = finer.get(cell, 0) + 1


def _ordered(graph: SliceGraph) -> list[SliceNode]:
    """Orders the combinational nodes. Returns those in cycles, if there are any."""
    missing, users = {}, defaultdict(list)
    for node in graph.order:
        sources = [source for source in node.sources() if source.combinational]
        missing[node] = len(sources)
        for source in sources:
            users[source].append(node)
    order = [node for node in graph.order if not missing[node]]
    for node in order:                  # which grows
        for user in users[node]:
            missing[user] -= 1
            if not missing[user]:
                order.append(user)
    if len(order) == len(graph.order):
        graph.order = order
        return []
    return _without_leaves([node for node in graph.order if missing[node]])


def _without_leaves(nodes: list[SliceNode]) -> list[SliceNode]:
    """Leaves out nodes that none of the others reads."""
    while True:
        read = {source for node in nodes for source in node.sources()}
        kept = [node for node in nodes if node in read]
        if len(kept) == len(nodes):
            return nodes
        nodes = kept


class _Building:
    """Builds a graph. `finer`: of cells, 1: cut wherever a value is cut; 2: into bits."""

    def __init__(self, netlist: Netlist, live: Live, finer: dict[int, int]):
        self._netlist, self._live, self._finer = netlist, live, finer
        self._place: dict[int, tuple[SliceNode, int]] = {}       # of nets
        self._numbers = 0
        self._cuts = self._all_cuts()
        self._rows = {number: self._row_pieces(number) for number, cell
                      in enumerate(netlist.cells) if isinstance(cell, NetMemory) and number in live}
        self.cells: dict[SliceNode, int] = {}

    def splits(self, number: int) -> bool:
        """True of cells that work bit by bit."""
        cell = self._netlist.cells[number]
        return isinstance(cell, (Assign, NetRegister)) \
            or isinstance(cell, NetOperator) and cell.symbol in (*BITWISE, "m")

    def graph(self, outputs: Sequence[str]) -> SliceGraph:
        inputs = {name: self._input(name, value) for name, value in self._netlist.inputs.items()}
        made = [made for number, cell in enumerate(self._netlist.cells)
                for made in self._nodes(number, cell)]
        for node, cell, bits in made:
            node.operands = self._operands(node, cell, bits)
        nodes = [node for node, _, _ in made]
        return SliceGraph([node for node in nodes if node.combinational],
                     [node for node in nodes if node.kind == "register"],
                     [node for node in nodes if node.kind == "write"], inputs,
                     {name: self._wide(self._netlist.outputs[name]) for name in outputs},
                     {(memory, place): self._piece(memory, bits)
                      for memory, rows in self._rows.items() for place, bits in enumerate(rows)})

    # ---- nodes ---------------------------------------------------------------------------------

    def _node(self, number: int, kind: str, bits: Sequence[int], info: Any = None,
              has_output: bool = True) -> SliceNode:
        node = SliceNode(self._numbers, kind, len(bits), self._netlist.modules[number], info)
        self._numbers += 1
        self.cells[node] = number
        if has_output:
            for place, bit in enumerate(bits):
                self._place[number << 16 | bit] = node, place
        return node

    def _input(self, name: str, value: Value) -> list[SliceNode]:
        return [self._node(0, "input", [bit_of(net) for net in value[low:low + MOST]], (name, low))
                for low in range(0, len(value), MOST)]

    def _nodes(self, number: int, cell: Cell) -> Iterator[tuple[SliceNode, Cell, list[int]]]:
        """The nodes of a cell, each with the bits of the cell that it has."""
        if isinstance(cell, Write):
            for place, bits in enumerate(self._rows.get(cell.memory, ())):
                yield self._node(number, "write", bits, (cell.memory, place), False), cell, bits
        if number not in self._live or isinstance(cell, NetMemory) or not number:
            return
        kind, info, pieces = self._pieces(number, cell)
        for place, bits in enumerate(pieces):
            own = (info, place) if isinstance(cell, NetRead) else \
                cell.init if isinstance(cell, NetRegister) else info
            if isinstance(cell, NetRegister):
                own = _chosen(cell.init, bits)
            yield self._node(number, kind, bits, own), cell, bits

    def _pieces(self, number: int, cell: Cell) -> tuple[str, Any, list[list[int]]]:
        """Kind, info and bits of a cell's nodes."""
        live = self._live[number]
        match cell:
            case NetRegister():
                return "register", None, self._cut(number, live)
            case Assign():
                return "assign", None, self._cut(number, live)
            case NetOperator() if self.splits(number):
                return cell.symbol, None, self._cut(number, live)
            case NetOperator():
                if "//" in cell.symbol or "%" in cell.symbol:
                    raise NetlistError(f"What time depends on must divide by no number for the "
                                       f"slice: {self._netlist.modules[number]} does")
                if live[-1] >= MOST:
                    raise self._too_wide(number, cell.symbol, live[-1] + 1)
                return cell.symbol, None, [list(range(live[-1] + 1))]
            case NetPart() if cell.stride == 1 and len(cell.value) <= MOST:
                return "shift", None, [list(range(live[-1] + 1))]
            case NetPart():
                return "select", None, self._cut(number, live)
            case Matches():
                return "matches", cell.patterns, [[0]]
            case Priority():
                return "priority", None, [[bit] for bit in live]
            case NetRead():
                return "read", cell.memory, self._rows[cell.memory]
        raise AssertionError(cell)

    def _too_wide(self, number: int, symbol: str, width: int) -> NetlistError:
        return NetlistError(f"What time depends on must be computed in at most {MOST} bits for the "
                            f"slice: {self._netlist.modules[number]} has a {symbol} of {width}")

    # ---- pieces --------------------------------------------------------------------------------

    def _all_cuts(self) -> dict[int, set[int]]:
        """The bits of each cell where a run that others read begins, or ends."""
        cuts: dict[int, set[int]] = defaultdict(set)
        for cell in self._netlist.cells:
            for value in _values(cell):
                for before, net in pairwise((0, *value, 0)):
                    if net != before + 1 or is_constant(before):
                        if not is_constant(net):
                            cuts[cell_of(net)].add(bit_of(net))
                        if not is_constant(before):
                            cuts[cell_of(before)].add(bit_of(before) + 1)
        return cuts

    def _cut(self, number: int, bits: list[int]) -> list[list[int]]:
        """Bits in pieces of at most `MOST`."""
        finer = self._finer.get(number, 0)
        if finer > 1:
            return [[bit] for bit in bits]
        return _cut(bits, self._cuts[number], bool(finer))

    def _row_pieces(self, memory: int) -> list[list[int]]:
        """Bits of a memory's rows, apart where they are written apart."""
        bits, must = self._live[memory], set()
        cuts = set(self._cuts[memory])
        for number, cell in enumerate(self._netlist.cells):
            if isinstance(cell, Write) and cell.memory == memory:
                must |= {after for bit, after in pairwise(bits)
                         if cell.enable[bit] != cell.enable[after]}
            if isinstance(cell, NetRead) and cell.memory == memory:
                cuts |= self._cuts[number]
        parts, begin = [], 0
        for place in [*(place for place, bit in enumerate(bits) if place and bit in must),
                      len(bits)]:
            parts += _cut(bits[begin:place], cuts, False)
            begin = place
        return parts

    def _piece(self, memory: int, bits: list[int]) -> Piece:
        cell = self._netlist.cells[memory]
        assert isinstance(cell, NetMemory)
        return Piece(len(bits), cell.depth, tuple(_chosen(row, bits) for row in cell.init))

    # ---- operands ------------------------------------------------------------------------------

    def _operand(self, value: Iterable[int]) -> Operand:
        """A value; bits that are not live are 0, as nothing depends on them."""
        runs: list[Run] = []
        for net in value:
            if is_constant(net) or net not in self._place:
                runs.append((None, net if is_constant(net) else 0, 1))
            else:
                runs.append((*self._place[net], 1))
        return joined(runs)

    def _wide(self, value: Value) -> list[Operand]:
        return [self._operand(value[low:low + MOST]) for low in range(0, len(value), MOST)]

    def _some(self, value: Value, bits: Iterable[int]) -> Operand:
        return self._operand(value[bit] for bit in bits)

    def _operands(self, node: SliceNode, cell: Cell, bits: list[int]) -> list[Operand]:
        match cell:
            case NetOperator():
                return self._inputs(self.cells[node], cell, bits)
            case NetPart() if node.kind == "shift":
                return [self._operand(cell.value), self._operand(cell.offset)]
            case NetPart():
                count = min(1 << len(cell.offset), -(-len(cell.value) // cell.stride))
                padded = cell.value + (0,) * (cell.width + cell.stride)
                return [self._operand(cell.offset),
                        *(self._some(padded, (place * cell.stride + bit for bit in bits))
                          for place in range(count))]
            case Matches():
                if len(cell.value) > MOST:
                    raise self._too_wide(self.cells[node], "match", len(cell.value))
                return [self._operand(cell.value)]
            case Priority():
                return [self._operand((cell.enable,)),
                        *(self._operand((net,)) for net in cell.inputs[:bits[0] + 1])]
            case Assign():
                return self._changes(node, cell, bits)
            case NetRegister():
                return [self._some(cell.data, bits)]
            case NetRead():
                return [self._operand(cell.address)]
            case Write():
                enable = cell.enable[bits[0]]
                return [self._operand(cell.address), self._some(cell.data, bits),
                        self._operand((enable,))]
        raise AssertionError(cell)

    def _inputs(self, number: int, cell: NetOperator, bits: list[int]) -> list[Operand]:
        first, *others = cell.inputs
        symbol, width = cell.symbol, len(bits)
        if symbol in BITWISE:
            return [self._some(value, bits) for value in cell.inputs]
        if symbol == "m":
            return [self._operand(first), *(self._some(value, bits) for value in others)]
        if symbol in ("+", "-", "*"):
            return [self._operand(value[:width]) for value in cell.inputs]
        if symbol == "<<":
            return [self._operand(first[:width]), self._operand(others[0])]
        if symbol in ("==", "!=", "b", "r|", "r&", "r^"):
            return [self._operand(value[low:low + MOST]) for low in range(0, len(first), MOST)
                    for value in cell.inputs]
        if any(len(value) > MOST for value in cell.inputs):
            raise self._too_wide(number, symbol, max(map(len, cell.inputs)))
        return [self._operand(value) for value in cell.inputs]

    def _changes(self, node: SliceNode, cell: Assign, bits: list[int]) -> list[Operand]:
        operands, node.info = [self._some(cell.default, bits)], []
        for condition, start, value in cell.changes:
            inside = [place for place, bit in enumerate(bits) if start <= bit < start + len(value)]
            if inside:
                operands += [self._operand((condition,)),
                             self._some(value, (bits[place] - start for place in inside))]
                node.info.append((inside[0], len(inside)))
        return operands


def _values(cell: Cell) -> tuple[Value, ...]:
    """The values that a cell reads, but for single bits."""
    match cell:
        case NetOperator(): return cell.inputs
        case NetPart(): return cell.value, cell.offset
        case Matches(): return (cell.value,)
        case Assign(): return cell.default, *(value for _, _, value in cell.changes)
        case NetRegister(): return (cell.data,)
        case NetRead(): return (cell.address,)
        case Write(): return cell.address, cell.data
    return ()


def _cut(bits: list[int], cuts: set[int], everywhere: bool) -> list[list[int]]:
    """Ascending bits in pieces of at most `MOST`, cut at `cuts`: where it is needed, if not
    everywhere."""
    pieces: list[list[int]] = []
    begin, last = 0, 0                  # of the piece; the last place at which it can be cut
    for place, bit in enumerate(bits):
        if place == begin:
            last = begin
            continue
        if bit in cuts:
            last = place
        if everywhere and last == place or place - begin == MOST:
            end = last if last > begin else place
            pieces.append(bits[begin:end])
            begin, last = end, end
    while len(bits) - begin > MOST:
        pieces.append(bits[begin:begin + MOST])
        begin += MOST
    return [*pieces, bits[begin:]]


def _chosen(word: int, bits: Iterable[int]) -> int:
    """These bits of a word, together."""
    return sum((word >> bit & 1) << place for place, bit in enumerate(bits))
