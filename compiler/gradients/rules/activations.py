"""Gradients of activations. At 0 that of `relu` is 0; at its bounds that of `clip` is 0; at 0 that
of `leakyrelu` is 1, as of the branch that it takes there.
"""

import numpy as np

from compiler.gradients.rules.adjoint import Adjoint, Gradient, Rule


def _relu(at: Adjoint) -> list[Gradient]:
    return [lambda: (at.x > 0).where(at.gradient, 0)]


def _clip(at: Adjoint) -> list[Gradient]:
    low, high = (float(np.float32(at.attrs[name])) for name in ("lo", "hi"))
    return [lambda: ((at.x > low) & (at.x < high)).where(at.gradient, 0)]


def _leakyrelu(at: Adjoint) -> list[Gradient]:
    return [lambda: (at.x < 0).where(at.gradient * at.attrs["alpha"], at.gradient)]


def _identity(at: Adjoint) -> list[Gradient]:
    return [lambda: at.gradient]


GRADIENTS: dict[str, Rule] = {"relu": _relu, "clip": _clip, "leakyrelu": _leakyrelu,
                              "identity": _identity}
