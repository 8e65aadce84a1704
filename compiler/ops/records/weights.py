"""Weights of operators seen alike: [groups, outputs / group, inputs / group, taps].

Output channel o of a group g of G is channel g * outputs / G + o of the result, inputs alike; so in
the operator's own order of both, whatever the operator.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The second input of an operator that multiplies by it.

    axis : of the output channels in the result; below zero from the last dimension on.
    biased : whether a third input adds a number to each output channel.
    scale_axis : ``scale_axis(attrs)`` is the axis of the weight that has a scale for each output
        channel (of a group).
    alike : ``alike(attrs, weight)`` is a view as this module's docstring says.
    restored : ``restored(attrs, view, shape)`` is the weight of such a view.
    """

    axis: int
    biased: bool
    scale_axis: Callable[[Mapping], int]
    alike: Callable[[Mapping, Array], Array]
    restored: Callable[[Mapping, Array, tuple[int, ...]], Array]

    def outputs(self, attrs: Mapping, weight: Array) -> int:
        """The number of output channels."""
        view = self.alike(attrs, weight)
        return view.shape[0] * view.shape[1]

    def scaled(self, attrs: Mapping, weight: Array, *, outward: Array | None = None,
               inward: Array | None = None) -> Array:
        """The weight with each output channel, or each input channel, times a number."""
        view = self.alike(attrs, weight)
        group, outs, ins, _ = view.shape
        if outward is not None:
            view = view * outward.reshape(group, outs, 1, 1)
        if inward is not None:
            view = view * inward.reshape(group, 1, ins, 1)
        return self.restored(attrs, view.astype(weight.dtype, copy=False), weight.shape)


def of_channels(bias: Array, count: int) -> Array | None:
    """A bias as a number for each of the output channels; None where it differs along others, as
    that of a product of matrices may from row to row.
    """
    whole = bias.size == count == bias.shape[-1] if bias.ndim else False
    return np.broadcast_to(bias.reshape(-1), (count,)) if whole or bias.size == 1 else None


def terms_of(weight: Array, dtype: str, most: int) -> list[Array] | None:
    """A weight as a sum of weights of a type, as few as can be; the first alone where it fits.
    None where it takes more than `most`.

    int8 weights less a zero point have 9 bits: two terms, or three for 255 and -256.
    """
    if weight.dtype == dtype:
        return [weight]
    ends, left, terms = np.iinfo(dtype), weight.astype(np.int64), list[Array]()
    while not terms or left.any():
        if len(terms) == most:
            return None
        terms.append(np.clip(left, ends.min, ends.max))
        left = left - terms[-1]
    return [term.astype(dtype) for term in terms]


def _grouped(attrs: Mapping, weight: Array) -> Array:
    group = attrs.get("group", 1)
    return weight.reshape(group, len(weight) // group, weight.shape[1], -1)


def _turned(attrs: Mapping, view: Array, shape: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(view.swapaxes(1, 2)).reshape(shape)


def _inputs_first(attrs: Mapping) -> int:
    """1 where a matrix is [inputs, outputs]."""
    return 0 if attrs.get("trans_b", 0) else 1


def _matrix(attrs: Mapping, weight: Array) -> Array:
    return (weight.T if _inputs_first(attrs) else weight)[None, :, :, None]


def _from_matrix(attrs: Mapping, view: Array, shape: tuple[int, ...]) -> Array:
    matrix = view[0, :, :, 0]
    return np.ascontiguousarray(matrix.T if _inputs_first(attrs) else matrix)


CONVOLVED = Weights(axis=1, biased=True, scale_axis=lambda attrs: 0, alike=_grouped,
                    restored=lambda attrs, view, shape: view.reshape(shape))
"""[Co, Ci/group, ...]"""

TRANSPOSED = Weights(axis=1, biased=True, scale_axis=lambda attrs: 1, restored=_turned,
                     alike=lambda attrs, weight: _grouped(attrs, weight).swapaxes(1, 2))
"""[Ci, Co/group, ...]"""

MATRIX = Weights(axis=-1, biased=True, scale_axis=_inputs_first, alike=_matrix,
                 restored=_from_matrix)
"""[K,N], or [N,K] where `trans_b` is 1"""

PRODUCT = Weights(axis=-1, biased=False, scale_axis=_inputs_first, alike=_matrix,
                  restored=_from_matrix)
"""[K,N], where it is a constant of two dimensions"""
