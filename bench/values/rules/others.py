"""Recurrent layers, samplers and the like; and what is not drawn, with the reason."""

from typing import Any

import numpy as np

from bench.values.draw import Drawer, Unfit, Value
from bench.values.rules.registry import MATRICES, rule

_SEQUENCE = "sequences, optionals and strings exist only while a network is built"
_DATA = "its shape follows from the data, which the importer does not have"
_SOURCE = "it reads no tensor of the network: what it gives is a constant"
_CONTROL = "control flow is unrolled or refused while a network is built"
_RANDOM = "it draws random numbers, so no reference has its values"
_OLD = "the opset that is drawn has another operator in its place"

NOT_DRAWN: dict[str, str] = {
    **dict.fromkeys((
        "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement",
        "RegexFullMatch", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
        "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence", "StringConcat",
        "StringNormalizer", "StringSplit", "TfIdfVectorizer"), _SEQUENCE),
    **dict.fromkeys(("Compress", "NonMaxSuppression", "NonZero", "Unique"), _DATA),
    **dict.fromkeys(("BlackmanWindow", "Constant", "ConstantOfShape", "HammingWindow", "HannWindow",
                     "MelWeightMatrix", "Range"), _SOURCE),
    **dict.fromkeys(("If", "Loop", "Scan"), _CONTROL),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
                    _RANDOM),
    **dict.fromkeys(("Scatter", "Upsample"), _OLD),
    **dict.fromkeys(("BitCast", "Col2Im", "DeformConv", "Det", "RoiAlign"),
                    "the front end computes it of constants alone"),
    "SimplifiedLayerNormalization": "ONNX has no schema of it; it is an RMSNormalization",
    "MaxUnpool": "its indices are those of a MaxPool; elements that two of them name are undefined",
    "ImageDecoder": "it reads files of images",
}
"""Operators of the front end's table without a rule, and why."""


@rule("RNN", "GRU", "LSTM", types=("float32",), ranks=(3,))
def recurrent(d: Drawer, x: Value, op: str) -> Value:
    if x.shape[0] > 8:
        raise Unfit("short sequences alone")
    gates, size = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], d.below(4, 1)
    shrink = np.float32(1 / np.sqrt(x.shape[2] + size))
    weights = [d.normal(1, gates * size, extent) * shrink for extent in (x.shape[2], size)]
    bias = [d.constant(d.normal(1, 2 * gates * size) * shrink)] if d.chance(0.6) else []
    given: dict[str, Any] = {"linear_before_reset": d.below(2)} if op == "GRU" else {}
    return d.emit(op, x, *(d.constant(array) for array in weights), *bias, hidden_size=size,
                  **given)


@rule("GridSample", types=("float32",), ranks=(4,))
def grid_sample(d: Drawer, x: Value, op: str) -> Value:
    grid = d.rng.uniform(-1.1, 1.1, (x.shape[0], d.below(4, 1), d.below(4, 1), 2))
    return d.emit(op, x, d.constant(grid, "float32"), align_corners=d.below(2),
                  mode=d.choice(("linear", "nearest")), padding_mode=d.choice(("zeros", "border")))


@rule("EyeLike", ranks=(2,))
def eye_like(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x, k=d.below(3, -1))


@rule("DFT", types=("float32",), ranks=MATRICES)
def transform(d: Drawer, x: Value, op: str) -> Value:
    if x.shape[-1] > 2:
        raise Unfit("signals of real or complex numbers alone")
    return d.emit(op, x, None, d.constant(d.below(x.rank - 1), "int64"))


@rule("STFT", types=("float32",), ranks=(3,))
def short_transform(d: Drawer, x: Value, op: str) -> Value:
    if x.shape[2] != 1 or x.shape[1] < 4:
        raise Unfit("long signals alone")
    return d.emit(op, x, d.constant(2, "int64"), d.constant(d.normal(4)), d.constant(4, "int64"))
