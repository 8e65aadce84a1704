"""The area of a component that no plan describes, counted in its netlist.

Components of one's own (`accel.machine.streams`) are elaborated, which takes a fraction of a
second, and what their outputs depend on is counted: registers, memories and multipliers as they
are, logic as the lookup tables that it is mapped to (`accel.estimates.logic`). Nothing is fitted.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from accel.estimates.logic.constants import table_address
from accel.estimates.logic.merging import merged
from accel.estimates.logic.unfolding import factors_of, lookup_tables
from accel.estimates.memories import blocks, distributed
from accel.sim.slice.netlist import (Assign, Netlist, NetMemory, NetOperator, NetRead,
                                     NetRegister, cell_of)
from accel.sim.slice.slicing import Live, live_bits

NETLIST = "netlist"
"""The group of parts that are counted so."""

ERRORS = {"luts": 0.25, "registers": 0.03, "gates": 0.35}
"""Half the interval of each figure, relative to it: nine of ten units and components were off by
less (``python -m bench accelerator.estimates --only units components``); gates by what units of
cores were, too."""

FACTOR_BITS = 18
"""Bits of the factors of a multiplier block."""

_CELL, _BLOCK = 4, 128      # what a cell of distributed RAM and a block RAM cost in yosys' choice,
                            # where a multiplexer and a register of a bit cost about one


@dataclass(frozen=True)
class NetlistAmounts:
    """Counts of a netlist.

    Parameters
    ----------
    luts : lookup tables, and bits of carry chains; those of distributed RAM are left out.
    registers : bits of registers outside of memories.
    distributed, block_rams, multipliers : cells of memories and multiplier blocks.
    products : bits of the products of multipliers: those of both factors, multiplied.
    """

    luts: int
    registers: int
    distributed: int
    block_rams: int
    multipliers: int
    products: int


def amounts_by_module(netlist: Netlist) -> dict[str, NetlistAmounts]:
    """The amounts of each module, by its path."""
    netlist = merged(netlist)
    live = live_bits(netlist, (net for value in netlist.outputs.values() for net in value))
    numbers: dict[str, list[int]] = defaultdict(list)
    for number in live:
        if number:
            numbers[netlist.modules[number]].append(number)
    luts = lookup_tables(netlist, live)
    return {module: _counted(netlist, live, some, luts[module])
            for module, some in numbers.items()}


def summed(parts: Iterable[NetlistAmounts]) -> NetlistAmounts:
    """The amounts of several modules together."""
    return NetlistAmounts(*map(sum, zip(*map(astuple, parts), strict=True)))


def _counted(netlist: Netlist, live: Live, numbers: Iterable[int], luts: int) -> NetlistAmounts:
    registers = rams = block_rams = multipliers = products = 0
    for number in numbers:
        cell, bits = netlist.cells[number], live[number]
        match cell:
            case NetRegister():
                registers += len(bits)
            case NetMemory():
                reads, kept = _reads(netlist, live, number)
                rams += distributed(len(bits), cell.depth) * (reads - len(kept))
                block_rams += blocks(len(bits), cell.depth) * len(kept)
                registers -= sum(map(len, kept))        # they are the memory's own
            case Assign() if address := table_address(netlist, number):
                block_rams += blocks(len(bits), 1 << len(address))
            case NetOperator() if factors := factors_of(cell):
                a, b = factors
                multipliers += -(-a // FACTOR_BITS) * -(-b // FACTOR_BITS)
                products += a * b
    return NetlistAmounts(luts, registers, rams, block_rams, multipliers, products)


def _reads(netlist: Netlist, live: Live, memory: int) -> tuple[int, list[list[int]]]:
    """The number of a memory's live reads, and the bits of those that are registers of a block RAM,
    which is what synthesis makes of it where that costs less than distributed RAM."""
    reads = [number for number in live if isinstance(cell := netlist.cells[number], NetRead)
             and cell.memory == memory]
    rows, width = netlist.cells[memory], len(live[memory])
    assert isinstance(rows, NetMemory)
    small = _CELL * distributed(width, rows.depth) + width * -(-rows.depth // 16)
    if small < _BLOCK * blocks(width, rows.depth):
        return len(reads), []
    kept = [live[number] for number, cell in enumerate(netlist.cells) if number in live
            and isinstance(cell, NetRegister) and _is_of(netlist, cell, reads)]
    return len(reads), kept


def _is_of(netlist: Netlist, register: NetRegister, reads: list[int]) -> bool:
    """True if a register keeps what one of these reads gives, or what it had."""
    source = netlist.cells[cell_of(register.data[0])]
    return isinstance(source, NetOperator) and source.symbol == "m" and (
        cell_of(source.inputs[1][0]) in reads)
