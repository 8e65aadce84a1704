"""The order of elements: a NaN is greater than any number among what is sorted, and better than
any where the place of an extremum is asked for, as in NumPy, ONNX's reference and PyTorch.
"""

from compiler import te
from compiler.te import Binary, Expr, is_float


def alike(a: Expr, b: Expr) -> Expr:
    """True where neither comes before the other: both are equal, or NaN."""
    return te.any_of(a.equal(b), te.all_of(_is_nan(a), _is_nan(b))) if is_float(a.dtype) else (
        a.equal(b))


def beats(better: str, a: Expr, b: Expr) -> Expr:
    """True where `a` is ``gt`` or ``lt`` than `b`, or NaN where `b` is a number."""
    return te.any_of(Binary(better, a, b), te.all_of(_is_nan(a), b.equal(b))) if (
        is_float(a.dtype)) else Binary(better, a, b)


def precedes(largest: bool, a: Expr, b: Expr) -> Expr:
    """True where `a` is sorted before `b`: NaN is first of descending ones, last of ascending."""
    if largest:
        return beats("gt", a, b)
    return te.any_of(a < b, te.all_of(_is_nan(b), a.equal(a))) if is_float(a.dtype) else a < b


def _is_nan(x: Expr) -> Expr:
    return x.not_equal(x)
