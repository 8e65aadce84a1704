"""Finds the bits of a netlist that outputs can observe, through registers and memories.

Works on the JSON of Yosys for one flat module. A bit is live if an output of the module may depend
on it; a dead bit cannot matter, so a change of it is no change. In cells of unknown types every
output is assumed to depend on every input.
"""

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["Liveness"]

_BITWISE = {"$not", "$pos", "$and", "$or", "$xor", "$xnor"}
_CARRIES = {"$add", "$sub", "$neg"}
_CHOICES = {"$mux", "$pmux"}
_ANY = {"$reduce_or", "$reduce_bool", "$logic_not", "$logic_and", "$logic_or"}
_EQUAL = {"$eq", "$ne", "$eqx", "$nex"}
_REGISTERS = {"$dff", "$dffe", "$sdff", "$sdffe", "$sdffce", "$adff", "$adffe"}

Pin = tuple[str, str, int]
"""Cell, port, bit."""


class Liveness:
    """The live bits of the module `top` in a file of ``write_json``."""

    def __init__(self, netlist: dict[str, Any], top: str):
        module = netlist["modules"][top]
        self._cells = module["cells"]
        self._drivers: dict[int, Pin] = {}
        for name, cell in self._cells.items():
            for port, bits in cell["connections"].items():
                if cell["port_directions"][port] == "output":
                    self._drivers |= {bit: (name, port, k) for k, bit in enumerate(bits)}
        self._live: set[int] = set()
        self._follow(bit for port in module["ports"].values() if port["direction"] == "output"
                     for bit in port["bits"])

    def _follow(self, bits: Iterable[int | str]) -> None:
        waiting = list(bits)
        while waiting:
            bit = waiting.pop()
            if isinstance(bit, int) and bit not in self._live:
                self._live.add(bit)
                if bit in self._drivers:
                    waiting += self._bits(self._needed(*self._drivers[bit]))

    def _bits(self, pins: Iterable[Pin]) -> Iterator[int | str]:
        for cell, port, index in pins:
            bits = self._cells[cell]["connections"].get(port, [])
            if index < len(bits):
                yield bits[index]

    def _needed(self, name: str, port: str, index: int) -> Iterator[Pin]:
        """The input pins that a bit of an output depends on."""
        cell = self._cells[name]
        kind, sizes = cell["type"], {p: len(bits) for p, bits in cell["connections"].items()}
        if kind in _BITWISE or kind in _CARRIES:
            for source in {"A", "B"} & sizes.keys():
                last = min(index, sizes[source] - 1)        # a narrow one is extended
                first = 0 if kind in _CARRIES else last
                yield from ((name, source, k) for k in range(first, last + 1))
        elif kind in _CHOICES:
            width = sizes["Y"]
            yield name, "A", index
            yield from ((name, "B", k) for k in range(index, sizes["B"], width))
            yield from ((name, "S", k) for k in range(sizes["S"]))
        elif kind in _REGISTERS:
            yield name, "D", index
            yield from ((name, p, 0) for p in sizes if p not in ("D", "Q"))
        elif kind == "$mem_v2":
            yield from self._memory(name, index, sizes)
        else:
            yield from ((name, p, k) for p, size in sizes.items()
                        if cell["port_directions"][p] == "input" for k in range(size))

    def _memory(self, name: str, index: int, sizes: dict[str, int]) -> Iterator[Pin]:
        """A lane of a word needs the same lane of the written data, and all addresses."""
        width = int(self._cells[name]["parameters"]["WIDTH"], 2)
        for port, size in sizes.items():
            if port in ("WR_DATA", "WR_EN"):
                yield from ((name, port, k) for k in range(index % width, size, width))
            elif port != "RD_DATA":
                yield from ((name, port, k) for k in range(size))

    def live(self, pin: Pin) -> bool:
        """Whether a pin of a cell, input or output, can be observed from outside."""
        name, port, index = pin
        cell = self._cells[name]
        if cell["port_directions"][port] == "output":
            return cell["connections"][port][index] in self._live
        return any(pin in set(self._needed(name, out, k))
                   for out, bits in cell["connections"].items()
                   if cell["port_directions"][out] == "output"
                   for k, bit in enumerate(bits) if bit in self._live)

    def settled(self, pin: Pin, by: int, value: int) -> bool:
        """Whether the cell's output is the same with the pin inverted, wherever bit `by` of the
        same port has the value: a 1 settles whether any bit is set, and a bit that is not the
        constant's settles a comparison with it.
        """
        name, port, index = pin
        cell = self._cells[name]
        kind, bits = cell["type"], cell["connections"]
        if by == index or cell["port_directions"][port] == "output":
            return False
        if kind in _ANY or kind == "$reduce_and":
            return value == (kind in _ANY)
        if kind not in _EQUAL:
            return False
        other = bits["B" if port == "A" else "A"]
        if by >= len(other):                            # a narrow one is extended
            return value == 1 and not int(cell["parameters"].get("A_SIGNED", "0"), 2)
        return other[by] == str(1 - value)
