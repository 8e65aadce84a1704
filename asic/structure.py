"""A mapped netlist, from yosys's JSON to structural Verilog that every tool reads.

OpenSTA takes instances, plain names and assignments of single bits only. So names are plain here: a
net has the name of a signal whose bit it is, or ``n`` and its number; a flip-flop or a macro is
named after what it holds, another cell ``g`` and its number. Ports keep their widths and names,
without ``.`` and ``$``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Bit = int | str


@dataclass
class NamedModule:
    """A module: names of its nets by yosys's bits, and of its cells."""

    name: str
    ports: dict[str, tuple[str, list[Bit]]]
    nets: dict[Bit, str]
    cells: dict[str, "Cell"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """An instance: its kind, and its pins with the bits at them."""

    kind: str
    pins: Mapping[str, list[Bit]]


def modules_of(design: Mapping[str, Any], holding: frozenset[str]) -> dict[str, NamedModule]:
    """The modules of a design that have cells. `holding`: kinds of flip-flops and macros."""
    found = {name: raw for name, raw in design["modules"].items() if raw["cells"]}
    return {plain(name): _module(plain(name), raw, holding) for name, raw in found.items()}


def plain(name: str) -> str:
    """A name as any tool takes it."""
    return re.sub(r"\W", "_", name)


def _module(name: str, raw: Mapping[str, Any], holding: frozenset[str]) -> NamedModule:
    taken: set[str] = set()
    ports = {_fresh(plain(port), taken): (one["direction"], one["bits"])
             for port, one in raw["ports"].items()}
    nets: dict[Bit, str] = {"0": "1'b0", "1": "1'b1", "x": "1'b0", "z": "1'b0"}
    for port, (direction, bits) in ports.items():
        if direction == "input":
            nets |= {bit: _at(port, place, bits) for place, bit in enumerate(bits)}
    for signal, one in sorted(raw["netnames"].items(), key=lambda item: (
            item[1]["hide_name"], len(item[0]), item[0])):
        for place, bit in enumerate(one["bits"]):
            if bit not in nets:
                own = f"n{bit}" if one["hide_name"] else (
                    plain(signal) + (f"_{place}" if len(one["bits"]) > 1 else ""))
                nets[bit] = _fresh(own, taken)
    module = NamedModule(name, ports, nets)
    used: set[str] = set(taken)
    for number, (cell_name, cell) in enumerate(sorted(raw["cells"].items())):
        drives = tuple(pin for pin, way in cell["port_directions"].items() if way == "output")
        own = f"g{number}"
        if cell["type"] not in holding and not cell["hide_name"]:
            own = plain(cell_name)
        elif cell["type"] in holding:
            driven = [bit for pin in drives for bit in cell["connections"][pin]]
            own = plain(cell_name) if not cell["hide_name"] and len(driven) > 1 else (
                f"{nets[driven[0]]}_reg" if driven else own)
        module.cells[_fresh(plain(own), used)] = Cell(
            plain(cell["type"]), cell["connections"])
    return module


def _fresh(name: str, taken: set[str]) -> str:
    name = name if re.match(r"[A-Za-z_]", name) else f"_{name}"
    own, number = name, 1
    while own in taken:
        own, number = f"{name}_{number}", number + 1
    taken.add(own)
    return own


def _at(port: str, place: int, bits: list[Bit]) -> str:
    return f"{port}[{place}]" if len(bits) > 1 else port


def verilog_of(modules: Mapping[str, NamedModule]) -> str:
    """The modules as Verilog."""
    return "\n".join(line for module in modules.values() for line in _lines(module))


def _lines(module: NamedModule) -> Iterator[str]:
    yield f"module {module.name} ({', '.join(module.ports)});"
    given = set()
    for port, (direction, bits) in module.ports.items():
        width = f"[{len(bits) - 1}:0] " if len(bits) > 1 else ""
        yield f"  {direction} {width}{port};"
        if direction == "input":
            given |= set(bits)
    wires = [name for bit, name in module.nets.items() if isinstance(bit, int)
             and bit not in given]
    yield from (f"  wire {name};" for name in wires)
    for name, cell in module.cells.items():
        pins = ", ".join(f".{plain(pin)}({_joined(module, bits)})"
                         for pin, bits in cell.pins.items() if bits)
        yield f"  {cell.kind} {name} ({pins});"
    for port, (direction, bits) in module.ports.items():
        if direction == "output":
            yield from (f"  assign {_at(port, place, bits)} = {module.nets[bit]};"
                        for place, bit in enumerate(bits))
    yield "endmodule"


def _joined(module: NamedModule, bits: list[Bit]) -> str:
    names = [module.nets[bit] for bit in reversed(bits)]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
