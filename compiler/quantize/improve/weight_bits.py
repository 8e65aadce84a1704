"""Which layers have weights of fewer than 8 bits.

Weights of the first and the last layer decide most: they keep 8 bits unless they are named.
"""

from collections.abc import Iterable, Mapping

from compiler.quantize.networks.network import Layer, LayeredNetwork
from compiler.quantize.networks.recurrent import parts
from compiler.quantize.networks.weights import WEIGHTED
from compiler.quantize.plans.plan import Plan
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.ranges.scales import WEIGHT_BITS

ALL = "*"
"""Stands for all layers with weights but the first and the last."""

Given = int | str | Mapping[str, int] | Iterable[str]


def bits_by_name(given: Given) -> dict[str, int]:
    """The bits by the names of layers: from one number, a mapping, or texts ``BITS`` and
    ``LAYER=BITS``. A later one counts."""
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, int | str) or not isinstance(given, Iterable):
        pairs = [_pair(given)]
    else:
        pairs = [_pair(item) for item in given]
    chosen: dict[str, int] = {}
    for name, bits in pairs:
        if not isinstance(name, str) or isinstance(bits, bool) or bits not in WEIGHT_BITS or (
                not isinstance(bits, int)):
            where = "" if name == ALL else f" of {name}"
            raise QuantizeRefused(f"weight bits{where} must be "
                                  f"{', '.join(map(str, WEIGHT_BITS[:-1]))} or {WEIGHT_BITS[-1]}, "
                                  f"not {bits!r}")
        chosen[name] = bits
    return chosen


def _pair(item: object) -> tuple[str, object]:
    """A layer's name and its bits, as far as the text of the latter is a number."""
    if not isinstance(item, str):
        return ALL, item
    name, equals, bits = item.rpartition("=")
    return name if equals else ALL, int(bits) if bits.isdecimal() and len(bits) < 9 else bits


def chosen_bits(network: LayeredNetwork, kept: Mapping[str, str],
                wanted: Mapping[str, int]) -> dict[str, int]:
    """The bits of layers that have fewer than 8, by `Layer.inner`; those in `kept` are in float.
    Raises QuantizeRefused for a name that no layer with constant weights has.
    """
    weighted = [layer for layer in network.layers if is_weighted(layer, network)]
    middle = [layer for layer in weighted if layer.name not in kept][1:-1]
    chosen = {layer.inner: wanted.get(ALL, 8) for layer in middle}
    for name, bits in wanted.items():
        if name != ALL:
            layers = _named(network, weighted, name)
            chosen |= {layer.inner: bits for layer in layers}
    return {inner: bits for inner, bits in chosen.items() if bits < 8}


def _named(network: LayeredNetwork, weighted: list[Layer], name: str) -> list[Layer]:
    layers = [layer for layer in parts(network, name) if layer in weighted]
    if not layers:
        raise QuantizeRefused(f"{network.place}: --weight-bits must name a layer with constant "
                              f"weights, one of {', '.join(layer.name for layer in weighted)}, "
                              f"not {name!r}")
    return layers


def require_bits(network: LayeredNetwork, plan: Plan, wanted: Mapping[str, int]) -> None:
    """Raise QuantizeRefused for a layer that is named and stays in float."""
    for name in wanted:
        for layer in parts(network, name):
            if is_weighted(layer, network) and layer.value not in plan.quantized:
                raise QuantizeRefused(
                    f"{network.place}: --weight-bits must name layers in int8, but {layer.name} "
                    f"stays in float: {plan.reasons[layer.name]}")


def is_weighted(layer: Layer, network: LayeredNetwork) -> bool:
    """True if a layer multiplies by constant weights."""
    return layer.node.op in WEIGHTED and layer.node.inputs[1] in network.tensors
