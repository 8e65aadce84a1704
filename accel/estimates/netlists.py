"""What a component takes whose hardware no plan describes, counted in its netlist.

Components of one's own (`accel.machine.streams`) are elaborated, which takes a fraction of a
second, and what their outputs depend on is counted: registers, memories and multipliers as they
are, logic as the lookup tables that it is mapped to (`accel.estimates.logic`). Nothing is fitted.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from accel.estimates.logic.unfolding import lookup_tables, width_of
from accel.estimates.memories import blocks, distributed
from accel.sim.slice.netlist import (Netlist, NetMemory, NetOperator, NetRead, NetRegister,
                                     cell_of)
from accel.sim.slice.slicing import Live, live_bits

NETLIST = "netlist"
"""The group of parts that are counted so."""

ERRORS = {"luts": 0.25, "registers": 0.03, "gates": 0.35}
"""Half the interval of each figure, relative to it: nine of ten units and components were off by
less (``python -m bench accelerator.components``); gates by what units of cores were, too."""

FACTOR_BITS = 18
"""Bits of the factors of a multiplier block."""


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
            case NetOperator(symbol="*") if (factors := tuple(map(width_of, cell.inputs))) and (
                    min(factors) > 1):
                a, b = factors
                multipliers += -(-a // FACTOR_BITS) * -(-b // FACTOR_BITS)
                products += a * b
    return NetlistAmounts(luts, registers, rams, block_rams, multipliers, products)


def _reads(netlist: Netlist, live: Live, memory: int) -> tuple[int, list[list[int]]]:
    """The number of a memory's live reads, and the bits of those that are registers of a block
    RAM: of many rows, which synthesis makes no distributed RAM of."""
    reads = [number for number in live if isinstance(cell := netlist.cells[number], NetRead)
             and cell.memory == memory]
    rows = netlist.cells[memory]
    assert isinstance(rows, NetMemory)
    if rows.depth * rows.row_bits < 1024:
        return len(reads), []
    kept = [live[number] for number, cell in enumerate(netlist.cells) if number in live
            and isinstance(cell, NetRegister) and _is_of(netlist, cell, reads)]
    return len(reads), kept


def _is_of(netlist: Netlist, register: NetRegister, reads: list[int]) -> bool:
    """True if a register keeps what one of these reads gives, or what it had."""
    source = netlist.cells[cell_of(register.data[0])]
    return isinstance(source, NetOperator) and source.symbol == "m" and (
        cell_of(source.inputs[1][0]) in reads)
