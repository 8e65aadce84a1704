"""Weights of few bits by error feedback: each weight that is rounded changes those behind it.

Layer by layer, in order, the integers of a weight W become those with the least squared error of
the layer's sums over the samples, where the inputs x are those that the quantized network has by
then and the sums those of the float network. With H = sum of x x^T over samples and places and
R = sum of (what the float network sums - W x) x^T, W + R H^-1 is the best real weight, which also
makes up for what layers before have lost (Li et al. 2025, GPTAQ). Its columns are rounded one
after another, those of the greatest H[j, j] first; the error of each, over the j-th diagonal
element of the Cholesky factor U of H^-1 = U^T U, times row j of U, is taken from the columns behind
it (Frantar et al. 2022, GPTQ). Then single integers are changed as long as that makes the squared
error less. Means are taken out of x and the sums first where biases may change: the bias makes up
for these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.ops.records.windows import image_views
from compiler.quantize.improve.bias_correction import with_shift
from compiler.quantize.improve.noise import Scales, Tick, part
from compiler.quantize.improve.weight_bits import is_weighted
from compiler.quantize.networks.network import Layer, LayeredNetwork, RoundedWeight
from compiler.quantize.networks.weights import (MATRICES, canonical, restored, vector)
from compiler.quantize.plans.plan import Plan
from compiler.quantize.plans.rounding import nearest
from compiler.quantize.ranges.calibration import Samples, program
from compiler.quantize.ranges.groups import SUMS
from compiler.quantize.ranges.refusal import QuantizeRefused

Array = np.ndarray
NEAREST, FEEDBACK = ROUNDINGS = ("nearest", "feedback")
TOGETHER = 128              # columns: what others take from them is one product
DAMPING = 0.01              # of the mean of H's diagonal, added to it
SWEEPS, TURNS = 10, 3       # over all columns, at most; how often scales are fitted anew


def is_feedback(given: str, bits: Mapping[str, int], sparse: bool, activation_bits: int,
                accumulator_bits: int) -> bool:
    """True if weights are to be rounded by feedback. Raises QuantizeRefused for a word that is
    none of `ROUNDINGS`, and for options that feedback cannot have.
    """
    if given not in ROUNDINGS:
        raise QuantizeRefused(f"weight rounding must be {' or '.join(ROUNDINGS)}, not {given!r}")
    if given == NEAREST:
        return False
    if min(bits.values(), default=8) == 8:
        raise QuantizeRefused("weight rounding by feedback must come with weight bits of 4 or 2")
    if sparse:
        raise QuantizeRefused("weight rounding by feedback must come without sparse weights, whose "
                              "zeros it would not keep: --sparsity none")
    if (activation_bits, accumulator_bits) != (8, 32):
        raise QuantizeRefused("weight rounding by feedback must come with activations of 8 bits "
                              f"and sums of 32, not {activation_bits} and {accumulator_bits}")
    return True


@dataclass(slots=True)
class _Sums:
    """Sums over samples and places: of inputs x [G, P, K], of what is missing from the layer's sums
    [G, P, O], and of their products."""

    count: int = 0
    inputs: Array = field(default_factory=lambda: np.zeros(()))
    missing: Array = field(default_factory=lambda: np.zeros(()))
    squares: Array = field(default_factory=lambda: np.zeros(()))
    products: Array = field(default_factory=lambda: np.zeros(()))

    def add(self, inputs: Array, missing: Array) -> None:
        self.count += inputs.shape[1]
        self.inputs = self.inputs + inputs.sum(axis=1, dtype=np.float64)
        self.missing = self.missing + missing.sum(axis=1, dtype=np.float64)
        self.squares = self.squares + inputs.swapaxes(1, 2) @ inputs
        self.products = self.products + missing.swapaxes(1, 2) @ inputs

    def centered(self) -> tuple[Array, Array]:
        """H and R without the means."""
        return (self.squares - self.inputs[:, :, None] * self.inputs[:, None] / self.count,
                self.products - self.missing[:, :, None] * self.inputs[:, None] / self.count)


def feed_errors_back(network: LayeredNetwork, graph: Graph, plan: Plan, scales: Scales,
                     samples: Samples, biases: bool, tick: Tick = lambda count: None) -> None:
    """Chooses `network.rounded` for layers with weights of fewer than 8 bits that are quantized,
    and their biases where these may change. Weights that several layers share are left alone, and
    those of transposed convolutions.
    """
    chosen = {layer.inner: layer for layer in network.layers if _is_taken(layer, network, plan)}
    if not chosen:
        return
    real_run = program(graph, [*chosen])
    real = [real_run(batch) for batch in samples.batches()]
    values = [dict(batch) for batch in samples.batches()]
    last = {value: place for place, layer in enumerate(network.layers) for value in layer.read}
    for place, layer in enumerate(network.layers):
        if layer.inner in chosen:
            network.layers[place] = layer = _rounded(network, layer, scales, values, real, biases)
            for batch in real:
                del batch[layer.inner]
        run = part(network, graph, plan, scales, [layer], layer.value)
        for batch in values:
            batch[layer.value] = run(batch)
            for value in layer.read:
                if last.get(value) == place:
                    batch.pop(value, None)
        tick(1)


def _is_taken(layer: Layer, network: LayeredNetwork, plan: Plan) -> bool:
    if layer.inner not in network.weight_bits or layer.value not in plan.quantized:
        return False
    readers = [one for one in network.layers if layer.node.inputs[1] in one.read]
    return (is_weighted(layer, network) and len(readers) == 1
            and (layer.node.op in MATRICES or layer.node.op == "conv2d"))


def _rounded(network: LayeredNetwork, layer: Layer, scales: Scales,
             values: list[dict[str, Array]], real: list[dict[str, Array]], biases: bool) -> Layer:
    """The layer, with its weight rounded, and its bias if that may change."""
    node, sums = layer.node, _Sums()
    weight, bias = network.tensors[node.inputs[1]], vector(node, network.tensors)
    view = canonical(node, weight)
    flat = view.reshape(*view.shape[:2], -1).astype(np.float64)
    data = scales[node.inputs[0]]
    for batch, wanted in zip(values, real, strict=True):
        inputs = _columns(node, data.rounded(batch[node.inputs[0]]), weight)
        results = _rows(node, wanted[layer.inner], view.shape[0]) - bias.reshape(len(view), 1, -1)
        sums.add(inputs, results - inputs @ flat.swapaxes(1, 2))
    squares, products = sums.centered() if biases else (sums.squares, sums.products)
    before = nearest(network, node, network.weight_bits[layer.inner], data.scale)
    scale = before.scale.reshape(view.shape[:2]).astype(np.float64)
    factors = np.ones_like(flat) if before.factors is None else before.factors[None]
    found = [fitted(*of_group, network.weight_bits[layer.inner]) for of_group in zip(
        flat, factors, scale, squares, products, strict=True)]
    steps, scale = (np.stack(parts) for parts in zip(*found, strict=True))
    if not fits(steps):
        return layer
    network.rounded = {**network.rounded, layer.inner: RoundedWeight(
        restored(node, steps.reshape(view.shape).astype(before.steps.dtype), weight.shape),
        scale.reshape(-1).astype(np.float32), before.factors)}
    if not biases:
        return layer
    change = (flat - steps * scale[..., None]) @ sums.inputs[..., None]
    shift = (sums.missing + change[..., 0]) / sums.count
    return with_shift(network, layer, shift.reshape(-1).astype(np.float32), real[0][
        layer.inner].ndim)


def fits(steps: Array) -> bool:
    """True if sums of the products are within what scales were chosen for, and a quarter."""
    return bool(128 * np.abs(steps).sum(axis=-1).max() <= 1.25 * SUMS)


def _columns(node: Node, data: Array, weight: Array) -> Array:
    """The numbers that each sum reads, [G, places, inputs * taps], in the order of `canonical`."""
    groups, _, *extents = canonical(node, weight).shape
    if node.op in MATRICES:
        rows = data.reshape(1, -1, extents[0])
    else:
        views = image_views(data, weight.shape[2:], node.attrs["strides"], node.attrs["pads"], 0,
                            node.attrs.get("dilations", (1, 1)))
        rows = views.transpose(1, 4, 5, 0, 2, 3).reshape(
            groups, extents[0] * extents[1], -1).swapaxes(1, 2)
    return rows.astype(np.float64)


def _rows(node: Node, results: Array, groups: int) -> Array:
    """The layer's sums, [G, places, outputs / G]."""
    if node.op in MATRICES:
        return results.reshape(1, -1, results.shape[-1])
    channels = results.shape[1] // groups
    return results.swapaxes(0, 1).reshape(groups, channels, -1).swapaxes(1, 2)


