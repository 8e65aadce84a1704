"""The netlist of a core in types of our own.

Amaranth has a netlist between its language and Verilog, and keeps it to itself. All that is read of
it is read here, and told in the few kinds of cells below: a synchronous read is a read and a
register, there is one clock, and there is no reset.

A net is a number: 0 and 1 are those constants, others name a bit of a cell's output. Values are
tuples of nets, low bits first.
"""

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Elaboratable, Fragment, ValueCastable

from compiler.errors import Error

Value = tuple[int, ...]

BITWISE = ("~", "&", "|", "^")


class NetlistError(Error):
    """A netlist that cannot be read, or has what no simulator can be cut from."""


@dataclass(frozen=True, slots=True)
class NetOperator:
    """`symbol` as Amaranth's netlist has it; ``m`` is a multiplexer."""

    symbol: str
    inputs: tuple[Value, ...]

    @property
    def width(self) -> int:
        if self.symbol in (*BITWISE, "+", "-", "*", "u//", "s//", "u%", "s%", "<<", "u>>", "s>>"):
            return len(self.inputs[0])
        return len(self.inputs[1]) if self.symbol == "m" else 1


@dataclass(frozen=True, slots=True)
class NetPart:
    """`width` bits of `value` from bit ``offset * stride`` on; zeros behind its end."""

    value: Value
    offset: Value
    width: int
    stride: int


@dataclass(frozen=True, slots=True)
class Matches:
    """1 if `value` is like one of `patterns`: texts of 0, 1 and -, high bits first."""

    value: Value
    patterns: tuple[str, ...]
    width: int = 1


@dataclass(frozen=True, slots=True)
class Priority:
    """Only the first of `inputs` that is 1, if `enable` is."""

    enable: int
    inputs: Value

    @property
    def width(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, slots=True)
class Assign:
    """`default`, over which each change is written in turn: condition, first bit, value."""

    default: Value
    changes: tuple[tuple[int, int, Value], ...]

    @property
    def width(self) -> int:
        return len(self.default)


