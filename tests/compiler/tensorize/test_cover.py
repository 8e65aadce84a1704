"""Instruction selection: what computes an expression, at what cost, and what does not."""

import random

import numpy as np
import pytest

from compiler import te
from compiler.ir import interpret, lower
from compiler.te import Axis, Expr, Var
from compiler.tensorize import Immediate, Intrinsic, Operand
from compiler.tensorize.cover import CoverStep, Uncovered, cover, leaf, name_of, plain_text
from compiler.tensorize.normal import normal
from compiler.tensorize.ranges import fits, limits, narrowed, widened
from tests.support.effort import tries

X, Y = (leaf(name, "int8", "res").astype("int32") for name in ("x", "y"))
IMM = Immediate("lo", "int8", -128, 127)


def body(name: str, value, scopes: str = "acc res", last: bool = True) -> Intrinsic:
    """An instruction on a, b and lo, as many as `value` takes; b may be an immediate."""
    axes = (Axis(Var("lane"), 4),)
    stored = {"acc": "int32", "res": "int8", "imm": "int32"}
    count = value.__code__.co_argcount
    operands = tuple(Operand(letter, (4,), "int32", tuple(
        (scope, stored[scope]) for scope in (scopes + " imm" * (letter == "b")).split()))
        for letter in "ab"[:count])
    reads = [te.placeholder((4,), "int32", letter)[axes[0].var] for letter in "ab"[:count]]
    immediates = (IMM,) if count == 3 else ()
    storage = (("acc", "int32"), *[("out", "int8")] * last)
    return Intrinsic(name, "vector", Operand("dst", (4,), "int32", storage), operands, axes,
                     value(*reads, *(i.var for i in immediates)), immediates=immediates)


ADD, SUB = body("add", lambda a, b: a + b), body("sub", lambda a, b: a - b)
MAX = body("max", lambda a, b: te.maximum(a, b))
ABSDIFF = body("absdiff", lambda a, b: te.abs(a - b))
ABS = body("absolute", lambda a: te.abs(a))
AT_LEAST = body("at_least", lambda a, b, lo: te.maximum(a + b, lo.astype("int32")))
MUL = body("mul", lambda a, b: a * b.astype("int16").astype("int32"))


def names(value: Expr, *intrinsics: Intrinsic, cost=lambda step: (1,)) -> list[str]:
    return [step.intrinsic.name for step in cover(value.astype("int8"), intrinsics, "out", cost)]


def test_a_composition_and_the_body_that_is_all_of_it() -> None:
    assert names(te.abs(X - Y), SUB, MAX) == ["sub", "sub", "max"]
    assert names(te.abs(X - Y), SUB, MAX, ABSDIFF) == ["absdiff"]
    assert names(te.abs(X - Y), SUB, ABS) == ["sub", "absolute"]
    assert names(te.maximum(X - Y, Y - X), SUB, ABS) == ["sub", "absolute"]
    assert names(te.maximum(X, 0 - X), ABS) == ["absolute"]
    assert names(te.maximum(X + Y, 5), ADD, MAX, AT_LEAST) == ["at_least"]
    assert names(te.maximum(X + Y, 500), ADD, MAX, AT_LEAST) == ["add", "max"]


def test_the_cheapest_is_taken() -> None:
    def dear(step: CoverStep) -> tuple[int, ...]:
        return (9 if step.intrinsic is ABSDIFF else 1,)

    assert names(te.abs(X - Y), SUB, MAX, ABSDIFF, cost=dear) == ["sub", "sub", "max"]


def test_what_is_read_twice_is_computed_once() -> None:
    assert names((X + Y) * (X + Y), ADD, MUL) == ["add", "mul"]


def test_conversions_that_lose_nothing() -> None:
    """mul takes 16 bits of b: a sum of int8 has no more, that of products has."""
    assert names((X + Y) * (X - Y), ADD, SUB, MUL) == ["add", "sub", "mul"]
    assert names(X * (X * Y * 2), MUL) == ["mul", "mul", "mul"]
    with pytest.raises(Uncovered, match=r"^x \* y \* 2 \* \(x \* y \* 2\)$"):
        names(X * Y * 2 * (X * Y * 2), MUL)
    assert names(te.maximum(leaf("x", "int8", "res"), leaf("y", "int8", "res")), MAX) == ["max"]
    assert names(X.astype("int64") - Y.astype("int64"), SUB) == ["sub"]


