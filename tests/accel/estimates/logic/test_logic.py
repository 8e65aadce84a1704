"""Networks of bits: they compute what they stand for, and take as few tables as there can be."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from amaranth.hdl import Array, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.estimates.logic.covering import cover, tables
from accel.estimates.logic.network import FALSE, TRUE, BitNetwork
from accel.estimates.logic.unfolding import Unfolded, lookup_tables
from accel.estimates.logic.words import compressed, less, matched, selected, shifted, sum_of
from accel.estimates.netlists import amounts_by_module, summed
from accel.sim.slice.netlist import netlist_of
from accel.sim.slice.slicing import live_bits

BITS = 5


def values(network: BitNetwork, inputs: dict[int, int], literals: list[int]) -> list[int]:
    """What literals are where inputs have these values."""
    known = {0: 0} | {literal >> 1: value for literal, value in inputs.items()}
    for node, operands in enumerate(network.operands):
        if node not in known:
            a, b, *other = (known[one >> 1] ^ one & 1 for one in operands)
            if other:
                known[node] = b if a else other[0]
            else:
                is_and = network.conjunction(*operands) == 2 * node
                known[node] = a & b if is_and else a ^ b
    return [known[one >> 1] ^ one & 1 for one in literals]


def number(bits: list[int]) -> int:
    return sum(bit << place for place, bit in enumerate(bits))


def signed_of(value: int) -> int:
    return value - (1 << BITS) * (value >> BITS - 1)


OPERATORS = {
    "sum": (lambda n, a, b: sum_of(n, a, b, TRUE), lambda a, b: a + b + 1),
    "difference": (lambda n, a, b: sum_of(n, a, [one ^ 1 for one in b], TRUE), lambda a, b: a - b),
    "less": (lambda n, a, b: [less(n, a, b, False)], lambda a, b: a < b),
    "signed less": (lambda n, a, b: [less(n, a, b, True)],
                    lambda a, b: signed_of(a) < signed_of(b)),
    "left": (lambda n, a, b: shifted(n, "<<", a, b[:3]), lambda a, b: a << (b & 7)),
    "right": (lambda n, a, b: shifted(n, "u>>", a, b[:3]), lambda a, b: a >> (b & 7)),
    "arithmetic": (lambda n, a, b: shifted(n, "s>>", a, b[:3]),
                   lambda a, b: signed_of(a) >> (b & 7)),
    "part": (lambda n, a, b: selected(n, a, b[:2], 2, 2), lambda a, b: a >> 2 * (b & 3) & 3),
    "match": (lambda n, a, b: [matched(n, a, ("01--1", "1---0"))],
              lambda a, b: (a & 0b11001) == 0b01001 or (a & 0b10001) == 0b10000),
    "three": (lambda n, a, b: sum_of(n, *compressed(n, [a, b, [TRUE, *a[:-1]]]), FALSE),
              lambda a, b: a + b + 2 * a + 1),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_unfolded_operators_compute_what_they_stand_for(name: str) -> None:
    make, meaning = OPERATORS[name]
    network = BitNetwork()
    a, b = ([network.leaf() for _ in range(BITS)] for _ in range(2))
    result = make(network, a, b)
    for x, y in product(range(1 << BITS), repeat=2):
        given = dict(zip([*a, *b], (value >> place & 1 for value in (x, y)
                                    for place in range(BITS))))
        wanted = int(meaning(x, y)) & (1 << len(result)) - 1
        assert number(values(network, given, result)) == wanted, (x, y)


def test_what_is_constant_or_there_already_is_no_node() -> None:
    network = BitNetwork()
    a, b = network.leaf(), network.leaf()
    before = len(network.operands)
    assert network.conjunction(a, TRUE) == a and network.conjunction(a, a ^ 1) == FALSE
    assert network.choice(a, TRUE, FALSE) == a and network.choice(a, b, b) == b
    assert network.difference(a, FALSE) == a and network.difference(a ^ 1, a) == TRUE
    assert len(network.operands) == before
    assert network.choice(a, b, b ^ 1) == network.difference(b, a) ^ 1
    assert network.conjunction(a, b) == network.conjunction(b, a)
    assert len(network.operands) == before + 2


def tree(network: BitNetwork, operator: str, count: int) -> int:
    return network.tree(getattr(network, operator), [network.leaf() for _ in range(count)])


@pytest.mark.parametrize("count, luts", [(1, 0), (2, 1), (4, 1), (5, 2), (7, 2), (8, 3), (16, 5)])
def test_tables_of_a_tree(count: int, luts: int) -> None:
    """Four inputs a table; what is as deep anyhow is as small as can be."""
    network = BitNetwork()
    root = tree(network, "difference", count)
    deep = tree(network, "difference", 64)      # else two levels would be one wide table
    assert tables(network, [root, deep]).total() - tables(network, [deep]).total() == luts


def test_depth_comes_before_size() -> None:
    """A table of two levels takes as many LUTs as needed for five inputs, twice as many for six."""
    network = BitNetwork()
    assert tables(network, [tree(network, "difference", 6)]).total() == 4


def test_a_choice_by_a_number_that_is_moved_has_three_levels() -> None:
    """Four elements of eight and what chooses them fit into a table; two of these and a stage of a
    shift into the next, and the other two stages into the last. Later passes keep that depth."""
    network = BitNetwork()
    places, moves = ([network.leaf() for _ in range(3)] for _ in range(2))
    elements = [[network.leaf() for _ in range(8)] for _ in range(8)]
    chosen = [network.tree(network.disjunction, [
        network.conjunction(matched(network, places, [f"{place:03b}"]), element[bit])
        for place, element in enumerate(elements)]) for bit in range(8)]
    roots = shifted(network, "s>>", chosen, moves)
    found, depth = cover(network, roots), Counter[int]()
    for node, cut in sorted(found.items()):
        depth[node] = 1 + max(depth[other] for other in cut)
    assert max(depth[root >> 1] for root in roots) == 3
    assert all(root >> 1 in found for root in roots)
    assert {other for cut in found.values() for other in cut} <= {
        *found, *(leaf >> 1 for leaf in (*places, *moves, *sum(elements, [])))}


def test_tables_are_their_owners() -> None:
    network = BitNetwork()
    leaves = [network.leaf() for _ in range(3)]
    roots = []
    for network.owner in ("first", "second"):
        roots += [network.conjunction(leaves[0], leaves[1 + (network.owner == "second")])]
    assert tables(network, roots) == Counter(first=1, second=1)


class Logic(wiring.Component):
    """Registers and operators as a component has them, each on outputs of its own."""

    def __init__(self, kind: str):
        self.kind = kind
        super().__init__({"a": In(signed(8)), "b": In(signed(8)), "c": In(1), "d": In(1),
                          "o": Out(signed(16))})

    def elaborate(self, platform: object) -> Module:
        m, a, b, c, d = Module(), self.a, self.b, self.c, self.d
        kept = Signal(8)
        match self.kind:
            case "chain": m.d.comb += self.o.eq((a + b)[:8])
            case "short": m.d.comb += self.o.eq((a[:3] + b[:3])[:3])
            case "constant": m.d.comb += self.o.eq(a[:4] < 16)
            case "one bit": m.d.comb += self.o.eq(a * c)
            case "power": m.d.comb += self.o.eq(a * 16)
            case "many constants":
                squares = Array(Const(k * k % 509, 9) for k in range(256))
                m.d.comb += self.o.eq(squares[a.as_unsigned()])
            case "few constants":       # three bits of six inputs
                m.d.comb += self.o.eq(Array(Const(k * k % 7, 3) for k in range(64))[a[:6]])
            case "product": m.d.comb += self.o.eq(a * b)
            case "quotient": m.d.comb += self.o.eq(a.as_unsigned() // b.as_unsigned())
            case "enabled":
                with m.If(c):
                    m.d.sync += kept.eq(a)
                m.d.comb += self.o.eq(kept)
            case "two enables":
                with m.If(c):
                    m.d.sync += kept.eq(a)
                with m.Elif(d):
                    m.d.sync += kept.eq(b)
                m.d.comb += self.o.eq(kept)
            case "cleared":
                m.d.sync += kept.eq(a)
                with m.If(c & d):
                    m.d.sync += kept.eq(0)
                m.d.comb += self.o.eq(kept)
            case "held":
                m.d.sync += kept.eq(Mux(c, kept, a))
                m.d.comb += self.o.eq(kept)
        return m


@pytest.mark.parametrize("kind, luts", [
    ("chain", 8 + 1), ("short", 1 + 1 + 4), ("constant", 0), ("one bit", 8), ("product", 0),
    ("power", 0), ("quotient", 8 * 17 + 1), ("enabled", 0), ("two enables", 8 + 1), ("cleared", 1),
    ("held", 0), ("many constants", 0), ("few constants", 4 + 4 + 4)])
def test_tables_of_a_netlist_by_hand(kind: str, luts: int) -> None:
    """A bit of a chain is a table, and its lowest one more; a bit of six inputs is four tables;
    enables and resets are pins."""
    netlist = netlist_of(Logic(kind), "c")
    live = live_bits(netlist, (net for value in netlist.outputs.values() for net in value))
    assert lookup_tables(netlist, live).total() == luts


def test_several_sums_are_one_chain_behind_full_adders() -> None:
    class Three(wiring.Component):
        def __init__(self):
            super().__init__({name: flow(8) for name, flow in (
                ("a", In), ("b", In), ("c", In), ("o", Out))})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.d.comb += self.o.eq(self.a + self.b + self.c)
            return m

    netlist = netlist_of(Three(), "c")
    live = live_bits(netlist, (net for value in netlist.outputs.values() for net in value))
    assert lookup_tables(netlist, live).total() == 8 + 1 + 8 + 7     # no carry leaves the last bit


def test_what_is_written_twice_is_there_once() -> None:
    class Twice(wiring.Component):
        def __init__(self):
            super().__init__({"a": In(8), "b": In(8), "c": In(1), "o": Out(9), "p": Out(9)})

        def elaborate(self, platform: object) -> Module:
            m, kept = Module(), [Signal(9, name=f"kept{number}") for number in range(2)]
            m.d.sync += [one.eq(self.a + self.b) for one in kept]
            m.d.comb += [self.o.eq(kept[0]), self.p.eq(kept[1])]
            return m

    found = summed(amounts_by_module(netlist_of(Twice(), "c")).values())
    assert (found.luts, found.registers) == (10 + 1, 9)


def test_random_functions_take_what_a_table_has_inputs_for(rng: np.random.Generator) -> None:
    """Whatever is made of four inputs is one table."""
    network = BitNetwork()
    literals = [network.leaf() for _ in range(4)]
    for _ in range(40):
        a, b, c = rng.choice(literals, 3)
        kind = rng.integers(3)
        literals.append([network.conjunction(int(a), int(b)), network.difference(int(a), int(b)),
                         network.choice(int(c), int(a), int(b))][kind] ^ int(rng.integers(2)))
    root = network.difference(literals[-1], literals[-2])
    assert tables(network, [root]).total() <= 1


class Chosen(wiring.Component):
    """Choices by numbers: of all numbers, of some, of several that share a case, and one within
    another, with conditions before and behind them."""

    def __init__(self) -> None:
        super().__init__({"which": In(3), "c": In(1), "d": In(1), "a": In(8), "o": Out(5)})

    def elaborate(self, platform: object) -> Module:
        m, a, o, inner = Module(), self.a, self.o, self.which
        m.d.comb += o[0].eq(Array(a)[inner])
        with m.Switch(inner):
            for number in (1, 3, 4):
                with m.Case(number):
                    m.d.comb += o[1].eq(a[number])
            with m.Default():
                m.d.comb += o[1].eq(a[7])
        with m.If(self.d):
            m.d.comb += o[2].eq(a[0])
        with m.Switch(inner):
            with m.Case(0, 1):
                m.d.comb += o[2].eq(a[1])
            with m.Case("1--"):
                m.d.comb += o[2].eq(a[2])
            with m.Case("-11"):
                m.d.comb += o[2].eq(a[3])
        with m.If(self.c):
            m.d.comb += o[2].eq(a[4])
        with m.If(self.c):
            with m.Switch(inner):
                for number in range(8):
                    with m.Case(number):
                        m.d.comb += o[3].eq(a[number] ^ 1)
        with m.If(inner == 2):
            m.d.comb += o[4].eq(a[5])
        with m.Elif(self.d):
            m.d.comb += o[4].eq(a[6])
        with m.Elif(inner == 5):
            m.d.comb += o[4].eq(a[7])
        return m

    def meaning(self, which: int, c: int, d: int, a: list[int]) -> list[int]:
        third = {0: a[1], 1: a[1], 3: a[3], 4: a[2], 5: a[2], 6: a[2], 7: a[2]}
        return [a[which], a[which] if which in (1, 3, 4) else a[7],
                a[4] if c else third.get(which, d & a[0]), c & (a[which] ^ 1),
                a[5] if which == 2 else a[6] if d else a[7] if which == 5 else 0]


def test_choices_by_numbers_compute_what_they_stand_for(rng: np.random.Generator) -> None:
    component = Chosen()
    netlist = netlist_of(component, "c")
    unfolded = Unfolded(netlist, live_bits(netlist, netlist.outputs["o"]))
    roots = unfolded.words(netlist.outputs["o"])
    literals = {name: unfolded.words(nets) for name, nets in netlist.inputs.items()}
    for which, c, d in product(range(8), range(2), range(2)):
        a = rng.integers(2, size=8).tolist()
        given = {"which": [which >> bit & 1 for bit in range(3)], "c": [c], "d": [d], "a": a}
        inputs = {literal: value for name, bits in given.items()
                  for literal, value in zip(literals[name], bits, strict=True)}
        assert values(unfolded.network, inputs, roots) == component.meaning(which, c, d, a)


def test_a_choice_of_all_numbers_has_no_other_case() -> None:
    """Pairs of two bits, eight numbers, each with its element, and seven that join these."""
    netlist = netlist_of(Chosen(), "c")
    first = {"o": netlist.outputs["o"][:1]}
    network = Unfolded(replace(netlist, outputs=first), live_bits(netlist, first["o"])).network
    leaves = sum(not operands for operands in network.operands)
    assert len(network.operands) - leaves == 4 + 8 + 8 + 7
