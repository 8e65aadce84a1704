"""Functions of integers as text: three readings that agree, and refusals."""

import random
import re
from functools import reduce

import numpy as np
import pytest

from compiler import te
from compiler.ir import interpret, lower
from compiler.ops.integers.integer_text import OPERANDS, computed, operands, range_of, text_of
from compiler.ops.integers.integer_text import expression as text_expression
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.rules import TypeRefused
from compiler.ops.registry import expression, infer
from compiler.tensorize.normal import normal

INT8 = (-128, 127)
AMOUNTS = ("0", "1", "3", "6", "(x0 & 3)", "(x2 & 7)")


def random_text(rng: random.Random, depth: int, condition: bool = False) -> str:
    """A text of all that the language has."""
    def go(condition: bool = False) -> str:
        return random_text(rng, depth - 1, condition)

    if condition:
        return f"({go()} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {go()})"
    if depth <= 0:
        return rng.choice([*OPERANDS[:3], str(rng.randint(-300, 300))])
    match rng.randrange(12):
        case 0 | 1: return f"({go()} {rng.choice('+-*')} {go()})"
        case 2: return f"{rng.choice(['min', 'max'])}({go()}, {go()})"
        case 3: return f"abs({go()})"
        case 4: return f"(-{go()})"
        case 5: return f"select({go(True)}, {go()}, {go()})"
        case 6: return f"({go()} {rng.choice(['<<', '>>'])} {rng.choice(AMOUNTS)})"
        case 7: return f"rshift_rne({go()}, {rng.choice(AMOUNTS)})"
        case 8: return f"({go()} {rng.choice('&|^')} {go()})"
        case 9: return f"int32({rng.choice(['int8', 'uint8', 'int16', 'uint16'])}({go()}))"
        case 10: return (f"int32(rshift_rne(int64({go()}) * {rng.randint(1, 2**33)}, "
                         f"{rng.randint(20, 40)}))")
    return (f"requantize({go()}, {rng.randint(2**15, 2**16 - 1)}, {rng.randint(16, 26)}, "
            f"{rng.randint(-9, 9)}, -128, 127)")


@pytest.mark.parametrize("seed", range(60))
def test_three_readings_agree(seed: int) -> None:
    """Whatever ranges allow is computed exactly, and lies within them."""
    rng = random.Random(seed)
    text = f"clamp(min(x0, max(x1, x2)) + {random_text(rng, 3)}, -128, 127)"
    arrays = [np.random.default_rng(seed + place).integers(-128, 128, 500).astype(np.int8)
              for place in range(3)]
    try:
        low, high = range_of(text, [INT8] * 3)
    except ValueError:
        return
    exact = computed(text, arrays)
    assert low <= exact.min() and exact.max() <= high
    inputs = [te.placeholder((500,), "int8", name) for name in OPERANDS[:3]]
    made = lower([expression("qmap", {"function": text}, inputs, "y")], "y")
    found = interpret(made, dict(zip(OPERANDS, arrays)))["y"]
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize(("text", "low", "high"), [
    ("x0 * x1", -128 * 127, 128 * 128), ("-x0 + x1", -255, 255), ("abs(x0)", 0, 128),
    ("abs(clamp(x0, 5, 90))", 5, 90), ("select(x0 < x1, x0 << 2, 7)", -512, 508),
    ("requantize(x0, 32768, 16, 3, -20, 127)", -20, 67), ("rshift_rne(x0, 1)", -64, 64),
    ("max(x0, 3) - min(x1, 4)", -1, 255), ("x0 & 15", 0, 15), ("x0 | x1", -128, 127),
    ("uint8(x0)", 0, 255), ("int8(x0 + 1)", -128, 127), ("int32(x0 < x1)", 0, 1),
    ("int32((int64(x0) * 4294967296) >> 32)", -128, 127), ("rshift_rne(int64(x0), 63)", 0, 0)])
