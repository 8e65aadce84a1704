"""Gradients of products of matrices and of tensors of any shape: products of the same kind."""

from collections.abc import Iterator

import numpy as np

from compiler.frontend.building.values import Value
from compiler.gradients.rules.adjoint import Adjoint, Gradient, Rule, apply


def _turned(value: Value) -> Value:
    return value.transpose(*range(value.rank - 2), value.rank - 1, value.rank - 2)


def _matmul(at: Adjoint) -> list[Gradient]:
    (a, b), g = at.factors()[:2], at.gradient
    turned = at.attrs.get("trans_b", 0)

    def of_second() -> Value:
        return apply("matmul", _turned(g), a) if turned else apply("matmul", _turned(a), g)

    return [lambda: apply("matmul", g, b, trans_b=1 - turned), of_second]


def _dense(at: Adjoint) -> list[Gradient]:
    return [*_matmul(at), lambda: at.gradient][:len(at.inputs)]


def _einsum(at: Adjoint) -> list[Gradient]:
    left, _, result = at.attrs["equation"].partition("->")
    terms = left.split(",")
    return [lambda place=place: _of_term(at, place, terms, result) for place in range(len(terms))]


def _of_term(at: Adjoint, place: int, terms: list[str], result: str) -> Value:
    """The sum of products of the gradient and all other terms; a letter that only this one has is
    repeated. Where a letter stands twice the gradient lies on the diagonal.
    """
    own, shape = terms[place], at.inputs[place].shape
    operands = [at.gradient, *(value for k, value in enumerate(at.inputs) if k != place)]
    names = [result, *(term for k, term in enumerate(terms) if k != place)]
    extents = {letter: value.shape[axis] for name, value in zip(names, operands, strict=True)
               for axis, letter in reversed([*enumerate(name)]) if value.shape[axis] > 1}
    written = list(own)
    free = _unused(set("".join((*terms, result))))
    for axis, letter in enumerate(own):
        if letter in own[:axis]:
            written[axis] = next(free)
            operands.append(at.x.tracer.constant(np.eye(shape[axis])).astype(at.x.dtype))
            names.append(letter + written[axis])
            extents[letter] = extents[written[axis]] = shape[axis]
    kept = [letter for letter, extent in zip(written, shape, strict=True)
            if extent > 1 and letter in extents]
    summed = apply("einsum", *operands, equation=f"{','.join(names)}->{''.join(kept)}")
    return summed.reshape(*(extent if letter in kept else 1
                            for letter, extent in zip(written, shape, strict=True))).expand(*shape)


def _unused(letters: set[str]) -> Iterator[str]:
    return (letter for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
            if letter not in letters)


GRADIENTS: dict[str, Rule] = {"matmul": _matmul, "dense": _dense, "einsum": _einsum}
