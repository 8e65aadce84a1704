"""Gradients of quantization in training, straight through.

Where x is rounded to a step of the range, rounding counts as nothing: the gradient of the result is
that of x. What is clipped has none. A step size gets, for each element, the number of steps less
x / scale, which is what rounding adds, and of what is clipped the number of steps there (S. K.
Esser et al.: Learned step size quantization, ICLR 2020).
"""

from compiler.frontend.building.values import Value
from compiler.gradients.rules.adjoint import Adjoint, Gradient, Rule, apply, summed_to


def _fake_quantize(at: Adjoint) -> list[Gradient]:
    x, scale = at.inputs
    axis, low, high = (at.attrs[name] for name in ("axis", "lo", "hi"))
    spread = tuple(extent if scale.rank and place == axis else 1
                   for place, extent in enumerate(x.shape))
    real = x / scale.reshape(*spread)
    steps = apply("rint", real)
    inside = (steps >= low) & (steps <= high)

    def of_scale() -> Value:
        clipped = apply("clip", steps, lo=float(low), hi=float(high))
        given = at.gradient * inside.where(steps - real, clipped)
        return summed_to(given, spread).reshape(*scale.shape)

    return [lambda: inside.where(at.gradient, 0), of_scale]


GRADIENTS: dict[str, Rule] = {"fake_quantize": _fake_quantize}