def fitted(weight: Array, factors: Array, unit: Array, squares: Array, products: Array, bits: int
           ) -> tuple[Array, Array]:
    """Integers [O, K] for a weight [O, K], numbers of so many bits times the factors [O, K], and
    the scale [O] of each channel, which is near `unit` [O]; of H [K, K] and R [O, K].
    """
    damping = DAMPING * np.trace(squares) / len(squares)
    squares = squares + (damping or 1) * np.eye(len(squares))
    ideal = weight + np.linalg.solve(squares, products.T).T
    order = np.argsort(-np.diagonal(squares), kind="stable")
    least, chosen, best = np.full(len(unit), np.inf), np.zeros_like(ideal), unit
    for _ in range(TURNS):
        scale = factors * unit[:, None]
        steps = _in_turn(ideal, scale, squares, order, bits)
        steps = _improved(steps, ideal, scale, squares, bits) * factors
        for scale in (unit, _scale_of(steps, ideal, squares, unit)):
            rest = ideal - steps * scale[:, None]
            error = ((rest @ squares) * rest).sum(axis=1)
            better = error < least
            least, best = np.where(better, error, least), np.where(better, scale, best)
            chosen[better] = steps[better]
        unit = scale
    return chosen, best


def _scale_of(steps: Array, ideal: Array, squares: Array, unit: Array) -> Array:
    """The scale [O] with which the integers are nearest; as it is where they are 0."""
    seen = steps @ squares
    length = (seen * steps).sum(axis=1)
    fit = (seen * ideal).sum(axis=1) / np.where(length > 0, length, 1)
    return np.where(fit > 0, fit, unit)


