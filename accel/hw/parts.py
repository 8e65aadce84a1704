"""Memories and multipliers: in a generic form, and as primitives of an ECP5.

A component asks the `platform` that it is elaborated for. For `ECP5` the primitives are
instantiated with their own registers, which synthesis never infers: a block RAM is 5 ns faster
with its output register, and a multiplier whose registers are its own has no wires around them.
Everything else gets the generic form. Both forms agree in every cycle.
"""

from amaranth.hdl import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from accel.datapath.placement import FACTOR_BITS

GROUP = 4
"""Lanes that share the registers which control them, on an FPGA: wires of many ends are slow, and
hard to route."""

_BLOCK_ROWS = {32: 512, 16: 1024, 8: 2048, 4: 4096, 2: 8192, 1: 16384}
"""Rows of an ECP5 block RAM by the bits of a row (of 9 bits for each byte, 8 are used)."""


class ECP5:
    """The platform: an argument of `amaranth.back.rtlil.convert`."""

    shallow_blocks = True
    """Memories of few rows are block RAMs, too: there are enough of them."""


def registered(m: Module, platform, value: Value, name: str) -> Signal:
    """The value one cycle later, without a reset, in registers of its own: of several that hold the
    same, synthesis keeps one, but leaves those of an ECP5 alone that are instantiated."""
    register = Signal(len(value), name=name, reset_less=True)
    if not isinstance(platform, ECP5):
        m.d.sync += register.eq(value)
        return register
    for number, bit in enumerate(value):
        m.submodules[f"{name}_{number}"] = Instance(
            "TRELLIS_FF", p_GSR="DISABLED", p_CEMUX="1", p_CLKMUX="CLK", p_LSRMUX="LSR",
            p_SRMODE="LSR_OVER_CE", p_REGSET="RESET", i_CLK=ClockSignal(), i_CE=Const(1),
            i_LSR=Const(0), i_DI=bit, o_Q=register[number])
    return register


