"""Amounts of logic in a component's netlist, for hardware that no plan describes.

Components of one's own (`accel.machine.streams`) are elaborated, which takes a fraction of a
second, and what their outputs depend on is counted: registers and memories as they are, logic by
kind, in bits. LUTs are these amounts times coefficients (`data/netlists.toml`) that `fitted_luts`
found for parts of two cores, as yosys made them (`data/area.jsonl`), and for a few components.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel.estimates.fitting import fitted, rounded
from accel.estimates.memories import blocks, distributed
from accel.estimates.runs import DATA
from accel.sim.slice.netlist import (Assign, Cell, Matches, Netlist, NetMemory, NetOperator,
                                     NetPart, NetRead, NetRegister, Priority, cell_of, is_constant)
from accel.sim.slice.slicing import Live, live_bits

NETLIST = "netlist"
"""The group of parts that are counted so."""

MODEL = DATA / "netlists.toml"

FACTOR_BITS = 18
"""Bits of the factors of a multiplier block."""

_GATES = ("&", "|", "^")
_CARRIES = ("+", "-")
_SIDES = ("s<", "s<=", "s>", "s>=", "u<", "u<=", "u>", "u>=")
_EQUALS = ("==", "!=")
_SHIFTS = ("<<", "u>>", "s>>")


@dataclass(frozen=True)
class NetlistAmounts:
    """Counts of a netlist.

    Parameters
    ----------
    logic : bits of operators by kind: `gate`, `mux`, `carry`, `compare`, `equal`, `any`, `shift`,
        `select`, `match`, `change` and `set` (of assignments, the second to a constant).
    registers : bits of registers outside of memories.
    distributed, block_rams, multipliers : cells of memories and multiplier blocks.
    products : bits of the products of multipliers: those of both factors, multiplied.
    """

    logic: Mapping[str, float]
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
    return {module: _counted(netlist, live, some) for module, some in numbers.items()}


def summed(parts: Iterable[NetlistAmounts]) -> NetlistAmounts:
    """The amounts of several modules together."""
    parts = list(parts)
    logic: Counter[str] = Counter()
    for part in parts:
        logic.update(part.logic)
    return NetlistAmounts(logic, *(sum(getattr(part, name) for part in parts) for name in (
        "registers", "distributed", "block_rams", "multipliers", "products")))


def _counted(netlist: Netlist, live: Live, numbers: Iterable[int]) -> NetlistAmounts:
    logic: Counter[str] = Counter()
    registers = rams = block_rams = multipliers = products = 0
    reset = netlist.inputs.get("rst", ())
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
            case NetOperator(symbol="*"):
                a, b = (_width(value) for value in cell.inputs)
                multipliers += -(-a // FACTOR_BITS) * -(-b // FACTOR_BITS)
                products += a * b
            case _:
                logic.update(_logic(netlist, cell, bits, reset))
    return NetlistAmounts(logic, registers, rams, block_rams, multipliers, products)


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


def _logic(netlist: Netlist, cell: Cell, bits: list[int], reset: tuple[int, ...]
           ) -> Mapping[str, float]:
    """The amounts of a cell of logic, of whose output these bits are live."""
    width = len(bits)
    match cell:
        case NetOperator(symbol=symbol) if symbol in _GATES:
            return {"gate": _varying(cell.inputs, bits)}
        case NetOperator(symbol="m"):
            constant = width - _varying(cell.inputs[1:], bits)
            return {"mux": width - constant, "gate": constant}
        case NetOperator(symbol=symbol) if symbol in _CARRIES:
            return {"carry": width}
        case NetOperator(symbol=symbol) if symbol in _SIDES:
            return {"compare": max(map(_width, cell.inputs))}
        case NetOperator(symbol=symbol) if symbol in _EQUALS:
            return {"equal": max(map(_width, cell.inputs))}
        case NetOperator(symbol=symbol) if symbol in ("r&", "r|", "r^", "b"):
            return {"any": max(_width(cell.inputs[0]) - 1, 0)}
        case NetOperator(symbol=symbol) if symbol in _SHIFTS:
            return {"shift": width * min(_width(cell.inputs[1]), width.bit_length())}
        case NetPart():
            places = min(1 << _width(cell.offset), max(len(cell.value) // max(cell.stride, 1), 1))
            return {"select": width * (places - 1)}
        case Matches():
            return {"match": len(cell.patterns) * max(_width(cell.value) - 1, 0)}
        case Priority():
            return {"gate": width}
        case Assign():
            return _changes(netlist, cell, bits, reset)
    return {}


def _changes(netlist: Netlist, cell: Assign, bits: list[int], reset: tuple[int, ...]
             ) -> dict[str, int]:
    """The multiplexers of an assignment, those with a constant apart. Where a register keeps its
    value by default, the enable of the register is one of them; another is its reset."""
    kept = set(bits) if isinstance(netlist.cells[cell_of(cell.default[0])], NetRegister) else set()
    found = {"change": 0, "set": 0}
    for condition, begin, value in cell.changes:
        if condition in reset or is_constant(condition):
            continue
        for place, net in enumerate(value, begin):
            if place in bits and place not in kept:
                found["set" if is_constant(net) else "change"] += 1
        kept -= set(range(begin, begin + len(value)))
    return found


def _varying(inputs: tuple[tuple[int, ...], ...], bits: list[int]) -> int:
    """The bits of which no operand is a constant."""
    return sum(not any(is_constant(value[bit]) for value in inputs) for bit in bits)


def _width(value: tuple[int, ...]) -> int:
    """The bits of a value up to the last that is neither zero nor the sign once more."""
    width = len(value)
    while width > 1 and (value[width - 1] == 0 or value[width - 1] == value[width - 2]):
        width -= 1
    return width


# ---- LUTs of these amounts ---------------------------------------------------------------------

EXPECTED = {"gate": 0.35, "any": 0.33, "equal": 0.2, "mux": 0.9, "carry": 1.0, "compare": 0.5,
            "change": 1.0, "set": 0.4, "match": 0.33, "select": 0.5, "shift": 1.0}
"""LUTs of a bit of an operator, as an ECP5 has it: four inputs each, so that gates share one."""

LEAST_LUTS = 100            # of the parts by whose errors the interval is

_TRUST = 10                 # parts of a typical size that what is expected counts like


def fitted_luts(samples: Sequence[tuple[NetlistAmounts, int]]) -> dict[str, float]:
    """The coefficients of amounts, of parts with their LUTs (distributed RAM left out); those of
    what no part has are as expected."""
    names = [name for name in EXPECTED if any(counted.logic.get(name) for counted, _ in samples)]
    weights = np.array([1 / (luts + LEAST_LUTS) for _, luts in samples])
    rows = np.array([[counted.logic.get(name, 0.0) for name in names] for counted, _ in samples])
    rows, values = rows * weights[:, None], np.array([luts for _, luts in samples]) * weights
    sizes = _TRUST * np.sqrt((rows**2).mean(axis=0))
    found = fitted(np.vstack((rows, np.diag(sizes))),
                   np.append(values, sizes * [EXPECTED[name] for name in names]))
    return EXPECTED | {name: rounded(value)
                       for name, value in zip(names, found.tolist(), strict=True)}


def errors_of(coefficients: Mapping[str, float], samples: Sequence[tuple[NetlistAmounts, int]]
              ) -> list[float]:
    """The relative errors of the LUTs of parts that are not small."""
    return [sum(coefficients[kind] * bits for kind, bits in counted.logic.items()) / luts - 1
            for counted, luts in samples if luts >= LEAST_LUTS]
