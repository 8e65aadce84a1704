"""Operators of words as networks of bits, as synthesis unfolds them. Words are literals, low bits
first."""

from collections.abc import Sequence

from accel.estimates.logic.network import FALSE, TRUE, BitNetwork

Word = Sequence[int]


def sum_of(network: BitNetwork, a: Word, b: Word, carry: int) -> list[int]:
    """The sum of two words of equal length and a carry, that long, too."""
    result = []
    for x, y in zip(a, b, strict=True):
        unequal = network.difference(x, y)
        result.append(network.difference(unequal, carry))
        carry = network.choice(unequal, carry, x)
    return result


def less(network: BitNetwork, a: Word, b: Word, signed: bool) -> int:
    """1 where a is less than b."""
    found = FALSE
    for place, (x, y) in enumerate(zip(a, b, strict=True), 1):
        if signed and place == len(a):
            x, y = y, x
        found = network.choice(network.difference(x, y), y, found)
    return found


def compressed(network: BitNetwork, words: Sequence[Word]) -> list[Word]:
    """Two words with the sum of several of equal length, by rows of full adders, of which each
    makes two words of three."""
    left = list(words)
    while len(left) > 2:
        a, b, c, *others = left
        unequal = [network.difference(x, y) for x, y in zip(a, b, strict=True)]
        carries = [network.choice(which, z, x)
                   for which, x, z in zip(unequal, a, c, strict=True)]
        left = [*others, [network.difference(which, z) for which, z in zip(
            unequal, c, strict=True)], [FALSE, *carries[:-1]]]
    return left


def shifted(network: BitNetwork, symbol: str, value: Word, places: Word) -> list[int]:
    """A word moved by a number of places: a stage of multiplexers for each bit of that."""
    value = list(value)
    fill = value[-1] if symbol == "s>>" else FALSE
    for bit, condition in enumerate(places):
        step = min(1 << bit, len(value))
        ends = [fill] * step
        moved = ends + value[:-step] if symbol == "<<" else value[step:] + ends
        value = [network.choice(condition, then, other)
                 for then, other in zip(moved, value, strict=True)]
    return value


def selected(network: BitNetwork, value: Word, offset: Word, width: int, stride: int) -> list[int]:
    """`width` bits of a word from bit ``offset * stride`` on: a tree of multiplexers, the low bit
    of the offset at its leaves."""
    places = min(1 << len(offset), -(-len(value) // max(stride, 1)))
    padded = [*value, *[FALSE] * (places * stride + width)]
    parts = [padded[place * stride:place * stride + width] for place in range(places)]
    for condition in offset:
        if len(parts) % 2:
            parts.append([FALSE] * width)
        parts = [[network.choice(condition, then, other)
                  for then, other in zip(high, low, strict=True)]
                 for low, high in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0] if parts else [FALSE] * width


def matched(network: BitNetwork, value: Word, patterns: Sequence[str]) -> int:
    """1 where a word is like one of some texts of 0, 1 and -, high bits first."""
    found = []
    for pattern in patterns:
        wanted = [literal ^ (digit == "0") for literal, digit in zip(
            value, reversed(pattern), strict=True) if digit != "-"]
        found.append(network.tree(network.conjunction, [TRUE, *wanted]))
    return network.tree(network.disjunction, [FALSE, *found])
