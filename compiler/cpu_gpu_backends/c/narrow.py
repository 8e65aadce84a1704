"""Integers of 64 bits that fit 32, as such: processors compute more of them at a time, or small
ones compute them at all.

What operators on quantized tensors end with is written with int64. Where the contents of buffers
show that a step fits int32, it is computed so. Scaling, a product of 49 bits that is shifted, is a
function of its own (`scaled` in `helpers`) where multipliers have 16 bits and shifts at least 17.
"""

from collections.abc import Mapping

from compiler.ir import Stmt, is_index, map_exprs
from compiler.te import Binary, Buffer, Cast, Const, Expr, bits, is_integer, rewrite

from .expressions import INT32, CExpressions


def narrowed(body: Stmt, known: Mapping[Buffer, tuple[int, int]]) -> Stmt:
    """The statements with steps of int64 in int32, for what buffers are known to hold."""
    exprs = CExpressions({}, {}, (), known)
    return map_exprs(body, lambda expr: rewrite(expr, lambda node: _narrow(node, exprs)))


def _narrow(node: Expr, exprs: CExpressions) -> Expr | None:
    match node:
        case Binary("and", a, Const(mask)) if is_integer(node.dtype) and _covers(
                int(mask), exprs.range(a)):
            return a
        case Cast(Cast(value, "int64"), dtype) if (
                is_integer(dtype) and bits(dtype) <= 32 and is_integer(value.dtype)):
            return value if value.dtype == dtype else Cast(value, dtype)
        case Binary("rshift_rne", a, b) if node.dtype == "int64":
            return _shifted(node, _small(a), exprs.range(b), exprs)
        case Binary("add" | "sub" | "mul" | "min" | "max" as op, a, b) if (
                node.dtype == "int64" and not is_index(node)):
            left, right = _small(a), _small(b)
            if left is None or right is None:
                return None
            step = Binary(op, left, right)
            return Cast(step, "int64") if exprs.fits(step) else None
    return None


def _shifted(node: Binary, value: Expr | None, by: tuple[int, int] | None,
             exprs: CExpressions) -> Expr | None:
    if exprs.scaling(node):
        return Cast(Cast(node, "int32"), "int64")
    amount = _small(node.b)
    if value is None or amount is None or by is None or not 0 <= by[0] <= by[1] < 31:
        return None
    return Cast(Binary("rshift_rne", value, amount), "int64")


def _small(expr: Expr) -> Expr | None:
    """The value of an int64 as int32, where its form shows that it is one."""
    match expr:
        case Const(value) if INT32[0] <= value <= INT32[1]:
            return Const(int(value), "int32")
        case Cast(value, "int64") if value.dtype == "int32":
            return value
        case Cast(value, "int64") if is_integer(value.dtype) and bits(value.dtype) < 32:
            return Cast(value, "int32")
    return None


def _covers(mask: int, ends: tuple[int, int] | None) -> bool:
    """True if the mask leaves all numbers between the ends as they are."""
    return mask & (mask + 1) == 0 and ends is not None and 0 <= ends[0] and ends[1] <= mask
