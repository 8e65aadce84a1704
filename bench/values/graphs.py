"""Random typed graphs: values that are moved, each with several readers, several in one graph.

Each value is drawn for a pair: a kind of reader, a mover, and the type of what it moves. Pairs that
were seldom drawn come first, so that all of them come; other readers of the value follow, the
rarest first.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import TypeVar

import numpy as np
import onnx

from bench.values.draw import Drawer, Trial, Unfit, Value
from bench.values.rules import QUANTIZED, RULES, TYPES, Rule, readers
from bench.values.rules.registry import gives
from bench.values.rules.steps import dequantized, quantized
from bench.values.sources import TRIES, source

Pair = tuple[str, str, str]
Thing = TypeVar("Thing", bound=tuple[str, ...])
MADE = ("input", "QuantizeLinear")
"""What makes a value that is read without a mover."""

_MOVERS = tuple(dict.fromkeys(rule.op for rule in RULES.values() if rule.moves))
_MOVING = tuple(rule for rule in RULES.values() if rule.moves)
_KINDS = {(rule.op, rule.operand): rule.kind for name, rule in RULES.items() if ":" not in name}

HOPELESS = 100              # tries of a pair before others come first
MOST_READERS = 14           # of a moved value
FOLLOWERS = ("Relu", "Clip", "LeakyRelu", "PRelu", "Max:slope", "Mul:gate", "Add", "Softmax")
"""Rules that networks have behind layers."""

PRODUCTS = ("Conv", "Conv:pixels", "ConvTranspose", "Gemm", "MatMul", "MatMul:computed")
USUAL = ("Add", "Mul", "AveragePool", "GlobalAveragePool", "ReduceMean", "Softmax", "Add:masked",
         "LayerNormalization")
_LAYERS = ((*((product, follower) for product in PRODUCTS for follower in ("", *FOLLOWERS)),
            *((name, "") for name in USUAL)),
           tuple((name, "") for name, rule in RULES.items() if rule.reads("float32")
                 and gives(rule.op, "float32") and not rule.moves
                 and name not in (*PRODUCTS, *USUAL)))
"""A rule, and one for what follows it, if any: those that networks have, and others."""
BYTES = ("int8", "uint8")
MOST_TRIED = 3              # layers of a kind for one value
MOST_NODES = 60             # of a graph to which another value is added


@lru_cache(None)
def legal_pairs() -> dict[Pair, None]:
    """All kinds of reader x mover x type that types and ranks allow, in a fixed order. Movers that
    read are of one kind.
    """
    return {(reader.kind, mover, dtype): None for dtype in TYPES for mover in (*MADE, *_MOVERS)
            for reader in readers(dtype) if _meet(mover, dtype, reader)}


def _meet(mover: str, dtype: str, reader: Rule) -> bool:
    """Whether what the mover gives can have the type and a rank that the reader reads."""
    if mover in MADE:
        return mover == "input" or dtype in QUANTIZED
    return any((rule.reads(dtype) or rule.reads("float32")) and {*rule.gives} & {*reader.ranks}
               for rule in _moving(mover))


@lru_cache(None)
def _moving(op: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES.values() if rule.op == op and rule.moves)


@lru_cache(None)
def _reading(kind: str, dtype: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in readers(dtype) if rule.kind == kind)


@dataclass(slots=True)
class Seen:
    """How often each of some things was drawn, and how often it was tried."""

    drawn: Counter[tuple[str, ...]] = field(default_factory=Counter)
    tried: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def rarest(self, things: Sequence[Thing], rng: np.random.Generator) -> list[Thing]:
        """The rarest first, with some chance in it, so that equally rare ones come in any order."""
        seen = [self.drawn[thing] + self.tried[thing] / HOPELESS for thing in things]
        return [things[place] for place in np.argsort(seen + 3 * rng.random(len(things)))]


@dataclass(slots=True)
class Steering:
    """What was drawn: pairs, and layers, which are one rule or two between a dequantization and a
    quantization, by type.
    """

    legal: tuple[Pair, ...]
    pairs: Seen = field(default_factory=Seen)
    layers: Seen = field(default_factory=Seen)

    def next(self, rng: np.random.Generator) -> Pair:
        """One of the rarest pairs."""
        pair = self.pairs.rarest(self.legal, rng)[0]
        self.pairs.tried[pair] += 1
        return pair

    def others(self, pair: Pair, rng: np.random.Generator) -> list[Pair]:
        """Pairs of the same mover and type, the rarest first."""
        return self.pairs.rarest([other for other in self.legal if other[1:] == pair[1:]], rng)


def trials(seed: int, types: Sequence[str] = QUANTIZED) -> Iterator[Trial]:
    """Trial after trial, with quantized tensors of these types; the seed decides all of them."""
    legal = tuple(pair for pair in legal_pairs() if pair[2] in (*types, "float32"))
    steering = Steering(legal)
    made = (drawn(seed, number, steering, types) for number in count())
    return (trial for trial in made if trial is not None)


def drawn(seed: int, number: int, steering: Steering, types: Sequence[str] = QUANTIZED
          ) -> Trial | None:
    """A graph, of what was seldom drawn; None where nothing fits."""
    d = Drawer(np.random.default_rng([seed, number]), tuple(types))
    pairs: dict[Pair, None] = {}
    for _ in range(d.below(6, 1)):
        if len(d.nodes) > MOST_NODES:
            break
        pairs.update(_moved_and_read(d, steering))
    if not pairs:
        return None
    pairs.update(dict.fromkeys(_pairs(d)))
    steering.pairs.drawn.update(pairs.keys())
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


def _moved_and_read(d: Drawer, steering: Steering) -> dict[Pair, None]:
    """A moved value and its readers: the pairs that were drawn."""
    pair = steering.next(d.rng)
    moved = _first_reader(d, pair)
    if moved is None:
        return {}
    pairs, most = {pair: None}, d.choice((1, MOST_READERS, MOST_READERS, MOST_READERS))
    for other in steering.others(pair, d.rng):
        if len(pairs) >= most:
            break
        if _read(d, moved, d.choice(_reading(other[0], other[2]))) is not None:
            pairs[other] = None
    if moved.scale is not None:
        _layers(d, moved, steering.layers)
    return pairs


def _layers(d: Drawer, x: Value, seen: Seen) -> None:
    """The rarest layer that networks have, another one, and one that they have again: they read a
    quantized value, or what was made before, moved or not.
    """
    for layers in (*_LAYERS, _LAYERS[0]):
        for layer in seen.rarest([(*layer, x.dtype) for layer in layers], d.rng)[:MOST_TRIED]:
            seen.tried[layer] += 1
            if (made := _layer(d, x, *layer[:2])) is not None:
                seen.drawn[layer] += 1
                x = _perhaps_moved(d, made) if d.chance(0.5) else x
                break
    if x.dtype in BYTES and d.chance(0.5):
        _residual(d, x)


def _residual(d: Drawer, x: Value) -> None:
    """A product whose sums meet, or are less, what another branch has quantized."""
    mark = d.mark()
    try:
        product = RULES[d.choice(("Conv", "Conv:pixels") if x.rank == 4 else ("Gemm", "MatMul"))]
        sums = product.drawn(d, dequantized(d, x))
        kept = [one for one in d.values if one.scale is not None and one.dtype in BYTES
                and one.shape == sums.shape]
        branch = d.choice(kept) if kept and d.chance(0.6) else quantized(
            d, d.input(d.normal(*sums.shape)), d.choice(BYTES))
        pair = [sums, dequantized(d, branch)]
        met = d.emit(d.choice(("Add", "Add", "Sub")), *(pair if d.chance(0.5) else pair[::-1]))
        quantized(d, d.emit("Relu", met) if d.chance(0.4) else met, d.choice(BYTES))
    except Unfit:
        d.back_to(mark)


def _perhaps_moved(d: Drawer, x: Value) -> Value:
    mark = d.mark()
    try:
        return _moved(d, x, d.choice(_MOVING)) if d.chance(0.5) else x
    except Unfit:
        d.back_to(mark)
        return x


def _layer(d: Drawer, x: Value, name: str, follower: str) -> Value | None:
    mark = d.mark()
    try:
        made = RULES[name].drawn(d, dequantized(d, x))
        if follower:
            made = RULES[follower].drawn(d, made)
        return quantized(d, made, x.dtype if d.chance(0.8) else "")
    except Unfit:
        d.back_to(mark)
        return None


def _first_reader(d: Drawer, pair: Pair) -> Value | None:
    """A value that the pair's reader reads, which is drawn as well."""
    kind, mover, dtype = pair
    for _ in range(TRIES):
        mark, reader = d.mark(), d.choice(_reading(kind, dtype))
        try:
            moved = _made(d, mover, dtype, reader)
        except Unfit:
            d.back_to(mark)
            continue
        if _read(d, moved, reader) is not None:
            return moved
        d.back_to(mark)
    return None


