"""Parameters of networks: drawn while random samples go through, so that values keep their range.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lockstep.testing.networks import decoders, recurrent, transformers
from lockstep.testing.networks.network import Array, ZooLayer, ZooNetwork

COLUMNS = 1 << 21                   # elements of a convolution's operand that stay in a cache


@dataclass(frozen=True, slots=True)
class Filled:
    """Parameters by name, and of each value the least and greatest element over some images."""

    parameters: dict[str, Array]
    ranges: dict[str, tuple[float, float]]


def images(size: int, seed: int) -> Array:
    """Random images [2 to 16, 3, size, size] with the structure of photographs, as much at every
    scale, normalized as those of ImageNet: mean 0, standard deviation 1, at most 2.5.

    The smaller, the more, since each gives fewer values in the last layers.
    """
    rng = np.random.default_rng(seed)
    count = min(16, max(2, 2 * (224 // size) ** 2))
    total = np.zeros((count, 3, size, size), np.float32)
    cells = (1, 4, 16, 64)
    for cell in cells:
        few = rng.standard_normal((count, 3, -(-size // cell), -(-size // cell)), np.float32)
        total += few.repeat(cell, axis=2).repeat(cell, axis=3)[:, :, :size, :size]
    return np.clip(total / np.float32(len(cells) ** 0.5), -2.5, 2.5)


def samples(net: ZooNetwork, seed: int) -> Array:
    """Random inputs: `images`, or rows as layers of embeddings give them."""
    if net.source == "image":
        return images(net.size, seed)
    return np.random.default_rng(seed).standard_normal((8, *net.shapes[net.source]), np.float32)


def fill(net: ZooNetwork, seed: int = 0, done: Callable[[int], None] = lambda macs: None) -> Filled:
    """Draws all parameters while random images go through the network; `done` hears of progress
    in multiply-accumulates for one image.
    """
    if net.whole is not None:
        return _of_steps(net, fill(net.whole, seed, done))
    if net.short is not None:
        return _of_short(net, fill(net.short, seed, done), seed)
    rng = np.random.default_rng([seed, 1])      # other numbers than those of the images
    given = samples(net, seed)
    filled = Filled(dict(net.constants), {net.source: _range(given)})
    for number, sample in enumerate([given] if net.batched else given):
        _run(net, sample, filled, rng, (lambda macs: None) if number else done)
    return filled


def _run(net: ZooNetwork, sample: Array, filled: Filled, rng: np.random.Generator,
         done: Callable[[int], None]) -> None:
    """Runs the network on all images at once, or on a sequence; draws what is not drawn yet."""
    values = {net.source: sample, **net.constants}
    last = {value: layer for layer in net.layers for value in layer.inputs}
    for layer, macs in zip(net.layers, net.macs(), strict=True):
        inputs = [values[value] for value in layer.inputs]
        names = [f"{layer.name}.{role}" for role in (*layer.parameters, *layer.fixed)]
        if not filled.parameters.keys() >= {*names}:
            drawn = _draw(layer, rng, inputs[0])
            filled.parameters.update({f"{layer.name}.{role}": one for role, one in drawn.items()})
        made = MEANING[layer.op](layer.attributes, *inputs,
                                 *(filled.parameters[name] for name in names))
        low, high = _range(made)
        least, greatest = filled.ranges.get(layer.output, (low, high))
        filled.ranges[layer.output] = min(low, least), max(high, greatest)
        values[layer.output] = made
        for value in layer.inputs:
            if last[value] is layer:
                values.pop(value, None)
        done(macs)


def _of_steps(net: ZooNetwork, filled: Filled) -> Filled:
    """The parameters of a network of single steps, from those of the whole one."""
    ranges = {value: filled.ranges[value] for value in net.shapes if value in filled.ranges}
    for value, other in net.alike.items():
        ranges[value] = (_range(filled.parameters[other]) if other in filled.parameters
                         else filled.ranges[other])
    return Filled(filled.parameters | net.constants | _fixed(net), ranges)


def _of_short(net: ZooNetwork, filled: Filled, seed: int) -> Filled:
    """Parameters of a long network from the short one's; those for each token are drawn anew."""
    rng = np.random.default_rng([seed, 2])
    parameters = dict(filled.parameters)
    for layer in net.layers:
        if any(parameters[f"{layer.name}.{role}"].shape != shape
               for role, shape in layer.parameters.items()):
            parameters |= {f"{layer.name}.{role}": one for role, one
                           in _draw(layer, rng, np.zeros(0, np.float32)).items()}
    return Filled(parameters | net.constants | _fixed(net), filled.ranges)


def _fixed(net: ZooNetwork) -> dict[str, Array]:
    return {f"{layer.name}.{role}": array for layer in net.layers
            for role, array in layer.fixed.items()}


def _range(array: Array) -> tuple[float, float]:
    return float(array.min()), float(array.max())


def _draw(layer: ZooLayer, rng: np.random.Generator, x: Array) -> dict[str, Array]:
    """The layer's parameters by role, float32."""
    if layer.op == "BatchNormalization":
        return _statistics(rng, x, layer.linear)
    if layer.op == "Clip":
        return {"min": np.array(0, np.float32), "max": np.array(6, np.float32)}
    drawn = {role: rng.standard_normal(shape, np.float32)
             for role, shape in layer.parameters.items()}
    if "weight" in drawn:
        drawn["weight"] = _weight(layer, drawn["weight"])
    if "recurrent" in drawn:
        drawn["recurrent"] = _weight(layer, drawn["recurrent"])
    if "bias" in drawn:
        drawn["bias"] *= np.float32(0.1)
    return drawn | dict(layer.fixed)


