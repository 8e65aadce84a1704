"""Random typed graphs: chains of a source, movers and a reader, several in one graph.

Each chain is drawn for a pair: a kind of reader, a mover, and the type of what it moves. Pairs that
were seldom drawn come first, so that all of them come.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from bench.values.draw import Drawer, Trial, Unfit, Value
from bench.values.rules import QUANTIZED, RULES, TYPES, Rule
from bench.values.rules.steps import dequantized, quantized
from bench.values.sources import TRIES, source

__all__ = ["MADE", "Pair", "Steering", "legal_pairs", "trials"]

Pair = tuple[str, str, str]
MADE = ("input", "QuantizeLinear")
"""What makes a value that is read without a mover."""

_MOVERS = {rule.op for rule in RULES.values() if rule.moves}
_KINDS = {(rule.op, rule.operand): rule.kind for name, rule in RULES.items() if ":" not in name}

HOPELESS = 40               # tries of a pair before others come first


def legal_pairs() -> dict[Pair, None]:
    """All kinds of reader x mover x type that ONNX allows, in a fixed order. Movers that read are
    of one kind.
    """
    movers = [*MADE, *dict.fromkeys(rule.op for rule in RULES.values() if rule.moves)]
    return {(reader.kind, mover, dtype): None
            for dtype in TYPES for mover in movers for reader in RULES.values()
            if reader.reads(dtype) and _makes(mover, dtype)}


def _makes(mover: str, dtype: str) -> bool:
    if mover in MADE:
        return mover == "input" or dtype in QUANTIZED
    return any(rule.reads(dtype) or rule.reads("float32") for rule in RULES.values()
               if rule.op == mover and rule.moves)


@dataclass(slots=True)
class Steering:
    """How often each pair was drawn, and how often it was tried."""

    legal: tuple[Pair, ...]
    drawn: Counter[Pair] = field(default_factory=Counter)
    tried: Counter[Pair] = field(default_factory=Counter)

    def next(self, rng: np.random.Generator) -> Pair:
        """One of the rarest pairs."""
        some = rng.choice(len(self.legal), min(24, len(self.legal)), replace=False)
        pair = min((self.legal[place] for place in some),
                   key=lambda pair: self.drawn[pair] + self.tried[pair] // HOPELESS)
        self.tried[pair] += 1
        return pair


def trials(seed: int, types: Sequence[str] = QUANTIZED) -> Iterator[Trial]:
    """Trial after trial, with quantized tensors of these types; the seed decides all of them."""
    legal = tuple(pair for pair in legal_pairs() if pair[2] in (*types, "float32"))
    steering, number = Steering(legal), 0
    while True:
        drawer = Drawer(np.random.default_rng([seed, number]), tuple(types))
        trial = _trial(drawer, number, steering)
        number += 1
        if trial is not None:
            yield trial


def _trial(d: Drawer, number: int, steering: Steering) -> Trial | None:
    outputs, pairs = [], []
    for _ in range(d.below(6, 1)):
        pair = steering.next(d.rng)
        found = _chain(d, pair)
        if found is not None:
            pairs.append(pair)
            outputs.append(_followed(d, found))
    if not outputs:
        return None
    pairs += [pair for pair in _pairs(d) if pair not in pairs]
    steering.drawn.update(pairs)
    made = {name for node in d.nodes for name in node.output}
    ends = [value for value in d.values if value.name in made and value.name not in d.read]
    inner = [value for value in d.values if value.name in made and value.name in d.read
             and d.chance(0.08)]
    return Trial(number, d.model(ends + inner), {name: value.array for name, value in
                                                 d.inputs.items()}, tuple(pairs))


def _pairs(d: Drawer) -> Iterator[Pair]:
    """The pairs that stand in the graph, those of a mover between dequantization and quantization
    among them.
    """
    makers = {name: node for node in d.nodes for name in node.output}
    types = {value.name: value.dtype for value in d.values}
    for node in d.nodes:
        for place, name in enumerate(node.input[:2]):
            kind = _KINDS.get((node.op_type, place))
            maker = makers.get(name)
            if kind is None or types.get(name) not in TYPES:
                continue
            moved = _mover(maker, makers) if maker is not None else "input"
            if moved:
                yield kind, moved, types[name]


def _mover(maker: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto]) -> str:
    if maker.op_type != "QuantizeLinear":
        return maker.op_type if maker.op_type in _MOVERS else ""
    inner = makers.get(maker.input[0])
    if inner is None or inner.op_type not in _MOVERS:
        return "QuantizeLinear"
    first = makers.get(inner.input[0])
    dequantized_there = first is not None and first.op_type == "DequantizeLinear"
    return inner.op_type if dequantized_there else "QuantizeLinear"


def _chain(d: Drawer, pair: Pair) -> Value | None:
    kind, mover, dtype = pair
    readers = [rule for rule in RULES.values() if rule.kind == kind and rule.reads(dtype)]
    movers = [rule for rule in RULES.values() if rule.op == mover and rule.moves]
    for _ in range(TRIES):
        mark, reader = d.mark(), d.choice(readers)
        try:
            x = source(d, dtype, reader, mover)
            for _ in range(d.choice((0, 0, 0, 1, 1, 2)) if movers else 0):
                x = _moved(d, x, d.choice([rule for rule in RULES.values()
                                                     if rule.moves]))
            moved = _moved(d, x, d.choice(movers)) if movers else x
            found = reader.draw(d, moved, reader.op)
            if d.chance(0.15):          # a second reader of the same value
                other = d.choice([rule for rule in RULES.values() if rule.reads(dtype)])
                other.draw(d, moved, other.op)
            return found
        except Unfit:
            d.back_to(mark)
    return None


def _moved(d: Drawer, x: Value, mover: Rule) -> Value:
    """The mover on the value as it stands, or between dequantization and quantization."""
    if x.scale is None or (mover.reads(x.dtype) and d.chance(0.6)):
        return mover.draw(d, x, mover.op)
    moved = mover.draw(d, dequantized(d, x), mover.op)
    return quantized(d, moved, like=x) if d.chance(0.6) else quantized(d, moved, x.dtype)


def _followed(d: Drawer, x: Value) -> Value:
    """What is made of a reader's result: activations, a quantization, other readers."""
    for _ in range(d.below(3)):
        fit = [rule for rule in RULES.values() if rule.reads(x.dtype)]
        if not fit:
            break
        rule, mark = d.choice(fit), d.mark()
        try:
            x = rule.draw(d, x, rule.op)
        except Unfit:
            d.back_to(mark)
    if x.dtype == "float32" and d.chance(0.65):
        x = quantized(d, x)
        return dequantized(d, x) if d.chance(0.4) else x
    return x
