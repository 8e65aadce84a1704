"""Fourier transforms, as products with constant matrices, and spectra."""

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.onnx.nodes.importer import element_type
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.matrix import product


@operator("DFT")
def dft(t, x, dft_length=None, axis=None, *, inverse=0, onesided=0):
    """The discrete Fourier transform. The last dimension holds real and, optionally, imaginary
    parts.
    """
    told = -2 if axis is None else t.integer(axis, "axis")
    place, = axes_of((told,), x.rank)
    length = None if dft_length is None else t.integer(dft_length, "length")
    return _transformed(t, x, place, length, bool(inverse), bool(onesided))


@operator("DFT", since=17)
def dft_17(t, x, dft_length=None, *, axis, inverse=0, onesided=0):
    return dft(t, x, dft_length, t.constant(np.array(axis)), inverse=inverse, onesided=onesided)


operator("DFT", since=20)(dft)


def _transformed(t, x: Value, axis: int, length: int | None, inverse: bool,
                 onesided: bool) -> Value:
    real = inverse and onesided
    bins = x.shape[axis]
    count = length or (2 * (bins - 1) if real else bins)
    used = count // 2 + 1 if real else count
    if x.shape[-1] not in (1, 2) or (real and x.shape[-1] == 1):
        raise NodeRefused(f"input must have 1 or 2 parts in its last dimension, not {x.shape[-1]}")
    x = _fitted(t, x, axis, used)
    perm = [*(place for place in range(x.rank) if place != axis), axis]
    moved = x.transpose(*perm)
    results = count if inverse or not onesided else count // 2 + 1
    t.check_size((used, results), "float64")
    turns = np.outer(np.arange(used), np.arange(results)) * (2 * np.pi / count)
    weights = np.full((used, 1), 1 / count if inverse else 1.0)
    if real:
        weights[1:(count + 1) // 2] *= 2
    cosines, sines = (t.constant((rule(turns) * weights).astype(x.dtype))
                      for rule in (np.cos, np.sin))
    parts = _parts(t, moved, cosines, sines, inverse, real)
    whole = parts[0] if len(parts) == 1 else t.emit("concat", *parts, axis=x.rank - 2)
    return whole.transpose(*np.argsort(perm).tolist())


def _fitted(t, x: Value, axis: int, count: int) -> Value:
    """Crops a signal, or pads it with zeros, to the given length."""
    if x.shape[axis] >= count:
        return x.cut(axis, 0, count)
    after = [count - x.shape[axis] if place == axis else 0 for place in range(x.rank)]
    return t.emit("pad", x, x.like(0), mode="constant", before=(0,) * x.rank, after=after)


def _parts(t, x: Value, cosines: Value, sines: Value, inverse: bool, real: bool) -> list[Value]:
    """Real and imaginary parts of the transform; the dimension of x before the last holds x's own.
    """
    axis = x.rank - 2
    halves = [x.cut(axis, part, part + 1) for part in range(x.shape[axis])]
    along = [product(t, half, cosines) for half in halves]
    across = [product(t, half, sines) for half in halves]
    if len(halves) == 1:
        return [along[0], across[0] if inverse else -across[0]]
    if inverse:
        return [along[0] - across[1]] + ([] if real else [along[1] + across[0]])
    return [along[0] + across[1], along[1] - across[0]]


@operator("STFT")
def stft(t, signal, frame_step, window=None, frame_length=None, *, onesided):
    step = t.integer(frame_step, "frame step")
    length = t.integer(frame_length, "frame length") if (
        frame_length is not None) else (window.shape[0] if window is not None else None)
    if length is None:
        raise NodeRefused("window or frame_length must be given")
    if signal.rank == 2:
        signal = signal.unsqueeze(2)
    count = (signal.shape[1] - length) // step + 1
    t.check_size((count, length), "int64")
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = t.emit("gather", signal, t.constant(places), axis=1)
    if window is not None:
        frames = frames * window.reshape(1, 1, length, 1)
    return _transformed(t, frames, 2, None, False, bool(onesided))


@operator("MelWeightMatrix")
def mel_weight_matrix(t, num_mel_bins, dft_length, sample_rate, lower_edge_hertz,
                      upper_edge_hertz, *, output_datatype=1):
    """Triangular filters with corners equally spaced on the mel scale, rounded to whole bins."""
    inputs = (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)

    def triangles(*numbers: np.ndarray) -> np.ndarray:
        count, length, rate, low, high = (number.reshape(()).item() for number in numbers)
        t.check_size((length // 2 + 1, count), "float64")
        ends = [2595 * np.log10(1 + edge / 700) for edge in (low, high)]
        mels = np.arange(count + 2) * (ends[1] - ends[0]) / (count + 2) + ends[0]
        corners = ((length + 1) * 700 * (10 ** (mels / 2595) - 1) // rate).astype(np.int64)
        weights = np.zeros((length // 2 + 1, count), element_type(output_datatype))
        for column in range(count):
            first, middle, last = corners[column:column + 3]
            rise = np.arange(first, middle + 1)
            weights[rise, column] = (rise - first) / (middle - first) if middle > first else 1
            fall = np.arange(middle, last)
            weights[fall, column] = (last - fall) / max(last - middle, 1)
        return weights

    return t.computed(triangles, *inputs)
