"""Declarations that match something in float networks: the pattern, and what is refused."""

import re

import pytest

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, gemm_op, vector_op
from accel.machine.machine import Machine
from compiler import te
from compiler.ir.printer import expr_text
from compiler.ops.records.integer_forms import Stored

TINY = preset("tiny-1x4x4")


def half(x):
    return x * 0.5


def test_a_pattern_has_the_body_over_what_is_stored() -> None:
    own = vector_op("own", lambda b, zp, a: te.abs(a - b) + zp.astype("int32"),
                    matches=lambda x, y: te.abs(x - y),
                    immediates=lambda x, y, out: {"zp": out.zp})
    assert own.pattern is not None and own.pattern.name == "own"
    assert [variable.name for variable in own.pattern.inputs] == ["x", "y"]
    stored = [Stored(name, 0.5, -3) for name in "xy"]
    assert own.pattern.function(stored, Stored("z", 0.5, -128)).text == "(abs((x0 - x1)) + -128)"


def test_it_changes_no_machine() -> None:
    """What an instruction matches is no part of what it computes."""
    plain, matching = (Machine(TINY, (*SHIPPED, vector_op("own", lambda a: a >> 1, **more)))
                       for more in ({}, {"matches": half}))
    assert plain.hash == matching.hash and plain.patterns == ()
    assert [pattern.name for pattern in matching.patterns] == ["own"]


@pytest.mark.parametrize(("value", "options", "message"), [
    (lambda a, imm: (a - (imm >> 16)) * imm.astype("int16").astype("int32"),
     {"matches": half, "immediates": lambda x, y: {"imm": 1}},
     "Value of own must read each of imm by itself somewhere to match something: their numbers are "
     "found in the expression"),
    (lambda a, b: a - b, {"matches": lambda x, y: x - y, "b": ("par",)},
     "Operand b of own must live in res or acc to match something")])
