"""Systolic arrays: elements side by side, with registers between neighbours."""

from collections.abc import Sequence

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.datapath.array import SystolicArray
from accel.datapath.dataflow import Interval
from accel.hw.compute.datapath import Datapath
from accel.hw.parts import ECP5, Multiplier, delayed


def _shape(interval: Interval) -> Shape:
    return Shape(interval.width, interval.signed)


def _elements(bus: Value, interval: Interval) -> list[Value]:
    """The numbers on a bus."""
    parts = [bus.word_select(place, interval.width)
             for place in range(len(bus) // interval.width)]
    return [part.as_signed() for part in parts] if interval.signed else parts


def _next(m: Module, value: Value, name: str) -> Signal:
    """The value one cycle later: what it is for the next element."""
    register = Signal(value.shape(), name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register


class WeightStationary(wiring.Component):
    """An array of block_in x block_out elements, each with a weight in use and the next one.

    Latency: `value` belongs to the step of ``array.latency`` cycles before. Throughput: one step a
    cycle. It never stalls; no register is reset.

    A step may take a column of weights (`shift`), which moves the columns that came before by one:
    after block_out of them the tile is there, the first to come in the last column. A step with
    `switch` is the first that uses the tile that was complete before it; it may `shift`, too.

    Parameters
    ----------
    dsp_multipliers : multiplier blocks that may be taken; other multipliers are made of adders.

    Members
    -------
    a : the activations of a step: batch rows of block_in elements.
    b : a column of weights: block_in elements.
    shift, switch : see above.
    value : of acc's type for each of batch x block_out results.
    """

    def __init__(self, array: SystolicArray, dsp_multipliers: int = 1 << 16):
        self.array, self._blocks = array, dsp_multipliers
        super().__init__({
            "a": In(array.batch * array.block_in * array.a.width),
            "b": In(array.block_in * array.b.width), "shift": In(1), "switch": In(1),
            "value": Out(array.batch * array.block_out * array.bits)})

    def elaborate(self, platform):
        m, array = Module(), self.array
        rows, weights = _elements(self.a, array.a), _elements(self.b, array.b)
        steps: Value = Cat(self.shift, self.switch)
        above: list[list[Value]] = [[]] * array.block_out
        for i in range(array.block_in):
            a = [delayed(m, rows[b * array.block_in + i], i, f"enter_{i}_{b}", reset_less=True)
                 for b in range(array.batch)]
            w = delayed(m, weights[i], i, f"enter_w_{i}", reset_less=True)
            moving = steps
            for o in range(array.block_out):
                kept = [_next(m, one, f"a_{i}_{o}_{b}") for b, one in enumerate(a)]
                weights_at = self._weights(m, (i, o), w, moving)
                factors = [(one, weights_at.used) if isinstance(platform, ECP5) else
                           (late, weights_at.weight) for one, late in zip(a, kept, strict=True)]
                above[o] = self._sums(m, platform, (i, o), factors, above[o])
                a, w = kept, _next(m, weights_at.following, f"passed_{i}_{o}")
                moving = _next(m, moving, f"steps_{i}_{o}")
            steps = _next(m, steps, f"enter_steps_{i}")
        for o, sums in enumerate(above):
            for b, total in enumerate(sums):
                late = delayed(m, total, array.block_out - 1 - o, f"leave_{o}_{b}",
                               reset_less=True)
                m.d.comb += self.value.word_select(b * array.block_out + o, array.bits).eq(late)
        return m

    def _weights(self, m: Module, place: tuple[int, int], w: Value, step: Value) -> "_Weights":
        """The weights of an element, to which `w` comes from the left."""
        shift, switch = step[0], step[1]
        held = _Weights(_shape(self.array.b), "_".join(map(str, place)))
        m.d.comb += held.used.eq(Mux(switch, held.following, held.weight))
        m.d.sync += held.weight.eq(held.used)
        with m.If(shift):
            m.d.sync += held.following.eq(w)
        return held

    def _sums(self, m: Module, platform, place: tuple[int, int],
              factors: Sequence[tuple[Value, Value]], above: Sequence[Value]) -> list[Value]:
        """The sums of an element: its products, of which `factors` are given, and those above."""
        array, sums = self.array, []
        for b, (a, weight) in enumerate(factors):
            name = f"{place[0]}_{place[1]}_{b}"
            number = (place[0] * array.block_out + place[1]) * array.batch + b
            product = self._product(m, platform, a, weight, number, f"product_{name}")
            total = Signal(_shape(array.sums[place[0]]), name=f"sum_{name}", reset_less=True)
            m.d.sync += total.eq(above[b] + product if above else product)
            sums.append(total)
        return sums

    def _product(self, m: Module, platform, a: Value, b: Value, number: int, name: str) -> Value:
        """A product of numbers, in a multiplier block of an FPGA of those that are to come to
        registers, which the block has."""
        array, cycles = self.array, self.array.multiply_cycles
        if not isinstance(platform, ECP5):
            return delayed(m, a * b, cycles, name, reset_less=True)
        wide, narrow = sorted((a, b), key=len, reverse=True)
        widths = [len(one) + (not one.shape().signed) for one in (wide, narrow)]
        count = array.batch * array.block_in * array.block_out
        blocks = min(self._blocks, count)
        soft = number * blocks // count == (number + 1) * blocks // count
        m.submodules[name] = part = Multiplier(*widths, cycles + 1, soft)
        m.d.comb += [part.a.eq(wide), part.b.eq(narrow)]
        return part.product


class _Weights:
    """The weight in use in an element, as it is and as it will be in the next cycle (`used`), and
    the `following` one."""

    def __init__(self, shape: Shape, name: str):
        self.weight, self.following = (Signal(shape, name=f"{kind}_{name}", reset_less=True)
                                       for kind in ("weight", "next"))
        self.used = Signal(shape, name=f"used_{name}")


class OutputStationary(wiring.Component):
    """An array of batch x block_out elements, each with a sum of its own.

    Latency: `value` belongs to the step of ``array.latency`` cycles before, and has what was summed
    up from the last step with `restart` to this one. Throughput: one step a cycle. It never stalls;
    no register is reset.

    Parameters
    ----------
    dsp_multipliers : multiplier blocks that may be taken; other multipliers are made of adders.

    Members
    -------
    a : the activations of a step: batch rows of block_in elements.
    b : the weights of a step: block_out rows of block_in elements.
    restart : the step begins a sum.
    value : of acc's type for each of batch x block_out results.
    """

    def __init__(self, array: SystolicArray, dsp_multipliers: int):
        self.array, self._multipliers = array, dsp_multipliers
        super().__init__({
            "a": In(array.batch * array.block_in * array.a.width),
            "b": In(array.block_out * array.block_in * array.b.width), "restart": In(1),
            "value": Out(array.batch * array.block_out * array.bits)})

    def elaborate(self, platform):
        m, array = Module(), self.array
        assert array.dot is not None
        a_bits, b_bits = (array.block_in * one.width for one in (array.a, array.b))
        columns = [delayed(m, self.b.word_select(o, b_bits), o, f"enter_b_{o}", reset_less=True)
                   for o in range(array.block_out)]
        late = delayed(m, self.restart, array.dot.latency, "restart", reset_less=True)
        for b in range(array.batch):
            a = delayed(m, self.a.word_select(b, a_bits), b, f"enter_a_{b}", reset_less=True)
            restart = late
            for o in range(array.block_out):
                total = self._element(m, (b, o), a, columns[o], restart)
                left = array.rows - 1 - b + array.block_out - 1 - o
                m.d.comb += self.value.word_select(b * array.block_out + o, array.bits).eq(
                    delayed(m, total, left, f"leave_{b}_{o}", reset_less=True))
                a, columns[o] = _next(m, a, f"a_{b}_{o}"), _next(m, columns[o], f"b_{b}_{o}")
                restart = _next(m, restart, f"restart_{b}_{o}")
            late = _next(m, late, f"enter_restart_{b}")
        return m

    def _element(self, m: Module, place: tuple[int, int], a: Value, b: Value,
                 restart: Value) -> Signal:
        """The sum of an element."""
        array, name = self.array, "_".join(map(str, place))
        number, count = place[0] * array.block_out + place[1], array.batch * array.block_out
        first, after = (at * self._multipliers // count for at in (number, number + 1))
        dot = Datapath(array.dot, after - first)
        m.submodules[f"dot_{name}"] = dot
        left, right = dot.plan.buses
        m.d.comb += [getattr(dot, left).eq(a), getattr(dot, right).eq(b), dot.valid.eq(1),
                     dot.select.eq(1)]
        total = Signal(signed(array.bits), name=f"sum_{name}", reset_less=True)
        m.d.sync += total.eq((Mux(restart, 0, total) + dot.value.as_signed())[:array.bits])
        return total


def systolic(array: SystolicArray, dsp_multipliers: int) -> WeightStationary | OutputStationary:
    """The hardware of an array."""
    kind = WeightStationary if array.weights_stay else OutputStationary
    return kind(array, dsp_multipliers)
