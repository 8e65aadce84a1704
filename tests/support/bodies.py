"""Bodies of intrinsics evaluated by NumPy in the types that they are written in."""

from math import prod

import numpy as np

from accel.sim.meaning.floats import apply_binary, apply_call, apply_cast, reduced
from compiler import te
from compiler.te import Binary, Call, Cast, Const, Read, Reduce, Select, Var

FOLDS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def body_value(body, operands):
    """The value of every destination element; `operands` by name of operand or immediate."""
    inner = body.value.value if isinstance(body.value, Reduce) else body.value
    extents = [*body.dst.shape, *(extent for _, extent in body.reduce_axes)]
    grids = dict(zip([axis.var for axis in body.axes] + [var for var, _ in body.reduce_axes],
                     np.indices(extents), strict=True))

    def value(node):
        match node:
            case Const(number, dtype): return np.full(extents, number, te.numpy_dtype(dtype))
            case Var() if node in grids: return grids[node]
            case Var(name, dtype): return np.full(extents, operands[name], te.numpy_dtype(dtype))
            case Read(buffer, indices):
                array = np.asarray(operands[buffer.name], te.numpy_dtype(buffer.dtype))
                return np.broadcast_to(array[tuple(map(value, indices))], extents)
            case Binary(op, a, b): return apply_binary(op, value(a), value(b))
            case Call(function, (a,)): return apply_call(function, value(a))
            case Select(c, a, b): return np.where(value(c), value(a), value(b))
            case Cast(a, dtype): return apply_cast(value(a), dtype)

    result = value(inner)
    if isinstance(body.value, Reduce):
        flat = result.reshape(*body.dst.shape, prod(extents[len(body.dst.shape):]))
        if te.is_float(result.dtype.name):
            return reduced(body.value.op, flat, 1)
        fold, dtype = FOLDS[body.value.op], result.dtype
        result = fold.reduce(flat, axis=-1, dtype=dtype) if body.value.op == "sum" \
            else fold.reduce(flat, axis=-1)
    return result
