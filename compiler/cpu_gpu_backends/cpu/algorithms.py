"""Which products compute a convolution, as a plan: ``direct``, or ``winograd 4``.

The algorithm decides how sums of floats are rounded, within the bounds of docs/cpu.md, so it is a
plan of its own and not a part of any schedule.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from compiler.graph.graph import Graph, TensorType
from compiler.graph.rewrite import Builder
from compiler.graph.lowering.winograd import Convolution
from compiler.native import digest
from compiler.ops.families.convolutions import image_convolution
from compiler.ops.packed.winograd import SIZES
from compiler.ops.records.node import Attrs
from compiler.plans import PlanRefused, Task
from compiler.tune.chooser import PointChooser
from compiler.tune.space import Candidate, Point

KEY = "convolution"
MOST_SIZES = (1 << 25) // 128 - 1      # of the weights of an output: all sizes are exact


def algorithm_text(size: int) -> str:
    return f"winograd {size}" if size else "direct"


def size_from(text: str, convolution: Convolution) -> int:
    """The size that a plan says. Raises PlanRefused for another text, and for a size that computes
    something else.
    """
    sizes = convolution.times()
    known = {algorithm_text(size): size for size in sizes}
    if text.strip() not in known:
        raise PlanRefused(f"Plan of a convolution must be {' or '.join(sorted(known))}, not "
                          f"{text!r}")
    return known[text.strip()]


def algorithm_task(fingerprint: str, convolution: Convolution) -> Task:
    return Task(fingerprint, digest(["convolution of the CPU", str(convolution)]),
                f"products of convolution {convolution}",
                json.dumps({KEY: {"attrs": convolution.attrs.json(), "weight": convolution.weight,
                                  "result": convolution.result, "dtype": convolution.dtype,
                                  "sizes": convolution.sizes}}, sort_keys=True))


def convolution_from(text: str) -> Convolution | None:
    """The convolution of a task; None for a body of another kind. Raises PlanRefused for one that
    is none.
    """
    if not re.match(rf'\s*\{{\s*"{KEY}"', text):
        return None
    try:
        entry = json.loads(text)[KEY]
        return Convolution.of(Attrs.from_json(entry["attrs"]), entry["weight"], entry["result"],
                              entry.get("dtype", "float32"), entry.get("sizes", SIZES))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise PlanRefused(f"Task must be a convolution as JSON: {error}") from None


def graph_of(convolution: Convolution, seed: int) -> Graph:
    """A network of this convolution alone, with seeded random weights; of int8 with such that all
    sizes compute it.
    """
    outputs, inputs, *_ = convolution.weight
    batch, _, *size = convolution.result
    attrs = dict[str, Any](convolution.attrs)
    top, left, bottom, right = attrs["pads"]
    kernel = convolution.weight[2:]
    height, width = (extent + window - 1 - around for extent, window, around
                     in zip(size, kernel, (top + bottom, left + right), strict=True))
    net = Builder("convolution")
    net.add_input("x", TensorType((batch, inputs, height, width), convolution.dtype))
    rng = np.random.default_rng(seed)
    if convolution.dtype == "int8":
        most = max(1, min(127, MOST_SIZES // (inputs * kernel[0] * kernel[1])))
        arrays = (rng.integers(-most, most, convolution.weight, np.int8, endpoint=True),
                  np.zeros(outputs, np.int32), np.full(outputs, 1 << 15, np.int32),
                  np.full(outputs, 24, np.int32))
        constants = [net.add_constant(f"w{place}", array) for place, array in enumerate(arrays)]
        return net.finish([net.emit("qconv2d", "y", ["x", *constants], "y", **{
            **attrs, "pad_value": 0, "zp": 0, "lo": -128, "hi": 127})])
    weight = net.add_constant("w", rng.standard_normal(convolution.weight).astype(np.float32))
    return net.finish([net.add(image_convolution("y", ("x", weight), ("y",), attrs))])


@dataclass(frozen=True, slots=True)
class AlgorithmSpace:
    """The ways to compute a convolution."""

    task: Task
    convolution: Convolution

    def candidate(self, point: Point, random: Generator | None = None) -> Candidate:
        chooser, times = PointChooser(point, random), self.convolution.times()
        size = chooser.one_of("products", [*times], times.__getitem__)
        return Candidate(tuple(chooser.decisions), algorithm_text(size))