@dataclass(frozen=True, slots=True)
class NetRegister:
    """Becomes `data` where the clock rises."""

    data: Value
    init: int

    @property
    def width(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class NetMemory:
    """Rows, which `NetRead` and `Write` refer to by the number of this cell."""

    row_bits: int
    depth: int
    init: tuple[int, ...]
    width: int = 0


@dataclass(frozen=True, slots=True)
class NetRead:
    """A row, in the same cycle."""

    memory: int
    address: Value
    width: int


@dataclass(frozen=True, slots=True)
class Write:
    """Bits of a row become those of `data` where `enable` is 1 and the clock rises."""

    memory: int
    address: Value
    data: Value
    enable: Value
    width: int = 0


@dataclass(frozen=True, slots=True)
class Nothing:
    """A cell without meaning for what is simulated: assertions, prints."""

    width: int = 0


Cell = (NetOperator | NetPart | Matches | Priority | Assign | NetRegister | NetMemory | NetRead
        | Write | Nothing)


@dataclass(frozen=True, slots=True)
class Netlist:
    """Cell 0 stands for the inputs. `modules` has the path of each cell's module, `signals` the
    values of signals by their names, of several of one name the first."""

    cells: list[Cell] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    inputs: dict[str, Value] = field(default_factory=dict)
    outputs: dict[str, Value] = field(default_factory=dict)
    signals: dict[str, Value] = field(default_factory=dict)


def cell_of(net: int) -> int:
    return net >> 16


def bit_of(net: int) -> int:
    return net & 0xFFFF


def is_constant(net: int) -> bool:
    return net < 2


def nets_of(cell: int, width: int) -> Value:
    """The nets of a cell's output."""
    return tuple(cell << 16 | bit for bit in range(width))


def netlist_of(component: Any, name: str = "core") -> Netlist:
    """The netlist of a component with a signature. Raises NetlistError."""
    hdl = _Hdl()
    ports = {}
    for path, member, value in component.signature.flatten(component):
        value = value.as_value() if isinstance(value, ValueCastable) else value
        inward = member.flow.name == "In"
        ports["__".join(map(str, path))] = value, hdl.directions.Input if inward \
            else hdl.directions.Output
    return _Reading(hdl, hdl.emitted(component, ports, name)).result


class _Hdl:
    """Amaranth's private parts."""

    def __init__(self) -> None:
        try:
            from amaranth.hdl import _ir, _nir

            self.cells, self.directions = _nir, _ir.PortDirection
            self._netlist, self._emit = _nir.Netlist, _ir._emit_netlist
        except (ImportError, AttributeError) as error:
            raise self.unlike(str(error)) from error

    def unlike(self, what: str) -> NetlistError:
        return NetlistError(f"Amaranth must have the netlist of version 0.5.10 for the slice, not "
                            f"that of {importlib.metadata.version('amaranth')}: {what}")

    def emitted(self, component: Elaboratable, ports: Mapping[str, Any], name: str) -> Any:
        """The netlist that `_ir.build_netlist` makes, without the ports of its modules, and without
        a search for combinational cycles, which are found here later."""
        try:
            design = Fragment.get(component, None).prepare(ports=ports, hierarchy=(name,))
            netlist = self._netlist()
            self._emit(netlist, design, all_undef_to_ff=False)
            netlist.resolve_all_nets()
        except (AttributeError, TypeError) as error:
            raise self.unlike(str(error)) from error
        return netlist


class _Reading:
    """One netlist, told anew."""

    def __init__(self, hdl: _Hdl, netlist: Any) -> None:
        self._hdl, self._netlist = hdl, netlist
        top = netlist.top
        self.result = Netlist(
            [Nothing()] * len(netlist.cells),
            [".".join(netlist.modules[cell.module_idx].name) for cell in netlist.cells],
            {name: tuple(range(start, start + width))
             for name, (start, width) in top.ports_i.items()},
            {name: tuple(map(int, value)) for name, value in top.ports_o.items()})
        for signal, nets in netlist.signals.items():
            self.result.signals.setdefault(signal.name, tuple(map(int, nets)))
        self._clock = self.result.inputs.get("clk")
        for number, cell in enumerate(netlist.cells):
            if number:
                self.result.cells[number] = self._read(number, cell)

    def _value(self, value: Any) -> Value:
        return tuple(map(int, value))

    def _read(self, number: int, cell: Any) -> Cell:
        kinds, value = self._hdl.cells, self._value
        match cell:
            case kinds.Operator():
                return NetOperator(cell.operator, tuple(map(value, cell.inputs)))
            case kinds.Part():
                return self._part(cell)
            case kinds.Matches():
                return Matches(value(cell.value), cell.patterns)
            case kinds.PriorityMatch():
                return Priority(int(cell.en), value(cell.inputs))
            case kinds.AssignmentList():
                return Assign(value(cell.default), tuple(
                    (int(one.cond), one.start, value(one.value)) for one in cell.assignments))
            case kinds.FlipFlop():
                if int(cell.arst) != 0:
                    raise self._refused(number, "a register with an asynchronous reset")
                self._require_clock(number, cell)
                return NetRegister(value(cell.data), cell.init)
            case kinds.Memory():
                return NetMemory(cell.width, cell.depth, cell.init)
            case kinds.SyncWritePort():
                self._require_clock(number, cell)
                return Write(cell.memory, value(cell.addr), value(cell.data), value(cell.en))
            case kinds.AsyncReadPort():
                return NetRead(cell.memory, value(cell.addr), cell.width)
            case kinds.SyncReadPort():
                self._require_clock(number, cell)
                return self._registered(number, cell)
            case kinds.AsyncPrint() | kinds.SyncPrint() | kinds.AsyncProperty() \
                    | kinds.SyncProperty():
                return Nothing()
        raise self._refused(number, f"a cell of the kind {type(cell).__name__}")

    def _refused(self, number: int, what: str) -> NetlistError:
        return NetlistError(f"Hardware must be made of logic, registers of one clock and memories "
                            f"for the slice: {self.result.modules[number]} has {what}")

    def _require_clock(self, number: int, cell: Any) -> None:
        if cell.clk_edge != "pos" or (int(cell.clk),) != self._clock:
            raise self._refused(number, "another clock")

    def _part(self, cell: Any) -> NetPart:
        value, offset = self._value(cell.value), self._value(cell.offset)
        if cell.value_signed:
            reach = ((1 << len(offset)) - 1) * cell.stride + cell.width
            value += value[-1:] * (reach - len(value))
        return NetPart(value, offset, cell.width, cell.stride)

    def _add(self, number: int, cell: Cell) -> Value:
        """The output of a cell more, in the module of cell `number`."""
        self.result.cells.append(cell)
        self.result.modules.append(self.result.modules[number])
        return nets_of(len(self.result.cells) - 1, cell.width)

    def _registered(self, number: int, cell: Any) -> NetRegister:
        """A read port with a register; it sees what is written in the same cycle where it is
        transparent for that."""
        row = self._add(number, NetRead(cell.memory, self._value(cell.addr), cell.width))
        for port in cell.transparent_for:
            row = self._transparent(number, self._netlist.cells[port], row, cell)
        kept = nets_of(number, cell.width)
        return NetRegister(self._add(number, NetOperator("m", ((int(cell.en),), row, kept))), 0)

    def _transparent(self, number: int, write: Any, row: Value, cell: Any) -> Value:
        def made(symbol: str, *inputs: Value) -> Value:
            return self._add(number, NetOperator(symbol, inputs))

        address = self._value(write.addr), self._value(cell.addr)
        mask = made("&", self._value(write.en), made("==", *address) * cell.width)
        return made("|", made("&", row, made("~", mask)),
                    made("&", self._value(write.data), mask))