def test_a_machine_must_find_what_its_instructions_match(value, options, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Machine(TINY, (*SHIPPED, vector_op("own", value, **options)))


@pytest.mark.parametrize("scopes", [("acc",), ("res",)])
def test_operands_may_live_in_either(scopes: tuple[str, ...]) -> None:
    assert Machine(TINY, (*SHIPPED, vector_op("own", lambda a, s: (a >> (s & 31).astype(
        "int32")) + 3, a=scopes, matches=half, immediates=lambda x, y: {"s": 1}))).patterns


def with_zp(a, zp):
    return a + zp.astype("int32")


@pytest.mark.parametrize(("value", "options", "message"), [
    (lambda a: a, {"immediates": lambda x, y: {}},
     "Immediates of vector operation own must come with matches: what they are follows from the "
     "scales of what it matches"),
    (lambda a: a, {"tolerance": 1e-3},
     "Tolerance of vector operation own must come with matches"),
    (lambda a: a, {"matches": half, "tolerance": -1},
     "Tolerance of own must be a finite number of 0 or more, not -1"),
    (lambda a: a, {"matches": half, "tolerance": float("inf")},
     "Tolerance of own must be a finite number of 0 or more, not inf"),
    (lambda a: a, {"matches": half, "stored": "bfloat16"},
     "Vector operation own must compute in int32 to match something, not in float32"),
    (lambda a: a, {"matches": half, "accumulator": "int40"},
     "Vector operation own must compute in int32 to match something, not in int40"),
    (lambda a, table: table[a & 255], {"matches": half},
     "Vector operation own must take a, b, immediates and parameters of channels alone to match "
     "something, not table"),
    (lambda a, bias: a + bias, {"matches": half},
     "Vector operation own must say by immediates= what bias are where it matches"),
    (lambda a, far: a + far.astype("int32"), {
        "record": te.record("far_numbers", far="uint32", near="int32"), "matches": half},
     "Field far of own must be one of int8, uint8, int16, uint16, int32 to match something, not "
     "uint32"),
    (lambda a, x0: a + x0, {
        "record": te.record("taken_names", x0="int32", x1="int32"), "matches": half},
     "Field x0 of own must have another name to match something: operands are called so"),
    (lambda a, bias: a + bias, {"matches": lambda x, y: x + y,
                                "immediates": lambda x, out: {"bias": 0}},
     "Immediates of own must be a function of what it matches, 1 quantized, 1 constants of "
     "channels and then the result, each with scale and zp"),
    (lambda a, b, bias: a + b + bias, {"matches": half},
     "Matches of own must take as many numbers as it has operands, a, b, and then constants of "
     "channels, which fill its record, not x"),
    (lambda a: a, {"matches": half, "lanes": "max"},
     "Vector operation own must compute each lane by itself, and assign it, to match something"),
    (lambda a: a, {"matches": half, "update": "sum"},
     "Vector operation own must compute each lane by itself, and assign it, to match something"),
    (lambda a: a, {"matches": 3}, "Matches of own must be a function, not 3"),
    (lambda a: a, {"matches": lambda x, y: x + y},
     "Matches of own must take as many numbers as it has operands, a, not x, y"),
    (lambda a, b: a + b, {"matches": half},
     "Matches of own must take as many numbers as it has operands, a, b, not x"),
    (lambda a: a, {"matches": lambda *x: x[0]},
     "Parameter x of what own matches must be a plain one"),
    (lambda a: a, {"matches": lambda x: 3},
     "Matches of own must give an expression of real numbers, not 3"),
    (lambda a: a, {"matches": lambda x: x < 3},
     "Matches of own must give an expression of real numbers, not bool"),
    (lambda a: a, {"matches": lambda x: x.astype("int32").astype("float32")},
     "Matches of own must be a function of real numbers, without cast"),
    (lambda a: a, {"matches": lambda x: x % 2},
     "Matches of own must be a function of real numbers, without mod"),
    (lambda a: a, {"matches": lambda x: te.const(1.0, "float32")},
     "Matches of own must depend on x"),
    (with_zp, {"matches": half},
     "Vector operation own must say by immediates= what zp are where it matches"),
    (with_zp, {"matches": half, "immediates": lambda x: {"zp": 1}},
     "Immediates of own must be a function of what it matches, 1 quantized and then the result, "
     "each with scale and zp"),
    (with_zp, {"matches": half, "immediates": lambda x, y: {"lo": 1}},
     "Immediates of own must be zp, by name, not lo"),
    (with_zp, {"matches": half, "immediates": lambda x, y: 1},
     "Immediates of own must be zp, by name, not 1"),
    (lambda a: a, {"matches": half, "immediates": lambda x, y: {"zp": 1}},
     "Immediates of own must be none, by name, not zp"),
    (lambda a: a < 3, {"matches": half},
     "Result of vector operation own must be an int32 expression, not Binary(")])
def test_what_cannot_be_matched_is_refused(value, options, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as refused:
        vector_op("own", value, **options)
    assert "\n" not in str(refused.value)


def squared(x, w):
    return (x - w) * (x - w)


@pytest.mark.parametrize(("options", "message"), [
    ({"term": squared, "matches": lambda x: x * x},
     "Matches of own must take an input and a weight, not x"),
    ({"term": squared, "matches": 3}, "Matches of own must be a function, not 3"),
    ({"term": squared, "matches": lambda x, w: te.abs(x - w)},
     "Matches of own must be a multiple of its term, where both numbers have one scale"),
    ({"term": lambda x, w: x * w + 1, "matches": lambda x, w: x * w},
     "Matches of own must be a multiple of its term, where both numbers have one scale"),
    ({"term": lambda x, w: x < w, "matches": squared},
     "Term of own must be an int32 expression, not Binary("),
    ({"term": lambda x, w: (x * w) << 20, "matches": lambda x, w: x * w},
     "Term of own cannot match something: its results on the way must fit int32, not reach "
     "17179869184"),
    ({"wgt": "int16", "matches": squared},
     "Product own must sum int8 in int32 to match something, not int8 and int16 in int32")])
def test_sums_that_cannot_be_matched_are_refused(options, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as refused:
        gemm_op("own", **options)
    assert "\n" not in str(refused.value)


def test_a_product_sums_a_term_of_its_own() -> None:
    plain, matching = (Machine(TINY, (*SHIPPED, gemm_op("own", term=squared, **more)))
                       for more in ({}, {"matches": squared}))
    assert plain.hash == matching.hash and plain.patterns == ()
    assert [pattern.name for pattern in matching.patterns] == ["own"]
    off = "(int32(inp[lane_b, lane_i]) - int32(wgt[lane_o, lane_i]))"
    assert expr_text(matching.intrinsic("own").value).count(off) == 2
