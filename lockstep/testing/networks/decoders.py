"""The decoders of `lockstep.testing`: language models that make one token after another.

Each has two forms with the same parameters. The first takes all tokens of a sequence at once; what
comes later is masked. The second, of one *step*, takes the token at the input `position`, and the
keys and values of those before it from caches of a fixed size, of which it reads as many rows. Both
give, beside the logits, the keys and values of their tokens: rows for the caches.

Their layers are those of `compiler.frontend.decoders`, which makes them of files, too.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.frontend.decoders.layers import (DecoderSizes, DecoderStart, gpt_layers,
                                               llama_layers)
from lockstep.testing.networks.transformers import gelu

if TYPE_CHECKING:
    from lockstep.testing.networks.network import ZooNetwork

Array = np.ndarray

LONG, SHORT = 1024, 512             # tokens: more are too many to run, and how many are run then
MASK = np.float32(-10000)           # what is added to the score of a token that is not seen

GPT = DecoderSizes(layers=4, width=256, heads=4, shared=1, hidden=1024)
LLAMA = DecoderSizes(layers=4, width=256, heads=4, shared=2, hidden=704)


def gpt(net: "ZooNetwork", sizes: DecoderSizes = GPT, step: bool = False) -> None:
    """Radford et al.: Language models are unsupervised multitask learners (GPT-2), 2019; for tokens
    that are embedded.
    """
    begin = _begin(net, sizes, step, gpt)
    if step:
        rows = net.add("Gather", "positions.row", ["positions.bias", "position"],
                       (1, sizes.width), axis=0)
        net.alike[rows] = "positions.bias"
        x = net.sum("positions", net.source, rows)
    else:
        x = net.shifted("positions", net.source, net.size, sizes.width)
    gpt_layers(net, begin, x, gelu)


def llama(net: "ZooNetwork", sizes: DecoderSizes = LLAMA, step: bool = False) -> None:
    """Touvron et al.: Llama, 2023; with grouped queries, for tokens that are embedded.
    """
    begin = _begin(net, sizes, step, llama)
    angles = np.outer(np.arange(net.size), 10000.0 ** -np.linspace(0, 1, sizes.depth // 2, False))
    turns = []
    for name, function in (("cosines", np.cos), ("sines", np.sin)):
        whole = np.tile(function(angles), 2).astype(np.float32).reshape(net.size, 1, sizes.depth)
        turns.append(net.constant(f"rotary.{name}", whole))
        if step:
            turns[-1] = net.add("Gather", f"rotary.{name}.row", [turns[-1], "position"],
                                (1, 1, sizes.depth), axis=0)
            net.alike[turns[-1]] = f"rotary.{name}"
    llama_layers(net, begin, net.source, turns)


def states(net: "ZooNetwork") -> dict[str, str]:
    """The output that has the new row of each cache of a step, by the name of its input."""
    return dict(zip(net.inputs[1:], net.outputs, strict=True))


def _begin(net: "ZooNetwork", sizes: DecoderSizes, step: bool,
           build: Callable[["ZooNetwork", DecoderSizes], None]) -> DecoderStart:
    net.batched = False
    net.shapes[net.source] = (*sizes.around, 1 if step else net.size, sizes.width)
    if not step:
        if net.size > LONG:
            net.short = _finished(type(net)(net.name, SHORT), sizes, build)
        mask = np.where(np.tri(net.size, dtype=bool), np.float32(0), MASK)
        return DecoderStart(sizes, step, net.constant("mask", np.tile(mask, (sizes.shared, 1))))
    net.whole = _finished(type(net)(net.name.removesuffix("_step"), net.size), sizes, build)
    net.input("position", 1, dtype="int64")
    places = np.arange(net.size)
    shapes = {"keys": (net.size, 1, 1), "values": (1, 1, net.size)}
    for part, shape in shapes.items():
        net.constant(f"{part}.places", places.reshape(shape))
        net.types[net.add("Equal", f"{part}.at", [f"{part}.places", "position"], shape)] = "bool"
    seen = net.add("LessOrEqual", "seen", ["values.places", "position"], shapes["values"])
    net.types[seen] = "bool"
    net.constant("unseen", np.array(MASK))
    return DecoderStart(sizes, step, seen)


def _finished(net: "ZooNetwork", sizes: DecoderSizes,
              build: Callable[["ZooNetwork", DecoderSizes], None]) -> "ZooNetwork":
    build(net, sizes)
    return net.finish()


def _slice(attributes: Mapping[str, Any], x: Array, start: Array, end: Array, axis: Array) -> Array:
    return x[(*[slice(None)] * int(axis.item()), slice(int(start.item()), int(end.item())))]


MEANING: dict[str, Callable[..., Array]] = {
    "Slice": _slice,
    "Neg": lambda attributes, x: -x,
    "Pow": lambda attributes, x, power: x ** power,
    "Sqrt": lambda attributes, x: np.sqrt(x),
    "Reciprocal": lambda attributes, x: 1 / x,
    "Sigmoid": lambda attributes, x: 1 / (1 + np.exp(-x)),
}