def _in_turn(ideal: Array, scale: Array, squares: Array, order: Array, bits: int) -> Array:
    """Each column rounded in this order, its error taken from those behind it: at once from those
    of its block, from the others when the block is done.
    """
    factor = np.linalg.cholesky(np.linalg.inv(squares[np.ix_(order, order)])).T
    steps, left, scale = np.empty_like(ideal), ideal[:, order], scale[:, order]
    for begin in range(0, len(squares), TOGETHER):
        end = begin + TOGETHER
        own, errors = left[:, begin:end].copy(), np.zeros_like(left[:, begin:end])
        for place in range(own.shape[1]):
            row = factor[begin + place, begin:end]
            steps[:, begin + place] = _nearest(own[:, place] / scale[:, begin + place], bits)
            rest = own[:, place] - steps[:, begin + place] * scale[:, begin + place]
            errors[:, place] = rest / row[place]
            own[:, place:] -= errors[:, place, None] * row[place:]
        left[:, end:] -= errors @ factor[begin:end, end:]
    return steps[:, np.argsort(order)]


def _improved(steps: Array, ideal: Array, scale: Array, squares: Array, bits: int) -> Array:
    """Columns set to what is best beside the others, until none changes."""
    steps = steps.copy()
    slope = (ideal - steps * scale) @ squares
    for _ in range(SWEEPS):
        before = steps.copy()
        for begin in range(0, len(squares), TOGETHER):
            block = slice(begin, begin + TOGETHER)
            moved = _block_improved(steps[:, block], slope[:, block].copy(), scale[:, block],
                                    squares[block, block], bits)
            slope -= moved @ squares[block]
        if np.array_equal(steps, before):
            break
    return steps


def _block_improved(steps: Array, slope: Array, scale: Array, squares: Array, bits: int) -> Array:
    """Changes the columns of a block in place; returns by how much their weights changed."""
    moved = np.zeros_like(steps)
    for place, own in enumerate(np.diagonal(squares)):
        better = _nearest(steps[:, place] + slope[:, place] / own / scale[:, place], bits)
        moved[:, place] = (better - steps[:, place]) * scale[:, place]
        steps[:, place] = better
        slope -= moved[:, place, None] * squares[place]
    return moved


def _nearest(real: Array, bits: int) -> Array:
    return np.rint(real).clip(-(1 << bits - 1), (1 << bits - 1) - 1)