def _made(d: Drawer, mover: str, dtype: str, reader: Rule) -> Value:
    """A value of the type that the mover gives, for the reader."""
    if mover in MADE:
        return source(d, dtype, reader.ranks, mover)
    rule = d.choice(_moving(mover))
    keeps = rule.gives == rule.ranks
    ranks = [rank for rank in reader.ranks if rank in rule.ranks] if keeps else rule.ranks
    x = source(d, dtype, ranks or rule.ranks)
    for _ in range(d.choice((0, 0, 0, 1, 1, 2))):
        x = _moved(d, x, d.choice(_MOVING))
    return _moved(d, x, rule)


def _read(d: Drawer, x: Value, reader: Rule) -> Value | None:
    """What the reader makes, and what is made of that; None where it cannot read the value."""
    mark = d.mark()
    try:
        return _followed(d, reader.drawn(d, x))
    except Unfit:
        d.back_to(mark)
        return None


def _moved(d: Drawer, x: Value, mover: Rule) -> Value:
    """The mover on the value as it stands, or between dequantization and quantization."""
    if x.scale is None or (mover.reads(x.dtype) and d.chance(0.6)):
        return mover.drawn(d, x)
    moved = mover.drawn(d, dequantized(d, x))
    return quantized(d, moved, like=x) if d.chance(0.6) else quantized(d, moved, x.dtype)


def _followed(d: Drawer, x: Value) -> Value:
    """What is made of a reader's result: activations, a quantization, other readers."""
    dequantizes = bool(d.nodes) and d.nodes[-1].op_type == "DequantizeLinear"
    for _ in range(d.choice((1, 1, 2) if dequantizes else (0, 0, 0, 0, 1, 2))):
        fit, mark = readers(x.dtype), d.mark()
        if not fit:
            break
        name = d.choice(FOLLOWERS)
        try:
            x = (RULES[name] if d.chance(0.5) else d.choice(fit)).drawn(d, x)
        except Unfit:
            d.back_to(mark)
    if x.dtype == "float32" and d.chance(0.65):
        x = quantized(d, x)
        return dequantized(d, x) if d.chance(0.2) else x
    return x
