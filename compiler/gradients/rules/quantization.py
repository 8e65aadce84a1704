"""Gradients of quantization in training, straight through.

Inside the range rounding counts as nothing: the gradient of the result is that of x. Beyond it x
has none. A step size gets, for each element, the number of steps less x / scale, which is what
rounding adds, and beyond the range the number of steps there (S. K. Esser et al.: Learned step
size quantization, ICLR 2020). A bound itself lies inside.
"""

from compiler.frontend.building.values import Value
from compiler.gradients.rules.adjoint import Adjoint, Gradient, Rule, apply, summed_to


def _fake_quantize(at: Adjoint) -> list[Gradient]:
    x, scale = at.inputs
    axis, low, high = (at.attrs[name] for name in ("axis", "lo", "hi"))
    spread = tuple(extent if scale.rank and place == axis else 1
                   for place, extent in enumerate(x.shape))
    real = x / scale.reshape(*spread)
    inside = apply("and", real >= low, real <= high)

    def of_scale() -> Value:
        bounded = apply("clip", real, lo=float(low), hi=float(high))
        steps = apply("rint", bounded)
        given = at.gradient * inside.where(steps - real, steps)
        return summed_to(given, spread).reshape(*scale.shape)

    return [lambda: inside.where(at.gradient, 0), of_scale]


GRADIENTS: dict[str, Rule] = {"fake_quantize": _fake_quantize}
