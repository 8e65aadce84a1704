"""Products of matrices and tensors."""

from collections import Counter

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import operator

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def product(t, a: Value, b: Value) -> Value:
    """The product of NumPy's ``a @ b``."""
    if min(a.rank, b.rank) < 1:
        raise NodeRefused(f"its inputs must have a dimension at least, not {a.shape} and {b.shape}")
    if a.dtype == b.dtype == "float32" and min(a.rank, b.rank) >= 2:
        return t.emit("matmul", a, b)
    outer = LETTERS[3:3 + max(a.rank, b.rank) - 2]
    left = outer[len(outer) - max(a.rank - 2, 0):] + ("mk" if a.rank > 1 else "k")
    right = outer[len(outer) - max(b.rank - 2, 0):] + ("kn" if b.rank > 1 else "k")
    result = outer + "m" * (a.rank > 1) + "n" * (b.rank > 1)
    letters = {"k": "a", "m": "b", "n": "c"}
    equation = f"{left},{right}->{result}".translate(str.maketrans(letters | {
        letter: LETTERS[3 + place] for place, letter in enumerate(outer)}))
    return t.emit("einsum", a, b, equation=equation)


@operator("MatMul")
def matmul(t, a, b):
    return product(t, a, b)


@operator("Gemm")
def gemm(t, a, b, c=None, *, alpha, beta, transA, transB):
    for role, value in (("A", a), ("B", b)):
        if value.rank != 2:
            raise NodeRefused(f"its {role} must have 2 dimensions, not {value}")
    if a.dtype == "float32" and alpha == 1 and (c is None or beta == 1) and not transA:
        return t.emit("dense", *(value for value in (a, b, c) if value is not None),
                      trans_b=transB)
    a = a.transpose(1, 0) if transA else a
    b = b.transpose(1, 0) if transB else b
    total = product(t, a, b)
    total = total if alpha == 1 else total * alpha
    if c is None:
        return total
    return total + (c if beta == 1 else c * beta)


@operator("Einsum")
def einsum(t, *inputs, equation):
    return t.emit("einsum", *inputs, equation=_explicit(equation, inputs))


def _explicit(equation: str, inputs: tuple[Value, ...]) -> str:
    """The equation with letters in place of `...`, and with an explicit result."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(inputs):
        raise NodeRefused(f"equation must have {len(inputs)} terms, not {equation}")
    free = [letter for letter in LETTERS if letter not in left]
    deepest = max((x.rank - len(term.replace("...", "")) for term, x
                   in zip(terms, inputs, strict=True) if "..." in term), default=0)
    dots = "".join(free[:deepest])
    if not arrow:
        seen = Counter(left.replace("...", "").replace(",", ""))
        result = "..." * ("..." in left) + "".join(sorted(
            letter for letter, count in seen.items() if count == 1))
    spelled = []
    for term, x in zip(terms, inputs, strict=True):
        hidden = x.rank - len(term.replace("...", ""))
        spelled.append(term.replace("...", dots[len(dots) - hidden:] if hidden else ""))
    return f"{','.join(spelled)}->{result.replace('...', dots)}"


@operator("Det")
def det(t, x):
    return t.computed(np.linalg.det, x)


