"""Tables of constants in a netlist, which synthesis makes memories of."""

from collections.abc import Sequence
from dataclasses import dataclass

from accel.sim.slice.netlist import (Assign, Matches, Netlist, Priority, Value, bit_of, cell_of,
                                     is_constant)

LEAST_BITS = 1024           # of a table that is a block RAM; smaller ones are logic


def table_address(netlist: Netlist, number: int) -> Value | None:
    """The address of a block RAM that holds the constants of which a cell chooses one: the value
    that it compares with numbers. None for other cells, and for few bits."""
    cell = netlist.cells[number]
    if not isinstance(cell, Assign) or len(cell.changes) * cell.width < LEAST_BITS:
        return None
    values = (cell.default, *(value for _, _, value in cell.changes))
    if not all(map(is_constant, (net for value in values for net in value))):
        return None
    addresses = {_compared(netlist, condition) for condition, _, _ in cell.changes}
    return addresses.pop() if len(addresses) == 1 else None


def _compared(netlist: Netlist, condition: int) -> Value | None:
    """The value that a condition compares with constants, the earlier ones of a list apart."""
    cell = netlist.cells[cell_of(condition)]
    if isinstance(cell, Priority) and cell.enable == 1:
        cell = netlist.cells[cell_of(cell.inputs[bit_of(condition)])]
    return cell.value if isinstance(cell, Matches) else None


@dataclass(frozen=True, slots=True)
class Cases:
    """The first changes of a list that are cases of one choice; `is_whole`: one of them is always
    the case."""

    count: int
    is_whole: bool = False


def cases(netlist: Netlist, conditions: Sequence[int]) -> Cases:
    """The first conditions that compare one value with numbers, each with another one."""
    chosen, numbers = None, set[str]()
    for count, condition in enumerate(conditions):
        found = _case(netlist, condition)
        if found is None or chosen not in (None, found.value) or found.patterns[0] in numbers:
            return Cases(max(count, 1))
        chosen = found.value
        numbers.add(found.patterns[0])
    owners = [netlist.cells[cell_of(condition)] for condition in conditions]
    alone = all(len(owner.inputs) == len(conditions) for owner in owners
                if isinstance(owner, Priority))
    return Cases(len(conditions), alone and len(numbers) == 1 << len(chosen or ()))


def _case(netlist: Netlist, condition: int) -> Matches | None:
    """The comparison with one number that a condition is, the earlier ones of a list apart."""
    cell = netlist.cells[cell_of(condition)]
    if isinstance(cell, Priority) and cell.enable == 1:
        cell = netlist.cells[cell_of(cell.inputs[bit_of(condition)])]
    if isinstance(cell, Matches) and len(cell.patterns) == 1 and "-" not in cell.patterns[0]:
        return cell
    return None


def exclude(netlist: Netlist, one: int, other: int) -> bool:
    """True for two comparisons of one value with numbers, of which one has no number of the other.
    """
    a, b = netlist.cells[cell_of(one)], netlist.cells[cell_of(other)]
    return (isinstance(a, Matches) and isinstance(b, Matches) and a.value == b.value and all(
        any({x, y} == {"0", "1"} for x, y in zip(p, q, strict=True))
        for p in a.patterns for q in b.patterns))