def spread(m: Module, platform, value: Value, name: str, lanes: int) -> list[Signal]:
    """For each lane the value one cycle later; on an FPGA, each `GROUP` of lanes has registers of
    its own for it."""
    size = GROUP if isinstance(platform, ECP5) else lanes
    copies = [registered(m, platform, value, f"{name}{group}")
              for group in range(-(-lanes // size))]
    return [copies[lane // size] for lane in range(lanes)]


def follows(platform, needed: Value) -> Value:
    """The enable of a register of data that may hold anything while it is not `needed`.

    It is `needed`, which simulates faster; on an FPGA 1, which spares a wire to every bit."""
    return Const(1) if isinstance(platform, ECP5) else needed


RAM_CYCLES = 2
"""Cycles from an address to its row: the memory's own register, then an output register."""


class Ram(wiring.Component):
    """A memory with one write port and one read port.

    An address in cycle t gives its row in t + `RAM_CYCLES`, every cycle a new one. A row that is
    written in cycle t is seen by addresses in t + 1 or later; reading it in t gives undefined data.
    Without `r_en` the data are undefined. Without `r_move` in t + 1 what is shown stays, and the
    row waits; it comes one cycle after `r_move`, unless the address has changed or the row was
    written in between.

    Parameters
    ----------
    width, rows : bits of a row; number of rows.
    granularity : bits that are written together, whole bytes; `w_en` has a bit for each such part.
        Without it, rows are written as a whole.
    shallow : of few rows, for which a block RAM is more than they need.
    """

    def __init__(self, width: int, rows: int, granularity: int | None = None,
                 shallow: bool = False):
        assert granularity is None or granularity % 8 == 0 == width % granularity
        self.width, self.rows = width, rows
        self.granularity, self.shallow = granularity, shallow
        super().__init__({
            "w_addr": In(range(rows)), "w_data": In(width),
            "w_en": In(width // granularity if granularity else 1),
            "r_addr": In(range(rows)), "r_en": In(1), "r_move": In(1, init=1),
            "r_data": Out(width),
        })

    def elaborate(self, platform):
        m = Module()
        ecp5 = isinstance(platform, ECP5)
        distributed = ecp5 and self.shallow and not platform.shallow_blocks
        if ecp5 and self.rows <= _BLOCK_ROWS[1] and not distributed:
            self._blocks(m)
            return m
        m.submodules.storage = storage = memory.Memory(
            shape=self.width, depth=self.rows, init=[],
            attrs={"ram_style": "distributed"} if distributed else {})
        write = storage.write_port(granularity=self.granularity)
        output = Signal(self.width, reset_less=True)
        m.d.comb += [write.addr.eq(self.w_addr), write.data.eq(self.w_data),
                     write.en.eq(self.w_en), self.r_data.eq(output)]
        if distributed:             # its register is that of the address
            read = storage.read_port(domain="comb")
            with m.If(self.r_en):
                m.d.sync += read.addr.eq(self.r_addr)
        else:
            read = storage.read_port()
            m.d.comb += [read.addr.eq(self.r_addr), read.en.eq(self.r_en)]
        with m.If(self.r_move):
            m.d.sync += output.eq(read.data)
        return m

    def _blocks(self, m: Module):
        """Block RAMs side by side, as narrow as their depth must be, each with all rows."""
        bits = max(bits for bits, rows in _BLOCK_ROWS.items() if rows >= self.rows)
        for low in range(0, self.width, bits):
            part = slice(low, min(low + bits, self.width))
            enables = Cat(self.w_en[at // self.granularity if self.granularity else 0]
                          for at in range(low, part.stop, 8))
            m.submodules[f"block{low // bits}"] = self._block(
                m, bits, enables, self.w_data[part], self.r_data[part])

    def _block(self, m: Module, bits: int, enables: Value, data: Value, output: Value):
        """One block RAM: port A writes, port B reads. Bytes have nine bits; a row of several bytes
        has an enable for each, in the lowest bits of the address."""
        count = max(bits // 8, 1)
        unused = {32: 5, 16: 4, 8: 3, 4: 2, 2: 1, 1: 0}[bits]       # address bits
        whole, read = _bits(data, bits), Signal(36)
        m.d.comb += output.eq(Cat(read.word_select(byte, 9)[:min(bits, 8)]
                                  for byte in range(count)))
        given = Cat(Cat(whole.word_select(byte, min(bits, 8)), Const(0, 1))
                    for byte in range(count))
        width = {32: 36, 16: 18, 8: 9}.get(bits, bits)
        several = count > 1
        low = _bits(enables, unused) if several else Const(0, unused)
        fixed = {f"i_{name}": Const(0) for name in ("RSTA", "RSTB", "WEB")}
        fixed |= {f"i_{name}": Const(1) for name in ("CEA", "OCEA")}
        return Instance(
            "DP16KD", p_DATA_WIDTH_A=width, p_DATA_WIDTH_B=width, p_REGMODE_A="OUTREG",
            p_REGMODE_B="OUTREG", p_GSR="DISABLED", i_CLKA=ClockSignal(), i_CLKB=ClockSignal(),
            i_CEB=self.r_en, i_OCEB=self.r_move, i_WEA=Const(1) if several else enables[0], **fixed,
            **_pins("i_CSA", Const(0, 3)), **_pins("i_CSB", Const(0, 3)),
            **_pins("i_ADA", Cat(low, _bits(self.w_addr, 14 - unused))),
            **_pins("i_ADB", Cat(Const(0, unused), _bits(self.r_addr, 14 - unused))),
            **_pins("i_DIA", _bits(given, 36)[:18]), **_pins("i_DIB", _bits(given, 36)[18:]),
            **(_pins("o_DOA", read[:18]) | _pins("o_DOB", read[18:]) if bits == 32 else
               _pins("o_DOB", read[:18])))


class Multiplier(wiring.Component):
    """A product of signed numbers, `latency` cycles after its operands; every cycle a new one.

    Parameters
    ----------
    a_bits, b_bits : widths of the operands; at most 35, and `FACTOR_BITS`.
    latency : 2 or 3; where one multiplier block does not do, 3.
    soft : take adders instead of a multiplier block.
    """

    def __init__(self, a_bits: int, b_bits: int, latency: int, soft: bool = False):
        assert b_bits <= FACTOR_BITS and a_bits <= 2 * FACTOR_BITS - 1
        assert latency == 3 or latency == 2 and a_bits <= FACTOR_BITS and not soft
        self.latency, self.soft = latency, soft
        super().__init__({"a": In(signed(a_bits)), "b": In(signed(b_bits)),
                          "product": Out(signed(a_bits + b_bits))})

    def elaborate(self, platform):
        m = Module()
        low_bits = FACTOR_BITS - 1
        if not isinstance(platform, ECP5):
            product = self._registered(m)
        elif self.soft:
            product = self._adders(m)
        elif len(self.a) <= FACTOR_BITS:
            product = self._block(m, self.a, self.latency)
        else:
            parts = [Cat(self.a[:low_bits], Const(0, 1)).as_signed(), self.a[low_bits:].as_signed()]
            low, high = (self._block(m, part, self.latency - 1) for part in parts)
            product = Signal.like(self.product, name="total", reset_less=True)
            m.d.sync += product.eq(low + (high << low_bits))
        m.d.comb += self.product.eq(product)
        return m

    def _operands(self, m: Module) -> tuple[Signal, Signal]:
        a, b = Signal.like(self.a, reset_less=True), Signal.like(self.b, reset_less=True)
        m.d.sync += [a.eq(self.a), b.eq(self.b)]
        return a, b

    def _registered(self, m: Module) -> Value:
        a, b = self._operands(m)
        product = a * b
        for number in range(self.latency - 1):
            later = Signal.like(self.product, name=f"product{number}", reset_less=True)
            m.d.sync += later.eq(product)
            product = later
        return product

    def _adders(self, m: Module) -> Value:
        """Rows of `a`, one for each bit of `b`, of which the last counts negative.

        A bit of a carry chain ands both of its rows with their bits of `b` on the way.
        """
        a, b = self._operands(m)
        pairs = [self._pair(m, a, b[at:at + 2], at + 2 >= len(b)) for at in range(0, len(b), 2)]
        halves = [Signal(signed(len(a) + 4), name=f"half{number}", reset_less=True)
                  for number in range(-(-len(pairs) // 2))]
        m.d.sync += [half.eq(sum((pair << 2 * place for place, pair in
                                  enumerate(pairs[2 * number:2 * number + 2])), Const(0)))
                     for number, half in enumerate(halves)]
        product = Signal.like(self.product, name="total", reset_less=True)
        m.d.sync += product.eq(sum((half << 4 * number for number, half in enumerate(halves)),
                                   Const(0)))
        return product

    def _pair(self, m: Module, a: Value, bits: Value, ends: bool) -> Value:
        """``a * bits[0] + 2 * a * bits[1]``, or with `ends` the upper bit of `bits` negative.

        The carry is that of the row at A and B, which is why a negative one must be there.
        """
        width = len(a) + 2
        rows = [(Cat(Const(0, place), (a + Const(0, signed(width)))[:width - place]), bit)
                for place, bit in enumerate(bits)]
        (x, x_bit), (y, y_bit) = [*reversed(rows), (Const(0, width), Const(0))][:2]
        init = 0x7888 if not ends else 0x8777       # (A & B) ^ (C & D), or ~(A & B) ^ (C & D)
        carry, total = Const(ends, 1), Signal(signed(width + width % 2))
        for at in range(0, width, 2):
            last, here = carry, {}
            carry = Signal(name=f"carry{at}")
            for half, place in enumerate((at, min(at + 1, width - 1))):
                here |= {f"i_A{half}": x[place], f"i_B{half}": x_bit, f"i_C{half}": y[place],
                         f"i_D{half}": y_bit, f"o_S{half}": total[at + half]}
            m.submodules += Instance(
                "CCU2C", p_INIT0=Const(init, 16), p_INIT1=Const(init, 16), p_INJECT1_0="NO",
                p_INJECT1_1="NO", i_CIN=last, o_COUT=carry, **here)
        return total

    def _block(self, m: Module, a: Value, latency: int) -> Value:
        """One block with as many of its registers as cycles; operands are in its high bits."""
        product = Signal(2 * FACTOR_BITS)
        registers = {"INPUTA": True, "INPUTB": True, "PIPELINE": latency == 3, "OUTPUT": True}
        m.submodules += Instance(
            "MULT18X18D", **{f"p_REG_{name}_CLK": "CLK0" if there else "NONE"
                             for name, there in registers.items()},
            p_GSR="DISABLED", i_CLK0=ClockSignal(), i_CE0=Const(1), i_RST0=Const(0),
            i_SIGNEDA=Const(1), i_SIGNEDB=Const(1), i_SOURCEA=Const(0), i_SOURCEB=Const(0),
            **_pins("i_A", Cat(Const(0, FACTOR_BITS - len(a)), a)),
            **_pins("i_B", Cat(Const(0, FACTOR_BITS - len(self.b)), self.b)),
            **_pins("i_C", Const(0, FACTOR_BITS)), **_pins("o_P", product))
        return product[2 * FACTOR_BITS - len(a) - len(self.b):].as_signed()


def _bits(value: Value, width: int) -> Value:
    """The value, zero-extended."""
    return Cat(value, Const(0, width - len(value)))


def _pins(name: str, value: Value) -> dict[str, Value]:
    """One port for each bit: A0, A1, ..."""
    return {f"{name}{number}": bit for number, bit in enumerate(value)}


def field_of(word: Value, field: data.Field) -> Value:
    """A field of a word that is no part of its layout."""
    bits = word[field.offset:field.offset + field.width]
    return bits.as_signed() if Shape.cast(field.shape).signed else bits


def trail(m: Module, value, cycles: int, name: str, reset_less: bool = False) -> list:
    """The value, or view, and what it was in each of so many cycles before; registers start at
    zero."""
    values = [value]
    for number in range(1, cycles + 1):
        later = Signal(value.shape(), name=f"{name}_{number}", reset_less=reset_less)
        m.d.sync += later.eq(values[-1])
        values.append(later)
    return values


def delayed(m: Module, value, cycles: int, name: str, reset_less: bool = False):
    """The value, or view, as it was so many cycles ago (`trail`)."""
    return trail(m, value, cycles, name, reset_less)[-1]


def divided(value: Value, divisor: int) -> tuple[Value, Value]:
    """Quotient and remainder of a number by a constant, combinational: bits of the number where
    that is a power of two, else by a product with its reciprocal (Granlund and Montgomery,
    "Division by Invariant Integers using Multiplication")."""
    low = (divisor & -divisor).bit_length() - 1
    odd, top = divisor >> low, value[low:]
    if odd == 1:
        return top, value[:low]
    bits = len(top) + (odd - 1).bit_length()
    quotient = (top * Const(-(-(1 << bits) // odd)))[bits:]
    rest = (top - quotient * Const(odd))[:(odd - 1).bit_length()]
    return quotient, Cat(value[:low], rest)
