"""Random nodes of every operator that has a gradient: attributes, and inputs away from kinks."""

from tests.support.gradients import elements, gathers, movement, products, windows
from tests.support.gradients.draws import Draw, Drawn, binary, some, unary, within

__all__ = ["CASES", "Draw", "Drawn"]

POSITIVE, FRACTION = within(0.2, 3), within(-0.9, 0.9)

CASES: dict[str, Draw] = {
    **dict.fromkeys(("neg", "abs", "erf", "sin", "cos", "sinh", "cosh", "tanh", "atan", "asinh",
                     "exp", "floor", "ceil", "rint", "sign", "relu", "identity"), unary()),
    **dict.fromkeys(("asin", "acos", "atanh", "tan"), unary(FRACTION)),
    "log": unary(POSITIVE), "sqrt": unary(POSITIVE), "acosh": unary(within(1.1, 3)),
    "cast": unary(to="float32"), "clip": elements.clip, "leakyrelu": elements.leaky,
    "fake_quantize": elements.fake_quantize,
    **dict.fromkeys(("add", "sub", "mul", "minimum", "maximum"), binary(some, some)),
    "div": binary(some, POSITIVE), "mod": binary(some, POSITIVE), "fmod": binary(some, POSITIVE),
    "pow": binary(POSITIVE, some), "where": elements.where,
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "mean"),
                    elements.reduced),
    "cumsum": elements.running, "cumprod": elements.running,
    "reshape": movement.reshape, "expand": movement.expand, "upsample": movement.upsample,
    "slice": movement.cut, "transpose": movement.transpose, "relayout": movement.transpose,
    "reverse": movement.reverse, "pad": movement.pad,
    "concat": movement.concat, "put_place": movement.put_place,
    "gather": gathers.gather, "gather_elements": gathers.gather_elements,
    "gather_nd": gathers.gather_nd, "resample": gathers.resample,
    "scatter_reduced": gathers.scatter,
    "dense": products.dense, "matmul": products.matmul, "einsum": products.einsum,
    "conv2d": windows.conv2d, "convtranspose2d": windows.transposed, "conv": windows.conv,
    "maxpool": windows.maxpool, "avgpool": windows.average, "globalavgpool": windows.image,
    "pool_max": windows.pool_of_any, "pool_sum": windows.pool_of_any,
}