def test_the_part_that_no_body_computes() -> None:
    with pytest.raises(Uncovered, match=r"^abs\(x - y\)$"):
        names(te.abs(X - Y) + 3, ADD)
    with pytest.raises(Uncovered, match="^x // 3$"):
        names(te.maximum(X // 3, Y), MAX, ADD)
    with pytest.raises(Uncovered, match=r"^max\(x, y\)$"):
        names(te.maximum(X, Y), body("max", lambda a, b: te.maximum(a, b), last=False))


def test_a_body_of_other_lanes_is_no_candidate() -> None:
    axes = (Axis(Var("lane"), 4),)
    first = te.placeholder((4,), "int32", "a")[te.const(0, te.INDEX)]
    stored = (("acc", "int32"), ("res", "int8"))
    odd = Intrinsic("odd", "vector", Operand("dst", (4,), "int32", (("out", "int8"),)),
                    (Operand("a", (4,), "int32", stored),), axes, first)
    with pytest.raises(Uncovered):
        names(X, odd)


def evaluated(expr: Expr, values: dict[str, int]) -> int:
    """An expression of leaves, by the interpreter."""
    sources = {name: te.placeholder((1,), dtype, name) for name, dtype in TYPES.items()}
    put = te.expr.rewrite(expr, lambda node: sources[node.buffer.name][0]
                          if isinstance(node, te.Read) and not node.indices else None)
    out = te.compute((1,), lambda i: put, "out")
    arrays = {name: np.array([values[name]], TYPES[name]) for name in TYPES}
    return int(interpret(lower([out, *()], "p"), {
        buffer.name: arrays[buffer.name] for buffer in lower([out], "p").inputs})["out"][0])


TYPES = {"a": "int8", "b": "int8", "c": "uint8", "d": "int16"}
LEAVES = {name: leaf(name, dtype, "res") for name, dtype in TYPES.items()}


def grown(rng: random.Random, depth: int, dtype: str) -> Expr:
    if depth == 0:
        return rng.choice([*LEAVES.values(), te.const(rng.randrange(-128, 128), "int8")]
                          ).astype(dtype)
    kind = rng.choice(["add", "sub", "mul", "min", "max", "and", "xor", "shr", "abs", "select",
                       "cast", "cast", "rne"])
    a, b = (grown(rng, depth - 1, dtype) for _ in "ab")
    amount = te.const(rng.randrange(te.bits(dtype) - 1), dtype)
    match kind:
        case "shr": return a >> amount
        case "rne": return te.rshift_rne(a, amount)
        case "abs": return te.abs(a)
        case "select": return te.select(a < b, a, b)
        case "cast":
            return grown(rng, depth - 1, rng.choice(["int8", "int16", "int32", "int64"])
                         ).astype(dtype)
    return te.Binary(kind, a, b)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(tries(300)))
def test_every_form_has_the_same_value_within_the_limits(seed: int) -> None:
    rng = random.Random(seed)
    expr = grown(rng, 3, rng.choice(["int8", "int32", "int64"])).astype("int32")
    forms = normal(expr), widened(expr), narrowed(widened(expr))
    for _ in range(5):
        values = {name: rng.choice([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, -1 % 128,
                                    rng.randrange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)])
                  for name, dtype in TYPES.items()}
        wanted = evaluated(expr, values)
        for form in forms:
            assert evaluated(form, values) == wanted, plain_text(form)
            low, high = limits(form)
            assert low <= wanted <= high


def test_limits() -> None:
    assert limits(X * Y - 5) == (-128 * 127 - 5, 128 * 128 - 5)
    assert limits(te.rshift_rne(X * 3, 1)) == (-192, 190)
    assert fits(te.clamp(X * Y, -128, 127), "int8") and not fits(X * Y, "int8")
    assert name_of(X) == "x"
