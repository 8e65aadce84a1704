"""A netlist in which each cell is there once, however often its expression was written."""

from collections.abc import Callable
from dataclasses import replace

from accel.sim.slice.netlist import (Assign, Cell, Matches, Netlist, NetMemory, NetOperator,
                                     NetPart, NetRead, NetRegister, Nothing, Priority, Value,
                                     Write, bit_of, cell_of, is_constant)


def merged(netlist: Netlist) -> Netlist:
    """A netlist that does the same: of equal cells with equal inputs only the first is read.
    Registers are equal if their data are."""
    cells, first = list(netlist.cells), list(range(len(netlist.cells)))

    def name(net: int) -> int:
        return net if is_constant(net) else first[cell_of(net)] << 16 | bit_of(net)

    while True:
        known: dict[Cell, int] = {}
        changed = False
        for number, cell in enumerate(cells):
            if first[number] != number or isinstance(cell, NetMemory | Nothing):
                continue
            cells[number] = cell = _renamed(cell, name)
            if isinstance(cell, Write):
                continue
            other = known.setdefault(cell, number)
            if other != number:
                first[number], changed = other, True
        if not changed:
            break
        for number, other in enumerate(first):
            first[number] = first[other]
    return Netlist(cells, netlist.modules, netlist.inputs, {
        port: tuple(map(name, value)) for port, value in netlist.outputs.items()})


def _renamed(cell: Cell, name: Callable[[int], int]) -> Cell:
    """A cell with other names for the nets that it reads."""
    def named(value: Value) -> Value:
        return tuple(map(name, value))

    match cell:
        case NetOperator(inputs=inputs):
            return replace(cell, inputs=tuple(map(named, inputs)))
        case NetPart():
            return replace(cell, value=named(cell.value), offset=named(cell.offset))
        case Matches():
            return replace(cell, value=named(cell.value))
        case Priority():
            return Priority(name(cell.enable), named(cell.inputs))
        case Assign():
            return Assign(named(cell.default), tuple(
                (name(condition), begin, named(value))
                for condition, begin, value in cell.changes))
        case NetRegister():
            return replace(cell, data=named(cell.data))
        case NetRead():
            return replace(cell, address=named(cell.address))
        case Write():
            return replace(cell, address=named(cell.address), data=named(cell.data),
                           enable=named(cell.enable))
    return cell