def _weight(layer: ZooLayer, drawn: Array) -> Array:
    if layer.op == "LayerNormalization" or len(layer.parameters["weight"]) == 1:
        return 1 + np.float32(0.1) * drawn
    # Each result of a 2x2 transposed convolution with stride 2 has one product a channel.
    if layer.op == "LSTM":                          # [directions, gates, inputs]
        return drawn * np.float32(drawn.shape[-1] ** -0.5)
    turned, scale = layer.op in ("ConvTranspose", "MatMul"), layer.attributes.get("scale", 1)
    fan_in = drawn.shape[0] if turned else prod(drawn.shape[1:])
    return drawn * np.float32(scale * (2 / fan_in) ** 0.5)


def _statistics(rng: np.random.Generator, x: Array, linear: bool) -> dict[str, Array]:
    """A batch norm's parameters. Its statistics are those of x, off by some percent as if taken
    from other images; half of a variance is the layer's mean, so that a few values of one channel
    cannot make an outlier.

    What training does for a network, the weights and biases have to do here: with biases about 0.5
    most values pass the Relu behind, and with small weights at the end of a residual branch its
    input does. Else a small error, of quantization say, grows with every layer.
    """
    channels = x.shape[1]
    mean, variance = (f(x, axis=(0, 2, 3), dtype=np.float64) for f in (np.mean, np.var))
    variance = (variance + variance.mean()) / 2
    parameters = {
        "weight": (0.3 if linear else 1) * rng.uniform(0.5, 1.5, channels),
        "bias": rng.normal(0 if linear else 0.5, 0.2, channels),
        "running_mean": mean + 0.1 * np.sqrt(variance) * rng.standard_normal(channels),
        "running_var": variance * rng.uniform(0.8, 1.25, channels)}
    return {role: array.astype(np.float32) for role, array in parameters.items()}


def _views(x: Array, attributes: Mapping[str, Any], value: float) -> Array:
    """A view [N, C, Ho, Wo, kh, kw] of the windows over x padded with the value."""
    (top, left, bottom, right), strides = attributes["pads"], attributes["strides"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)
    kernel = tuple(attributes["kernel_shape"])
    views = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
    return views[:, :, ::strides[0], ::strides[1]]


def _conv(attributes: Mapping[str, Any], x: Array, weight: Array, bias: Array | None = None
          ) -> Array:
    """In float32 and in bands of rows: several times as fast as the compiler's reference, which
    the calibration of a U-Net would wait minutes for.
    """
    views = _views(x, attributes, 0)
    count, _, rows, columns = views.shape[:4]
    made = np.zeros((count, len(weight), rows, columns), np.float32)
    if attributes["group"] > 1:
        for i, j in np.ndindex(weight.shape[2:]):       # depthwise
            made += weight[:, 0, i, j, None, None] * views[..., i, j]
    else:
        flat = weight.reshape(len(weight), -1)
        step = max(1, COLUMNS // (count * columns * flat.shape[1]))
        for row in range(0, rows, step):
            band = views[:, :, row:row + step].transpose(1, 4, 5, 0, 2, 3)
            sums = flat @ band.reshape(flat.shape[1], -1)
            made[:, :, row:row + step] = sums.reshape(-1, *band.shape[3:]).swapaxes(0, 1)
    return made if bias is None else made + bias[:, None, None]


def _up(attributes: Mapping[str, Any], x: Array, weight: Array, bias: Array) -> Array:
    """Windows that do not overlap: kernel and stride are 2."""
    sums = np.einsum("ck,nchw->nkhw", weight.reshape(len(weight), -1), x, optimize=True)
    count, _, rows, columns = sums.shape
    parts = sums.reshape(count, -1, 2, 2, rows, columns).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(count, -1, 2 * rows, 2 * columns) + bias[:, None, None]


def _norm(attributes: Mapping[str, Any], x: Array, weight: Array, bias: Array, mean: Array,
          variance: Array) -> Array:
    gain = weight / np.sqrt(variance + np.float32(attributes["epsilon"]))
    return x * gain[:, None, None] + (bias - mean * gain)[:, None, None]


MEANING: dict[str, Callable[..., Array]] = {
    "Conv": _conv, "ConvTranspose": _up, "BatchNormalization": _norm,
    "Relu": lambda attributes, x: np.maximum(x, np.float32(0)),
    "Clip": lambda attributes, x, low, high: np.clip(x, low, high),
    "MaxPool": lambda attributes, x: _views(x, attributes, -np.inf).max(axis=(4, 5)),
    "GlobalAveragePool": lambda attributes, x: x.mean(axis=(2, 3), keepdims=True),
    "Concat": lambda attributes, *inputs: np.concatenate(inputs, axis=attributes["axis"]),
    "Add": lambda attributes, a, b: a + b,
    "Flatten": lambda attributes, x: x.reshape(len(x), -1),
    "Gemm": lambda attributes, x, weight, bias: x @ weight.T + bias,
    **transformers.MEANING, **recurrent.MEANING, **decoders.MEANING,
}