def test_ranges(text: str, low: int, high: int) -> None:
    assert range_of(text, [INT8] * 2) == (low, high)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_written_is_read_again(seed: int) -> None:
    text = f"clamp(x0 + {random_text(random.Random(seed), 3)}, -128, 127)"
    elements = [te.Var(name, "int32") for name in OPERANDS]
    try:
        range_of(text, [INT8] * 3)
    except ValueError:
        return
    first = normal(text_expression(text, elements))
    assert normal(text_expression(text_of(first), elements)) == first


@pytest.mark.parametrize(("build", "reason"), [
    (lambda x: x // 3, "x0 // 3 has no text"),
    (lambda x: x + te.Var("y", "int32"), "y has no text"),
    (lambda x: reduce(lambda sum_, _: sum_ + sum_, range(12), x),
     "its text must have at most 20000 characters, not 28667")])
def test_what_has_no_text(build, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        text_of(build(te.Var("x0", "int32")))


def test_rounding_shifts_are_half_to_even() -> None:
    x = np.arange(-40, 41)
    for n in range(5):
        np.testing.assert_array_equal(computed(f"rshift_rne(x0, {n})", [x]), np.rint(x / 2.0**n))



def test_operands_are_found() -> None:
    assert operands("max(x2, x0) - 1") == {"x0", "x2"}


@pytest.mark.parametrize(("text", "reason"), [
    ("x0 +", "it is no expression"), ("x10", "x10 is no integer"),
    ("x0 / 2", "x0 / 2 is no integer"),
    ("__import__('os')", "__import__('os') is no integer"), ("x0.real", "x0.real is no integer"),
    ("1.5", "1.5 is no integer"), ("True", "True is no integer"),
    ("x0 < 1", "x0 < 1 is no integer"),
    ("0 < x0 < 1", "0 < x0 < 1 is no integer"), ("select(x0, 1, 2)", "x0 is no condition"),
    ("min(x0)", "min(x0) is no integer"),
    ("x0 << 64", "a shift by 64 is not 0 to 63"),
    ("x0 + 9223372036854775807", "9223372036854775807 is no int64"),
    ("int8(x0 + (x1 < 2))", "x1 < 2 is no integer"), ("int4(x0)", "int4(x0) is no integer"),
    ("requantize(x0, 5, 3, 0, -128, 127)", "5 / 2**3 is no multiplier of the machine"),
    ("requantize(x0, 32768, 3, 0, 5, 4)", "zp 0, lo 5 and hi 4 are no int16 in order")])
def test_what_is_no_function_is_refused(text: str, reason: str) -> None:
    message = f"function must be an expression of integers: {reason}, not {text!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        operands(text)


@pytest.mark.parametrize(("text", "types", "reason"), [
    ("clamp(x1, -3, 3)", ["int8"], "function must read x0, not 'clamp(x1, -3, 3)'"),
    ("x0 + 1", ["int8"], "function must give int8, not -127 to 128"),
    ("clamp(x0 * x1 * x2, -1, 1)", ["int16"] * 3,
     "its results on the way must fit int32, not reach 35183298347008"),
    ("clamp(x0 + 2147483648, -1, 1)", ["int8"], "2147483648 is no int32"),
    ("clamp(x0 << 32, -1, 1)", ["int8"], "a shift by 32 is not 0 to 31"),
    ("int8(x0 << x1)", ["int8"] * 2, "a shift by -128 is not 0 to 31"),
    ("int8(x0 >> (int64(x1) & 3))", ["int8"] * 2,
     "its operations must be on one type, not on int32 and int64"),
    ("int8(int64(x0) + x1)", ["int8"] * 2,
     "its operations must be on one type, not on int32 and int64"),
    ("int8(int64(x0) << 56)", ["int8"],
     "its results on the way must fit int64, not reach 9151314442816847872"),
    ("x0", ["int32"], "input 'a' must be int8 or int16, not int32")])
def test_what_could_overflow_is_refused(text: str, types: list[str], reason: str) -> None:
    node = Node("qmap", "m", tuple("abc"[:len(types)]), ("y",), {"function": text})
    with pytest.raises(TypeRefused, match=f"^m: {re.escape(reason)}$"):
        infer(node, [TensorType((2,), dtype) for dtype in types])
