"""Iterations that differ only in addresses.

The loops outside a tile are columns of numbers. What an instruction is like depends on them by the
conditions of the statement alone; of an affine condition that is the number which the loops outside
add, as long as the loops inside can make it hold or not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel.mapping.lowering.nest import AffineAddress, Interval, NotAffine, at_least_zero, conjuncts
from compiler.te import Const, Expr, Var

Columns = Mapping[Var, np.ndarray]
"""The values of each unrolled loop, int64, one for each iteration of all of them."""

_ALWAYS = np.iinfo(np.int64).max
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Classes:
    """`of` has the class of each iteration, `rows` an iteration of each class: its first."""

    of: np.ndarray
    rows: tuple[int, ...]


def row_of(columns: Columns, row: int) -> dict[Var, int]:
    """The values of the loops in one iteration."""
    return {var: int(column[row]) for var, column in columns.items()}


def classes_of(conditions: Sequence[Expr], columns: Columns, count: int,
               box: Mapping[Var, Interval], keys: Iterable[np.ndarray] = ()) -> Classes:
    """The classes of `count` iterations by conditions over the loops in `columns` and those in
    `box`, and by numbers of one's own. They are in the order of their first iterations.
    """
    numbers = np.zeros(count, np.int64)
    every = [*keys, *(key for condition in conditions for part in conjuncts(condition)
                      for key in _keys(part, columns, count, box))]
    for key in every:
        if count and (key != key[0]).any():
            _, inverse = np.unique(key, return_inverse=True)
            _, numbers = np.unique(numbers * (int(inverse.max()) + 1) + inverse,
                                   return_inverse=True)
    unique, first, numbers = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(unique), np.int64)
    place[order] = np.arange(len(unique))
    return Classes(place[numbers], tuple(first[order].tolist()))


def _keys(part: Expr, columns: Columns, count: int,
          box: Mapping[Var, Interval]) -> list[np.ndarray]:
    """Numbers that decide what a condition does."""
    if isinstance(part, Const):
        return []
    try:
        forms = at_least_zero(part, {})
    except NotAffine:
        return list(columns.values())
    return [_key(form, columns, count, box) for form in forms]


def _key(form: AffineAddress, columns: Columns, count: int,
         box: Mapping[Var, Interval]) -> np.ndarray:
    """The part of an affine form that the loops outside add; one number where it holds, and one
    where it fails, whatever the loops inside are.
    """
    total, low, high = np.full(count, form.offset, np.int64), 0, 0
    for var, factor in form.coefficients.items():
        if var in columns:
            total += columns[var] * factor
        else:
            first, past = box[var]
            ends = factor * first, factor * (past - 1)
            low, high = low + min(ends), high + max(ends)
    return np.where(total + low >= 0, _ALWAYS, np.where(total + high < 0, _NEVER, total))
