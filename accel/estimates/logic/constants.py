"""Tables of constants in a netlist, which synthesis makes memories of."""

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
