"""Random typed graphs: chains of a source, movers and a reader, several in one graph.

Each chain is drawn for a pair: a kind of reader, a mover, and the type of what it moves. Pairs that
were seldom drawn come first, so that all of them come.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from bench.values.draw import Array, Drawer, Trial, Unfit, Value
from bench.values.rules import QUANTIZED, RULES, TYPES, Rule
from bench.values.rules.steps import dequantized, quantized, real

__all__ = ["MADE", "Pair", "Steering", "legal_pairs", "trials"]

Pair = tuple[str, str, str]
MADE = ("input", "QuantizeLinear")
"""What makes a value that is read without a mover."""

LAYERS = ("Conv", "Gemm", "MatMul", "Add", "AveragePool", "ReduceMean", "Concat", "ConvTranspose")
"""Operators that are drawn more often, as networks have them."""

_MOVERS = {rule.op for rule in RULES.values() if rule.moves}
_KINDS = {(rule.op, rule.operand): rule.kind for name, rule in RULES.items() if ":" not in name}

TRIES = 12
HOPELESS = 40               # tries of a pair before others come first
_SHAPED = ((), (1,), (5,), (3, 4), (2, 7), (1, 6), (2, 3, 4), (1, 4, 6), (3, 1, 5), (1, 3, 4, 4),
           (2, 4, 5, 5), (1, 8, 3, 3), (1, 5, 6, 4), (3, 2, 3, 5), (2, 16, 3, 2), (1, 17, 2, 3),
           (1, 4, 1, 1), (1, 2, 3, 4, 3), (1, 1, 4, 4), (1, 32, 4, 3), (2, 1, 3, 1))


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
            source = _source(d, dtype, reader, mover)
            for _ in range(d.choice((0, 0, 0, 1, 1, 2)) if movers else 0):
                source = _moved(d, source, d.choice([rule for rule in RULES.values()
                                                     if rule.moves]))
            moved = _moved(d, source, d.choice(movers)) if movers else source
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


def _source(d: Drawer, dtype: str, reader: Rule, mover: str) -> Value:
    if mover == "input":
        return _input(d, dtype, _shape(d, reader))
    if mover != "QuantizeLinear":
        kept = [one for one in d.values if one.dtype == dtype]
        if kept and d.chance(0.35):
            return d.choice(kept)
        if d.chance(0.15):
            return _input(d, dtype, _shape(d, reader))
    x = _input(d, "float32", _shape(d, reader)) if d.chance(0.6) else _float(d, reader)
    if d.chance(0.5):
        x = _layer(d, x)
    return x if dtype == "float32" else quantized(d, x, dtype)


def _float(d: Drawer, reader: Rule) -> Value:
    """A float value of the graph, perhaps a dequantized one."""
    kept = [one for one in d.values if one.dtype == "float32" or one.scale is not None]
    return real(d, d.choice(kept)) if kept else _input(d, "float32", _shape(d, reader))


def _layer(d: Drawer, x: Value) -> Value:
    """An operator of floats, perhaps of what was quantized and dequantized."""
    if d.chance(0.7):
        x = dequantized(d, quantized(d, x))
    fit = [rule for rule in RULES.values() if rule.reads("float32")]
    layers = [rule for rule in fit if rule.op in LAYERS]
    for _ in range(TRIES):
        rule, mark = d.choice(layers if d.chance(0.5) else fit), d.mark()
        try:
            made = rule.draw(d, x, rule.op)
            if made.dtype == "float32":
                return made
            raise Unfit("it gives no floats")
        except Unfit:
            d.back_to(mark)
    return x


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


def _shape(d: Drawer, reader: Rule) -> tuple[int, ...]:
    ranks = reader.ranks if reader.ranks and d.chance(0.8) else range(6)
    rank = d.choice(ranks)
    shapes = [shape for shape in _SHAPED if len(shape) == rank] or _SHAPED
    if d.chance(0.25):
        return tuple(d.below(7, 1) for _ in range(rank))
    return d.choice(shapes)


def _input(d: Drawer, dtype: str, shape: tuple[int, ...]) -> Value:
    kept = [one for one in d.inputs.values() if one.dtype == dtype]
    if kept and d.chance(0.4):
        return d.choice(kept)
    if dtype != "float32":
        info = np.iinfo(dtype)
        array = d.rng.integers(info.min, info.max + 1, shape).astype(dtype)
        return d.input(array, d.number(0.01, 0.1) * 256 / (info.max - info.min + 1),
                       int(d.rng.integers(info.min, info.max)))
    return d.input(_numbers(d, shape))


def _numbers(d: Drawer, shape: tuple[int, ...]) -> Array:
    match d.below(8):
        case 0: array = d.rng.uniform(0.05, 0.95, shape)
        case 1: array = d.rng.uniform(1, 3, shape)
        case 2: array = d.rng.integers(-3, 4, shape) / 2
        case _: array = d.rng.standard_normal(shape) * 2
    return np.asarray(array, np.float32)
