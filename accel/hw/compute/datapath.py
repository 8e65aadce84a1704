"""A plan as hardware: operators and registers between operands and value."""

from functools import cache

import numpy as np
from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.datapath.dataflow import DataflowNode, Interval
from accel.datapath.placement import FACTOR_BITS, Operation, factor_bits
from accel.datapath.plan import DatapathPlan
from accel.hw.interface import table_read
from accel.hw.parts import ECP5, GROUP, Multiplier, follows, registered
from accel.machine.intrinsics import TABLE

INDEX_BITS = exact_log2(TABLE.shape[0])


def _shape(interval: Interval) -> Shape:
    return Shape(interval.width, interval.signed)


class Datapath(wiring.Component):
    """The feed-forward part of a unit's bodies.

    Latency: `value` belongs to the operands of ``plan.latency`` cycles before. Throughput: one
    element a cycle. It never stalls, and no register is reset. Registers follow where there is an
    element, which simulates faster; on an FPGA, where that wins nothing, they always do.

    Parameters
    ----------
    dsp_multipliers : multiplier blocks that may be taken, of multipliers that fit one.

    Members
    -------
    one for each of ``plan.buses`` : a tile of operands, elements in row-major order, as wide as
        the widest reading of it.
    one for each of ``plan.immediates`` : shape of its interval, in the cycle before its operands.
    valid, select : in that cycle, whether there is an element; one-hot, which of ``plan.bodies``.
    tab : a read port for each lookup of each element, if there are lookups; entry and index in it.
    value : of acc's type for each destination element, in row-major order.
    """

    def __init__(self, plan: DatapathPlan, dsp_multipliers: int = 1 << 16):
        self.plan, self.dsp_multipliers = plan, dsp_multipliers
        self.widths = {bus: max(operation.node.interval.width for operation in plan.operations
                                if operation.node.kind == "read" and operation.node.attr[0] == bus)
                       for bus in plan.buses}
        self._lanes, lookups = int(np.prod(plan.shape)), plan.count("lookup")
        super().__init__({
            **{bus: In(int(np.prod(shape)) * self.widths[bus])
               for bus, shape in plan.buses.items()},
            **{name: In(_shape(interval)) for name, interval in plan.immediates.items()},
            "valid": In(1), "select": In(len(plan.bodies)),
            "value": Out(self._lanes * plan.value_bits),
            **({"tab": Out(table_read(INDEX_BITS + plan.table_bits, lookups))} if lookups else {}),
        })

    def elaborate(self, platform):
        m = Module()
        emission = _Emission(m, self, platform)
        for lane, index in enumerate(np.ndindex(*self.plan.shape)):
            value = emission.at(self.plan.value, index, 0, self.plan.latency)
            m.d.comb += self.value.word_select(lane, self.plan.value_bits).eq(
                _widened(value, signed(self.plan.value_bits)))
        return m


