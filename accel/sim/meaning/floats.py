"""The operators of bodies on NumPy arrays: those of `compiler.ir.arithmetic`, of which a machine
says more where floats leave something open (`accel.datapath.floats` states the rules)."""

import numpy as np

from accel.datapath.floats import FORMATS
from compiler.ir import arithmetic
from compiler.ir.arithmetic import FOLDS
from compiler.te import neutral, numpy_dtype

_FOLDED = {"sum": "add", "max": "max", "min": "min"}


def _is_float(dtype: np.dtype) -> bool:
    """NumPy makes the name anew each time it is asked for, so the kind is asked first."""
    return dtype.kind not in "biu" and dtype.name in FORMATS


def _float(a: np.ndarray) -> bool:
    return _is_float(a.dtype)


def _narrow(a: np.ndarray) -> bool:
    """True for floats whose arithmetic, which saturates, is not that of ml_dtypes."""
    return _float(a) and FORMATS[a.dtype.name].saturates


def _canonical(a: np.ndarray) -> np.ndarray:
    """The values, with one NaN for all."""
    nan = np.isnan(a)
    if not nan.any():
        return a
    raw = np.asarray(a).view(f"uint{a.dtype.itemsize * 8}")
    return np.where(nan, raw.dtype.type(FORMATS[a.dtype.name].nan), raw).view(a.dtype)


def apply_binary(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not _float(a):
        return arithmetic.apply_binary(op, a, b)
    if _narrow(a):
        wide = apply_binary(op, a.astype(np.float32), b.astype(np.float32))
        return apply_cast(wide, a.dtype.name) if _float(wide) else wide
    if op in ("min", "max"):
        first = _canonical(arithmetic.apply_binary(op, a, b))
        signs = np.signbit(a), np.signbit(b)
        negative = signs[0] | signs[1] if op == "min" else signs[0] & signs[1]
        zero = np.where(negative, np.asarray(-0.0, a.dtype), np.asarray(0.0, a.dtype))
        return np.where((a == 0) & (b == 0), zero, first).astype(a.dtype)
    result = arithmetic.apply_binary(op, a, b)
    return _canonical(result) if _float(result) else result


def apply_call(function: str, a: np.ndarray, *more: np.ndarray) -> np.ndarray:
    result = arithmetic.apply_call(function, a, *more)
    return _canonical(result) if _float(result) else result


def apply_cast(a: np.ndarray, dtype: str) -> np.ndarray:
    target = numpy_dtype(dtype)
    if _float(a) and target.kind in "iu":
        limits = np.iinfo(target)
        whole = np.trunc(a.astype(np.float64))
        within = np.clip(whole, float(limits.min), float(limits.max))
        return np.where(np.isnan(whole), 0.0, within).astype(target)
    if _is_float(target):
        # An integer becomes a number of 16 or 8 bits by way of float32.
        wide = a if _float(a) else arithmetic.apply_cast(a, "float32")
        return _canonical(arithmetic.apply_cast(wide, dtype))
    return arithmetic.apply_cast(a, dtype)


def apply_fold(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Folds two values of a reduction."""
    return apply_binary(_FOLDED[kind], a, b) if _float(a) else arithmetic.apply_fold(kind, a, b)


def reduced(kind: str, values: np.ndarray, axes: int) -> np.ndarray:
    """A reduction over the last `axes` dimensions. Order matters to floats: neighbours are folded,
    then neighbours of the results; one without a neighbour meets the neutral value."""
    rest = values.shape[:values.ndim - axes]
    if not _float(values):
        over = tuple(range(len(rest), values.ndim))
        with np.errstate(over="ignore"):
            return FOLDS[kind].reduce(values, axis=over, dtype=values.dtype)
    values = values.reshape(*rest, -1)
    alone = np.full((*rest, 1), neutral(kind, values.dtype.name).value, values.dtype)
    while values.shape[-1] > 1:
        if values.shape[-1] % 2:
            values = np.concatenate((values, alone), axis=-1)
        values = apply_fold(kind, values[..., 0::2], values[..., 1::2])
    return values[..., 0]
