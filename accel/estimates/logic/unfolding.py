"""A netlist bit by bit, and the lookup tables that it takes.

Registers, memories, multipliers and carry chains are cells of their own, at which logic begins and
ends. What synthesis does before it maps logic is done here as well, as yosys does it for an ECP5
(its ``synth_ecp5``): constants and equal logic go, short sums and comparisons are logic, several
sums in a row are one with full adders, and of a register the enable and the reset are pins.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from accel.estimates.logic.constants import cases, exclude, table_address
from accel.estimates.logic.covering import tables
from accel.estimates.logic.network import FALSE, TRUE, BitNetwork
from accel.estimates.logic.words import compressed, less, matched, selected, shifted, sum_of
from accel.sim.slice.netlist import (Assign, Cell, Matches, Netlist, NetOperator, NetPart, NetRead,
                                     NetRegister, Priority, Value, Write, bit_of, cell_of,
                                     is_constant)
from accel.sim.slice.slicing import Live, needs

CHAIN = 4                   # bits up to which a sum is lookup tables, not a carry chain

_SUMS = ("+", "-")
_SIDES = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SHIFTS = ("<<", "u>>", "s>>")
_DIVISIONS = ("u//", "s//", "u%", "s%")


def lookup_tables(netlist: Netlist, live: Live) -> Counter[str]:
    """The lookup tables of the live logic of each module, by its path; a bit of a carry chain is
    one, too. A few at the edge of a module count for its neighbour. Memories have none here."""
    unfolded = Unfolded(netlist, live)
    return tables(unfolded.network, unfolded.roots) + unfolded.chained


def width_of(value: Value) -> int:
    """The bits of a value up to the last that is neither zero nor the sign once more."""
    width = len(value)
    while width > 1 and (value[width - 1] == 0 or value[width - 1] == value[width - 2]):
        width -= 1
    return width


def factors_of(cell: NetOperator) -> tuple[int, int] | None:
    """The bits of the factors of a product in multiplier blocks; None of a product by one bit or by
    a power of two, and of other cells."""
    if cell.symbol != "*":
        return None
    a, b = map(width_of, cell.inputs)
    return None if min(a, b) < 2 or any(_power(value) is not None
                                        for value in cell.inputs) else (a, b)


def _power(value: Value) -> int | None:
    """The place of the only bit of a constant."""
    return value.index(1) if all(map(is_constant, value)) and sum(value) == 1 else None


class Unfolded:
    """The network of a netlist, the literals at which its logic ends, and by module the lookup
    tables of what is not in the network."""

    def __init__(self, netlist: Netlist, live: Live):
        self.network, self.roots, self.chained = BitNetwork(), list[int](), Counter[str]()
        self._netlist, self._live = netlist, live
        self._resets = frozenset(netlist.inputs.get("rst", ()))
        self._literals = {0: FALSE, 1: TRUE}
        self._readers = Counter(net for number in live if number
                                for net in {net for bit in live[number]
                                            for net in needs(netlist.cells[number], bit)})
        self._merged = set[int]()
        self._tables = {number: address for number in live
                        if (address := table_address(netlist, number)) is not None}
        writes = [cell for cell in netlist.cells if isinstance(cell, Write)]
        for write in writes:
            self._readers.update({*write.data, *write.address, *write.enable})
        for number in sorted(live, reverse=True):   # sums after those that they are part of
            if self._chain(number) and number not in self._merged:
                self._terms(number)
        for value in netlist.outputs.values():
            self._end(value)
        for number, bits in live.items():
            self.network.owner = netlist.modules[number]
            self._ends(number, netlist.cells[number], bits)
        for write in writes:
            if bits := live.get(write.memory):
                self._end((*write.address, *(write.data[bit] for bit in bits),
                           *(write.enable[bit] for bit in bits)))

    # ---- literals ------------------------------------------------------------------------------

    def _literal(self, net: int) -> int:
        """The literal of a net, after those of all that it depends on."""
        literals, todo = self._literals, [net]
        while todo:
            net = todo[-1]
            if net in literals:
                todo.pop()
                continue
            number = cell_of(net)
            missing = [other for other in self._inputs(number, bit_of(net))
                       if other not in literals]
            if missing:
                todo += missing
                continue
            self.network.owner = self._netlist.modules[number]
            self._make(number, bit_of(net))
        return literals[net]

    def words(self, value: Iterable[int]) -> list[int]:
        """The literals of nets."""
        return [self._literal(net) for net in value]

    def _inputs(self, number: int, bit: int) -> Iterable[int]:
        """The nets that are to be known before that of a bit of a cell."""
        cell = self._netlist.cells[number]
        if self._is_leaf(number, bit):
            return ()
        if isinstance(cell, NetPart):
            return (*cell.value, *cell.offset)
        if isinstance(cell, NetOperator) and cell.symbol in (*_SHIFTS, "*"):
            return (net for value in cell.inputs for net in value)
        if isinstance(cell, NetOperator) and self._chain(number):
            return (value[bit] for value in cell.inputs)
        return needs(cell, bit)

    def _is_leaf(self, number: int, bit: int) -> bool:
        """True for a bit that no logic makes."""
        cell, chain = self._netlist.cells[number], self._chain(number)
        return (not number or number in self._tables or _is_apart(cell)
                or (chain is not None and bit >= chain[0]))

    def _make(self, number: int, bit: int) -> None:
        """Gives a bit of a cell its literal, or all of its bits."""
        network, cell, net = self.network, self._netlist.cells[number], number << 16 | bit
        if self._is_leaf(number, bit):
            self._literals[net] = network.leaf()
            return
        match cell:
            case NetPart():
                made = selected(network, self.words(cell.value), self.words(cell.offset),
                                cell.width, cell.stride)
            case NetOperator(symbol=symbol) if symbol in _SHIFTS:
                made = shifted(network, symbol, *map(self.words, cell.inputs))
            case NetOperator(symbol=symbol) if symbol in _SUMS and not self._chain(number):
                a, b = (self.words(value[:bit + 1]) for value in cell.inputs)
                minus = int(symbol == "-")
                self._literals[net] = sum_of(network, a, [one ^ minus for one in b], minus)[-1]
                return
            case _:
                self._literals[net] = self._bit(cell, bit)
                return
        self._literals.update((number << 16 | at, literal) for at, literal in enumerate(made))

    def _bit(self, cell: Cell, bit: int) -> int:
        """A bit of a cell that works bit by bit, or has only one."""
        network, literals = self.network, self._literals
        match cell:
            case NetOperator():
                return self._operator(cell, bit)
            case Matches():
                used = [any(pattern[-1 - place] != "-" for pattern in cell.patterns)
                        for place in range(len(cell.value))]
                return matched(network, [literals[net] if here else FALSE for net, here in zip(
                    cell.value, used, strict=True)], cell.patterns)
            case Priority():
                net = cell.inputs[bit]
                before = [literals[other] for other in cell.inputs[:bit]
                          if not exclude(self._netlist, other, net)]
                own = network.conjunction(literals[cell.enable], literals[net])
                return network.conjunction(own, network.tree(
                    network.disjunction, [FALSE, *before]) ^ 1)
            case Assign():
                return self._assigned(cell, bit)
        raise AssertionError(cell)

    def _assigned(self, cell: Assign, bit: int) -> int:
        """A bit over which changes are written. Those of one choice by numbers are joined."""
        network, literals = self.network, self._literals
        found, changes = literals[cell.default[bit]], [*_changes(cell, bit)]
        while changes:
            choice = cases(self._netlist, [condition for condition, _ in changes])
            one, changes = changes[:choice.count], changes[choice.count:]
            terms = [(literals[condition], literals[value]) for condition, value in one]
            if len(terms) == 1:
                found = network.choice(*terms[0], found)
                continue
            if not choice.is_whole:
                terms.append((network.tree(network.disjunction, [
                    condition for condition, _ in terms]) ^ 1, found))
            found = network.tree(network.disjunction, [
                network.conjunction(*term) for term in terms])
        return found

    def _operator(self, cell: NetOperator, bit: int) -> int:
        network, symbol = self.network, cell.symbol
        words = [[self._literals.get(net, FALSE) for net in value] for value in cell.inputs]
        first = words[0]
        if symbol == "~":
            return first[bit] ^ 1
        if symbol in ("&", "|", "^"):
            return {"&": network.conjunction, "|": network.disjunction,
                    "^": network.difference}[symbol](first[bit], words[1][bit])
        if symbol == "m":
            return network.choice(first[0], words[1][bit], words[2][bit])
        if symbol in _SUMS:         # below a chain: one of both is 0
            return words[1][bit] or first[bit]
        if symbol == "*":
            one, other = sorted(cell.inputs, key=lambda value: (
                _power(value) is None, width_of(value)))
            if (place := _power(one)) is not None:
                return self._literals[other[bit - place]] if bit >= place else FALSE
            return network.conjunction(self._literals[one[0]], self._literals[other[bit]])
        if symbol in ("==", "!="):
            equal = [network.difference(a, b) ^ 1 for a, b in zip(*words, strict=True)]
            return network.tree(network.conjunction, [TRUE, *equal]) ^ (symbol == "!=")
        if symbol in ("r&", "r|", "r^", "b"):
            operator, neutral = {"r&": (network.conjunction, TRUE), "r^": (
                network.difference, FALSE)}.get(symbol, (network.disjunction, FALSE))
            return network.tree(operator, [neutral, *first])
        return self._comparison(cell, words)

    def _comparison(self, cell: NetOperator, words: list[list[int]]) -> int:
        known = _always(cell)
        if known is not None:
            return int(known)
        width, side = _width(cell), cell.symbol[1:]
        a, b = (word[:width] for word in words)
        if side in (">", "<="):
            a, b = b, a
        return less(self.network, a, b, cell.symbol[0] == "s") ^ (len(side) == 2)

    # ---- carry chains --------------------------------------------------------------------------

    def _chain(self, number: int) -> tuple[int, int] | None:
        """The first bit of a sum's carry chain, and the one after its last; below it is no carry.
        None where it has none."""
        cell = self._netlist.cells[number]
        if not isinstance(cell, NetOperator) or cell.symbol not in _SUMS:
            return None
        a, b = cell.inputs
        end = min(max(width_of(a), width_of(b)) + 1, self._live[number][-1] + 1)
        low = 0
        while low < end and (b[low] == 0 or (a[low] == 0 and cell.symbol == "+")):
            low += 1
        return (low, end) if end - low > CHAIN else None

    def _terms(self, number: int) -> list[tuple[Value, bool]]:
        """The terms of a chain, and whether it subtracts them: also those of another one that only
        it reads, and that is as long."""
        cell, (_, end) = self._netlist.cells[number], self._chain(number) or (0, 0)
        assert isinstance(cell, NetOperator)
        terms = []
        for value, negative in zip(cell.inputs, (False, cell.symbol == "-"), strict=True):
            inner = cell_of(value[0])
            chain = self._chain(inner) if inner in self._live and inner else None
            if chain and chain[1] >= end and all(
                    value[bit] == inner << 16 | bit and self._readers[value[bit]] == 1
                    for bit in range(end)):
                self._merged.add(inner)
                terms += [(term, minus ^ negative) for term, minus in self._terms(inner)]
            else:
                terms.append((value, negative))
        return terms

    def _sum(self, number: int) -> None:
        """Full adders and the chain of a sum."""
        low, end = self._chain(number) or (0, 0)
        terms = [[literal ^ minus for literal in self.words(value[low:end])]
                 for value, minus in self._terms(number)]
        self.network.owner = self._netlist.modules[number]
        for word in compressed(self.network, terms):
            self.roots += word
        self._count(end - low)

    def _compare(self, cell: NetOperator) -> None:
        """A comparison by the carry of a difference. Where that is of the wrong side, as of two
        variables half are, or equal numbers count, too, equality is tested besides."""
        width, side = _width(cell), cell.symbol[1:]
        for value in cell.inputs:
            self._end(value[:width])
        equal = 2 * width / 3               # two bits to a table, and what joins these
        self._count(width, round(equal * (1 if len(side) == 2 else 0.5) + (
            cell.symbol[0] == "s")))

    def _count(self, bits: int, tables: int = 0) -> None:
        """A chain of so many bits, and tables. Two bits are a cell; the lowest is a table besides,
        as `fpga.building.carries` leaves it."""
        self.chained[self.network.owner] += bits + bits % 2 + 1 + tables

    # ---- ends ----------------------------------------------------------------------------------

    def _end(self, value: Iterable[int]) -> None:
        owner = self.network.owner
        self.roots += self.words(value)
        self.network.owner = owner

    def _ends(self, number: int, cell: Cell, bits: list[int]) -> None:
        """The logic that ends at a cell which is none, and the tables of that."""
        match cell:
            case NetRegister():
                for bit in bits:
                    self._register(number, cell, bit)
            case NetRead():
                self._end(cell.address)
            case Assign() if number in self._tables:
                self._end(self._tables[number])
            case NetOperator(symbol=symbol) if symbol in _SUMS:
                if self._chain(number) and number not in self._merged:
                    self._sum(number)
            case NetOperator(symbol="*") if _is_apart(cell):
                self._end(net for value in cell.inputs for net in value)
            case NetOperator(symbol=symbol) if symbol in _DIVISIONS:
                self._end(net for value in cell.inputs for net in value)
                a, b = map(width_of, cell.inputs)
                self._count(a * (2 * b + 1))        # a difference and a multiplexer for each bit
            case NetOperator() if _compared(cell) > CHAIN:
                self._compare(cell)

    def _register(self, number: int, cell: NetRegister, bit: int) -> None:
        """The data of a register; its enable and its reset, which many share."""
        network, own = self.network, self._literal(number << 16 | bit)
        changes, value, has_reset = self._changed(cell.data[bit])
        to = {cell.init >> bit & 1} if has_reset else {FALSE, TRUE}
        resets = list[int]()
        while changes and changes[-1][1] in to:
            to = {changes[-1][1]}
            resets.append(changes.pop()[0])
        if resets:
            self.roots.append(network.tree(network.disjunction, resets))
        enable = TRUE
        if value == own and changes:
            enable = network.tree(network.disjunction, [condition for condition, _ in changes])
            value = changes.pop(0)[1]
        for condition, changed in changes:
            value = network.choice(condition, changed, value)
        while (parts := network.chosen(value)) and own in parts[1:]:
            condition, then, other = parts
            value = other if then == own else then
            enable = network.conjunction(enable, condition ^ (then == own))
        if value != own:
            self.roots += enable, value

    def _changed(self, data: int) -> tuple[list[tuple[int, int]], int, bool]:
        """The changes of a register's data over what it is else: literals of conditions and values;
        and whether the reset of the machine is a further one."""
        cell = self._netlist.cells[cell_of(data)] if not is_constant(data) else None
        if not isinstance(cell, Assign):
            return [], self._literal(data), False
        found, has_reset = list[tuple[int, int]](), False
        for condition, value in _changes(cell, bit_of(data)):
            if condition in self._resets:
                has_reset = True
            elif (literal := self._literal(condition)) != FALSE:
                found.append((literal, self._literal(value)))
        return found, self._literal(cell.default[bit_of(data)]), has_reset


def _changes(cell: Assign, bit: int) -> Iterator[tuple[int, int]]:
    """The condition and the net of each change of a bit."""
    return ((condition, value[bit - begin]) for condition, begin, value in cell.changes
            if begin <= bit < begin + len(value))


def _width(cell: NetOperator) -> int:
    return max(map(width_of, cell.inputs))


def _is_apart(cell: Cell) -> bool:
    """True for cells that are no logic, whatever they are of."""
    if not isinstance(cell, NetOperator):
        return isinstance(cell, NetRegister | NetRead)
    if cell.symbol == "*":
        return factors_of(cell) is not None
    return cell.symbol in _DIVISIONS or _compared(cell) > CHAIN


def _compared(cell: NetOperator) -> int:
    """The bits that a comparison compares; 0 of one whose result is known, and of other cells."""
    return _width(cell) if cell.symbol[1:] in _SIDES and _always(cell) is None else 0


def _always(cell: NetOperator) -> bool | None:
    """The result of a comparison with a constant that is beyond what the other value can be."""
    a, b, side = *cell.inputs, cell.symbol[1:]
    if cell.symbol[0] == "s":
        return None
    if all(map(is_constant, a)):
        a, b, side = b, a, _SIDES[side]
    if not all(map(is_constant, b)):
        return None
    number, most = sum(net << bit for bit, net in enumerate(b)), (1 << width_of(a)) - 1
    always, never = {"<": (most < number, number == 0), "<=": (most <= number, False),
                     ">": (False, most <= number), ">=": (number == 0, most < number)}[side]
    return True if always else False if never else None