class _Emission:
    """Emits each value once for each stage that needs it."""

    def __init__(self, m: Module, ports: Datapath, platform):
        self.m, self.ports, self.plan, self.platform = m, ports, ports.plan, platform
        self.blocks = isinstance(platform, ECP5)
        self.multipliers = self.lookups = 0
        self.looking = tuple(number for number, body in enumerate(self.plan.bodies)
                             if any(operand.name == TABLE.name for operand in body.operands))
        self.names = {operation: f"{operation.node.kind}{number}"
                      for number, operation in enumerate(self.plan.operations)}
        self.selected, self.there = cache(self._selected), cache(self._there)
        self._made = cache(self._at)

    def _selected(self, bodies: tuple[int, ...], stage: int, group: int) -> Signal:
        """High if the element in `stage` is of one of the bodies: a register for each group."""
        before = (self.selected(bodies, stage - 1, 0) if stage else
                  Cat(self.ports.select[body] for body in bodies).any())
        return registered(self.m, self.platform, before,
                          f"select{stage}_{'_'.join(map(str, bodies))}_{group}")

    def _there(self, stage: int) -> Signal:
        """High if there is an element in `stage`."""
        register = Signal(name=f"there{stage}", reset_less=True)
        self.m.d.sync += register.eq(self.there(stage - 1) if stage else self.ports.valid)
        return register

    def register(self, value: Value, shape: Shape, name: str, stage: int) -> Signal:
        """A value of `stage`, one stage later."""
        register = Signal(shape, name=name, reset_less=True)
        with self.m.If(follows(self.platform, self.there(stage))):
            self.m.d.sync += register.eq(_widened(value, shape))
        return register

    def at(self, operation: Operation, index: tuple[int, ...], term: int, stage: int) -> Value:
        """The value for a destination element and term, as `stage` sees it."""
        node = operation.node
        own = tuple(i if k in node.axes else 0 for k, i in enumerate(index))
        if node.kind in ("imm", "mux") and not node.axes and self.blocks and index:
            # Each group has it in registers of its own.
            own = (*own[:-1], index[-1] // GROUP * GROUP)
        return self._made(operation, own, term if node.terms > 1 else 0, stage)

    def _at(self, operation: Operation, index: tuple[int, ...], term: int, stage: int) -> Value:
        node, shape = operation.node, _shape(operation.node.interval)
        if node.kind == "const":
            return Const(node.attr[0], shape)
        if node.kind == "lane":
            return Const(self.each(node.attr[0], index, term), shape)
        name = f"s{stage}_{self.names[operation]}_{'_'.join(map(str, (*index, term)))}"
        if stage > operation.available:
            before = self._made(operation, index, term, stage - 1)
            return self.register(before, shape, name, stage - 1)
        if node.kind == "mul":
            return self.product(operation, index, term, shape, name)
        if node.kind == "lookup":
            return self.lookup(operation, index, term)
        result = Signal(shape, name=name)
        self.m.d.comb += result.eq(_widened(self.compute(operation, index, term), shape))
        return result

    def compute(self, operation: Operation, index: tuple[int, ...], term: int) -> Value:
        node = operation.node
        match node.kind:
            case "read": return self.read(node, index, term)
            case "imm": return self.immediate(node.attr[0], index)
            case "fold": return self.fold(operation, index, term)
            case "across":
                axis = node.attr[0]
                return self.argument(operation, 0, (*index[:axis], term, *index[axis + 1:]), 0)
            case "every": return self.every(operation, index, term)
            case "mux": return self.mux(operation, index, term)
            case "pick": return self.pick(operation, index, term)
            case "element": return self.element(operation, index, term)
            case "pad" if term >= node.attr[0]: return Const(0)
            case "pad" | "take": return self.argument(operation, 0, index, term)
            case "drop":
                x, amount = (self.argument(operation, k, index, term) for k in range(2))
                assert isinstance(amount, Const)
                return x.shift_right(amount.value)
            case "stick" | "left" if node.args[1].kind == "const":
                x = self.argument(operation, 0, index, term)
                amount = node.args[1].attr[0]
                return _stick(x, amount) if node.kind == "stick" else x.shift_left(amount)
            case _:
                args = (self.argument(operation, k, index, term) for k in range(len(node.args)))
                return _logic(node, *args)

    def immediate(self, name: str, index: tuple[int, ...]) -> Value:
        port = getattr(self.ports, name)
        copy = registered(self.m, self.platform, port.as_unsigned(),
                          f"{name}_{'_'.join(map(str, index))}")
        return copy.as_signed() if port.shape().signed else copy

    def product(self, operation: Operation, index, term: int, shape: Shape, name: str) -> Value:
        """The registers of multipliers of one factor are shared, but those inside of blocks."""
        widths = [factor_bits(arg) for arg in operation.node.args]
        if self.blocks and widths[0] < 2 * FACTOR_BITS and widths[1] <= FACTOR_BITS:
            self.m.submodules[name] = part = Multiplier(
                *widths, operation.cycles + 1, self._soft(operation))
            factors = (self.argument(operation, k, index, term, before=1) for k in range(2))
            self.m.d.comb += [port.eq(_widened(factor, port.shape()))
                              for port, factor in zip((part.a, part.b), factors, strict=True)]
            return part.product[:shape.width].as_signed() if shape.signed \
                else part.product[:shape.width]
        value = self.compute(operation, index, term)
        for number in range(operation.cycles):
            value = self.register(value, shape, f"{name}_{number}", operation.stage + number)
        return value

    def lookup(self, operation: Operation, index, term: int) -> Value:
        """The data of a read port of its own, which has the registers of the stages between."""
        place, table = (self.argument(operation, k, index, term, before=1) for k in range(2))
        port, number = self.ports.tab, self.lookups
        self.lookups += 1
        self.m.d.comb += [
            port.addr[number].eq(Cat(_low(place, INDEX_BITS, False), table)),
            port.en[number].eq(self.selected(self.looking, operation.stage - 1, 0)),
        ]
        return port.data[number]

    def _soft(self, operation: Operation) -> bool:
        """True if the next multiplier is made of adders; they take turns as the shares demand."""
        total, share = self.plan.copies(operation), self.ports.dsp_multipliers
        before = self.multipliers
        self.multipliers += 1
        return share < total and before * share // total == (before + 1) * share // total

    def argument(self, operation: Operation, position: int, index, term: int,
                 before: int = 0) -> Value:
        """An argument as the operation's stage sees it, or one of those `before`."""
        arg = self.plan.placed[operation.node.args[position]]
        return self.at(arg, index, term, operation.stage - before)

    def read(self, node: DataflowNode, index: tuple[int, ...], term: int) -> Value:
        bus, indices = node.attr
        if indices and indices[0][0] == "each":
            return self.part(bus, self.each(indices[0], index, term), node)
        terms = np.unravel_index(term, self.plan.reduce_shape) if self.plan.reduce_shape else ()
        place = {"axis": index, "reduce": terms}
        at = [place[kind][k] if kind in place else k for kind, k in indices]
        shape = self.plan.buses[bus]
        return self.part(bus, int(np.ravel_multi_index(at, shape)) if shape else 0, node)

    def each(self, numbers: tuple, index: tuple[int, ...], term: int) -> int:
        """The number of a lane, and of a term."""
        _, axes, flat = numbers
        shape = [self.plan.shape[k] for k in axes]
        lane = int(np.ravel_multi_index([index[k] for k in axes], shape)) if axes else 0
        terms = len(flat) // int(np.prod(shape, dtype=int))
        return flat[lane * terms + (term if terms > 1 else 0)]

    def part(self, bus: str, element: int, node: DataflowNode) -> Value:
        width = self.ports.widths[bus]
        bits = getattr(self.ports, bus)[element * width:element * width + node.interval.width]
        return bits.as_signed() if node.interval.signed else bits

    def element(self, operation: Operation, index: tuple[int, ...], term: int) -> Value:
        """A tree of multiplexers, one bit of the number a level."""
        number, *choices = (self.argument(operation, k, index, term)
                            for k in range(len(operation.node.args)))
        for position in range((len(choices) - 1).bit_length()):
            choices += choices[-1:] * (len(choices) % 2)
            choices = [_chosen(number[position], b, a)
                       for a, b in zip(choices[::2], choices[1::2], strict=True)]
        return choices[0]

    def fold(self, operation: Operation, index: tuple[int, ...], term: int) -> Value:
        op, count = operation.node.attr
        a = self.argument(operation, 0, index, 2 * term)
        if 2 * term + 1 == count:
            return a
        b = self.argument(operation, 0, index, 2 * term + 1)
        return {"sum": a + b, "max": _chosen(below(a, b), b, a),
                "min": _chosen(below(a, b), a, b)}[op]

    def every(self, operation: Operation, index: tuple[int, ...], term: int) -> Value:
        first, count, fill = operation.node.attr
        if 2 * term + first == count:
            return Const(fill, _shape(operation.node.interval))
        return self.argument(operation, 0, index, 2 * term + first)

    def mux(self, operation: Operation, index: tuple[int, ...], term: int) -> Value:
        """Any argument will do for bodies that no case names, so two cases need one test."""
        args = [self.argument(operation, k, index, term) for k in range(len(operation.node.args))]
        group = index[-1] // GROUP if self.blocks and index else 0
        chosen = [self.selected(bodies, operation.stage, group) for bodies in operation.node.attr]
        if len(args) == 2:
            return _chosen(chosen[1], args[1], args[0])
        return _gathered(chosen, args, _shape(operation.node.interval))

    def pick(self, operation: Operation, index: tuple[int, ...], term: int) -> Value:
        count, rows = operation.node.attr
        args = [self.argument(operation, k, index, term) for k in range(len(operation.node.args))]
        group = index[-1] // GROUP if self.blocks and index else 0

        def holds(bodies, test, true) -> Value:
            chosen = self.selected(bodies, operation.stage, group)
            return chosen if test is None else chosen & (args[count + test] == int(true))

        tests = [Cat(holds(*case) for case in row).any() for row in rows]
        return _gathered(tests, args[:count], _shape(operation.node.interval))


def _gathered(tests: list, values: list, shape: Shape) -> Value:
    """The value whose test holds, of tests that exclude each other."""
    result: Value = Const(0)
    for test, value in zip(tests, values, strict=True):
        result = result | Mux(test, _widened(value, shape), 0)
    return result


def _widened(value: Value, shape: Shape) -> Value:
    """The value, sign-extended to `shape`.

    Written as an addition, which every tool removes: a concatenation of copies of the sign bit,
    which it would otherwise become in Verilog, is slow in simulation.
    """
    own = value.shape()
    if not own.signed or own.width >= shape.width:
        return value
    return (value + Const(0, signed(shape.width)))[:shape.width].as_signed()


def _chosen(test: Value, a: Value, b: Value) -> Value:
    """Multiplexer between values of different widths."""
    shape = Mux(test, a, b).shape()
    return Mux(test, _widened(a, shape), _widened(b, shape))


def _logic(node: DataflowNode, *args: Value) -> Value:
    """Combinational meaning of an operation; the assignment of the result truncates."""
    match node.kind, args:
        case "add", (a, b): return a + b
        case "sub", (a, b): return a - b
        case "mul", (a, b): return a * b
        case "min", (a, b): return _chosen(below(a, b), a, b)
        case "max", (a, b): return _chosen(below(a, b), b, a)     # shares the difference
        case "and", (a, b): return a & b
        case "or", (a, b): return a | b
        case "xor", (a, b): return a ^ b
        case "abs", (a,): return Mux(a < 0, -a, a)
        case "lt", (a, b): return below(a, b)
        case "le", (a, b): return ~below(b, a)
        case "gt", (a, b): return below(b, a)
        case "ge", (a, b): return ~below(a, b)
        case "eq", (a, b): return a == b
        case "ne", (a, b): return a != b
        case "select", (c, a, b): return _chosen(c, a, b)
        case "limit", (x, lo, hi, under, over, crossed):
            return _chosen(over | crossed, hi, _chosen(under, lo, x))
        case "wrap", (x,): return _low(x, *node.attr)
        case "lsl", (x,): return x.shift_left(node.attr[0])
        case "asr", (x,): return x.shift_right(node.attr[0])
        case "cat", (a, b): return a.shift_left(node.attr[0]) | b
        case "zeros", (x,): return _zeros(_low(x, node.attr[0], False))
        case "stick", (y, n): return _digit(lambda s: _stick(y, s), n, *node.attr)
        case "left", (x, n): return _digit(x.shift_left, n, *node.attr)
        case "round", (y,):
            sticky, guard, odd = _low(y, max(len(y), 3), False)[:3]
            return (y >> 2) + (guard & (sticky | odd))
        case "clip", (y,):
            bits = node.attr[0]
            y = _widened(y, signed(max(len(y), bits) + (not y.shape().signed)))
            sign, above = y[-1], y[bits - 1:-1]
            most = Cat((~sign).replicate(bits - 1), sign)
            return Mux(Mux(sign, above.all(), ~above.any()), y[:bits], most).as_signed()
        case _: raise AssertionError(node.kind)


def below(a: Value, b: Value) -> Value:
    """``a < b`` as the sign of the difference, which an FPGA's carry chain has at its end."""
    return (a - b)[-1]


def _zeros(x: Value) -> Value:
    """Zeros before the first one, from the counts of both halves."""
    if len(x) == 1:
        return ~x
    half = 1 << (len(x) - 1).bit_length() - 1           # the lower half, a power of two
    none = ~x[half:].any()
    return Mux(none, (len(x) - half) + _zeros(x[:half]), _zeros(x[half:]))


def _low(x: Value, bits: int, signed_: bool) -> Value:
    if len(x) < bits:
        x = _widened(x, signed(bits)) if x.shape().signed else Cat(x, Const(0, bits - len(x)))
    return x[:bits].as_signed() if signed_ else x[:bits]


def _stick(y: Value, amount: int) -> Value:
    """``y >> amount`` with the lowest bit set if it, or any bit that is lost, was."""
    if amount == 0:
        return y
    shape = y.shape()
    if amount + 1 >= len(y):
        top = y[-1].replicate(2) if shape.signed else Const(0, 1)
        rest = Cat(y.any(), top)
    else:
        rest = Cat(y[:amount + 1].any(), y[amount + 1:])
    return rest.as_signed() if shape.signed else rest


def _digit(shifted, n: Value, low: int, bits: int) -> Value:
    """Multiplexer over the values of the digit of `n`."""
    choices = [shifted(digit << low) for digit in range(1 << bits)]
    for position in range(bits):
        test = n[low + position]
        choices = [_chosen(test, b, a) for a, b in zip(choices[::2], choices[1::2], strict=True)]
    return choices[0]
