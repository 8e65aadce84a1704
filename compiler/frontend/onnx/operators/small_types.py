"""Numbers of small types that no processor has, computed in a type that processors have: what
QuantizeLinear and Cast make of computed elements. Results are exactly the numbers that the small
type holds; a network can neither take such a type nor give it.
"""

import ml_dtypes
import numpy as np

from compiler.frontend.building.values import NodeRefused, Value

WHOLE = {"int4": ("int8", 4), "uint4": ("uint8", 4), "int2": ("int8", 2), "uint2": ("uint8", 2)}
"""Small integers: the type that their numbers are computed in, and their bits."""

FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn")


def in_wider_type(x: Value, name: str, saturate: bool) -> Value:
    """The numbers that a conversion to the small type `name` gives."""
    if name in WHOLE:
        return _wrapped(x, *WHOLE[name])
    if name not in FLOATS:
        raise NodeRefused(f"what is converted to {name} must be a constant: no processor has the "
                          "type")
    return _rounded(x if x.dtype == "float64" else x.astype("float32"), name,
                    saturate or name == "float4_e2m1fn").astype("float32")


def _wrapped(x: Value, dtype: str, bits: int) -> Value:
    """The low bits of integers, and of floats without their fraction."""
    low = x.astype("int64") & ((1 << bits) - 1)
    if dtype.startswith("u"):
        return low.astype(dtype)
    return (low >= 1 << (bits - 1)).where(low - (1 << bits), low).astype(dtype)


def _rounded(x: Value, name: str, saturate: bool) -> Value:
    """The nearest numbers of a small float type, of two as near the even one. A step between
    numbers follows from how many powers of two the magnitude reaches.
    """
    info, wide = ml_dtypes.finfo(name), np.dtype(x.dtype)
    least, steps = int(info.minexp), int(np.log2(float(info.max))) - int(info.minexp)
    powers = x.tracer.constant(2.0 ** np.arange(least + 1, least + 1 + steps, dtype=wide))
    reached = (x.abs().unsqueeze(x.rank) >= powers).astype("int32").sum(x.rank)
    sizes = x.tracer.constant(2.0 ** (np.arange(least, least + 1 + steps, dtype=wide)
                                      - int(info.nmant)))
    step = x.tracer.emit("gather", sizes, reached, axis=0)
    most = float(info.max)
    near = x.tracer.emit("rint", x.maximum(-2 * most).minimum(2 * most) / step) * step
    beyond = most if saturate else np.inf if name == "float8_e5m2" else np.nan
    result = (near > most).where(beyond, (near < -most).where(-beyond, near))
    if name.endswith("fnuz"):
        result = result.equal(0).where(0, result)
    return x.tracer.emit("is_nan", x).where(x, result)
