"""Values of tensor expressions over many iterations at once, by NumPy.

Integers wrap at their width, as `compiler.te` defines; floats are as `accel.sim.meaning.floats` has
them. Dimension 0 of every array counts iterations; the axes of the tile follow, then the axes of a
reduction.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.ir.arithmetic import cut
from compiler.te import (Axis, Binary, Call, Cast, Const, Expr, Read, Reduce, Select, Var,
                         numpy_dtype)

from .floats import apply_binary, apply_call, apply_cast, reduced


def evaluate(value: Expr, axes: Sequence[Axis], tiles: Mapping[str, np.ndarray],
             scalars: Mapping[str, int], count: int) -> np.ndarray:
    """`value` for each of `count` iterations, of shape ``(count, *extents of axes)``.

    Parameters
    ----------
    tiles : operand name to an array of shape ``(count or 1, *operand shape)``, of the type in
        which the expression reads it.
    scalars : immediate name to its value.
    """
    shape = (count, *(axis.extent for axis in axes))
    reduction = value if isinstance(value, Reduce) else None
    folded = () if reduction is None else reduction.axes
    indices = [(axis.var, axis.extent) for axis in axes] + list(folded)
    walker = _Evaluator(indices, tiles, scalars)
    if reduction is None:
        return np.broadcast_to(walker.of(value), shape)
    inner = walker.of(reduction.value)
    inner = np.broadcast_to(inner, (*inner.shape[:len(shape)], *(extent for _, extent in folded)))
    return np.broadcast_to(cut(reduced(reduction.op, inner, len(folded)), reduction.dtype), shape)


class _Evaluator:
    def __init__(self, indices: Sequence[tuple[Var, int]], tiles: Mapping[str, np.ndarray],
                 scalars: Mapping[str, int]):
        self.positions: dict[Expr, int] = {var: k + 1 for k, (var, _) in enumerate(indices)}
        self.extents: dict[Expr, int] = dict(indices)
        self.tiles = tiles
        self.scalars = scalars
        self.rank = 1 + len(indices)
        self.done: dict[int, np.ndarray] = {}       # by identity: hashing trees takes longer

    def of(self, node: Expr) -> np.ndarray:
        key = id(node)
        if key not in self.done:
            self.done[key] = self._compute(node)
        return self.done[key]

    def _compute(self, node: Expr) -> np.ndarray:
        match node:
            case Const(value, dtype):
                return np.asarray(value, numpy_dtype(dtype)).reshape((1,) * self.rank)
            case Var(name, dtype):
                if node in self.positions:
                    return self._along(np.arange(self.extents[node]), self.positions[node])
                return apply_cast(np.asarray(self.scalars[name]), dtype).reshape((1,) * self.rank)
            case Read(buffer, indices):
                return self._read(self.tiles[buffer.name], indices)
            case Binary(op, a, b):
                return cut(apply_binary(op, self.of(a), self.of(b)), node.dtype)
            case Select(condition, a, b):
                return np.where(self.of(condition), self.of(a), self.of(b))
            case Cast(inner, dtype):
                return apply_cast(self.of(inner), dtype)
            case Call(function, args):
                return cut(apply_call(function, *(self.of(arg) for arg in args)), node.dtype)
        raise TypeError(f"Body of an instruction must be one that NumPy can evaluate, not {node!r}")

    def _along(self, vector: np.ndarray, position: int) -> np.ndarray:
        return vector.reshape([-1 if p == position else 1 for p in range(self.rank)])

    def _read(self, tile: np.ndarray, indices: tuple[Expr, ...]) -> np.ndarray:
        places = [self.positions.get(index, 0) for index in indices]
        whole = all(place and extent == self.extents[index] for place, extent, index
                    in zip(places, tile.shape[1:], indices))
        if whole and len(set(places)) == len(places):
            order = sorted(range(len(places)), key=places.__getitem__)
            shape = [1] * self.rank
            shape[0] = tile.shape[0]
            for k in order:
                shape[places[k]] = tile.shape[1 + k]
            return tile.transpose(0, *(1 + k for k in order)).reshape(shape)
        iteration = self._along(np.arange(tile.shape[0]), 0)
        return tile[(iteration, *(self.of(index) for index in indices))]
