"""The bits of a netlist that some outputs depend on.

Bit by bit, from the outputs backwards: of a register, a memory's rows, an adder or a multiplexer
those bits stay that something depends on.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from accel.sim.slice.netlist import (BITWISE, Assign, Cell, Matches, Netlist, NetMemory,
                                     NetOperator, NetPart, NetRead, NetRegister, Priority, Write,
                                     bit_of, cell_of, is_constant)

Live = Mapping[int, list[int]]
"""For each cell that something depends on, the bits of its output; for a memory, those of a row.
Both ascend."""


def live_bits(netlist: Netlist, roots: Iterable[int]) -> Live:
    """The bits that these nets depend on, over any number of cycles."""
    cells = netlist.cells
    writers: dict[int, list[Write]] = defaultdict(list)
    for cell in cells:
        if isinstance(cell, Write):
            writers[cell.memory].append(cell)
    live: dict[int, set[int]] = defaultdict(set)
    todo: list[int] = []

    def need(nets: Iterable[int]) -> None:
        for net in nets:
            if not is_constant(net) and bit_of(net) not in (bits := live[cell_of(net)]):
                bits.add(bit_of(net))
                if cell_of(net):
                    todo.append(net)

    need(roots)
    while todo:
        net = todo.pop()
        cell, bit = cells[cell_of(net)], bit_of(net)
        need(needs(cell, bit))
        if isinstance(cell, NetRead) and bit not in live[cell.memory]:
            live[cell.memory].add(bit)
            for write in writers[cell.memory]:
                need((write.data[bit], write.enable[bit], *write.address))
    return {number: sorted(bits) for number, bits in sorted(live.items()) if bits}


def readers(netlist: Netlist, live: Live, nets: Iterable[int]) -> set[str]:
    """The modules in which live logic reads any of these nets."""
    wanted = set(nets)
    found = set()
    for number, bits in live.items():
        if number and netlist.modules[number] not in found and any(
                net in wanted for bit in bits for net in needs(netlist.cells[number], bit)):
            found.add(netlist.modules[number])
    for number, cell in enumerate(netlist.cells):
        if isinstance(cell, Write) and any(cell.data[bit] in wanted
                                           for bit in live.get(cell.memory, ())):
            found.add(netlist.modules[number])
    return found


def needs(cell: Cell, bit: int) -> Iterable[int]:
    """The nets that a bit of a cell's output depends on."""
    match cell:
        case NetOperator():
            return _operands(cell, bit)
        case NetPart():
            return (*cell.offset, *cell.value[bit::cell.stride])
        case Matches():
            return (net for place, net in enumerate(cell.value)
                    if any(pattern[-1 - place] != "-" for pattern in cell.patterns))
        case Priority():
            return (cell.enable, *cell.inputs[:bit + 1])
        case Assign():
            return (cell.default[bit], *(
                net for condition, start, value in cell.changes
                if start <= bit < start + len(value) for net in (condition, value[bit - start])))
        case NetRegister():
            return (cell.data[bit],)
        case NetRead():
            return cell.address
        case NetMemory():
            return ()
    raise AssertionError(cell)


def _operands(cell: NetOperator, bit: int) -> Iterable[int]:
    first, *others = cell.inputs
    if cell.symbol in BITWISE:
        return (value[bit] for value in cell.inputs)
    if cell.symbol == "m":
        return (first[0], others[0][bit], others[1][bit])
    if cell.symbol in ("+", "-", "*"):
        return (net for value in cell.inputs for net in value[:bit + 1])
    if cell.symbol == "<<":
        return (*first[:bit + 1], *others[0])
    if cell.symbol in ("u>>", "s>>"):
        return (*first[bit:], *others[0])
    return (net for value in cell.inputs for net in value)
