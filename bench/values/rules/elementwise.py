"""Operators of single elements: of one value, of two, and those that compare or choose."""

from typing import Any

import numpy as np

from bench.values.draw import Drawer, Unfit, Value
from bench.values.rules.registry import rule
from bench.values.rules.steps import operand, weight


@rule("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp",
      "Floor", "HardSwish", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign",
      "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh")
def unary(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x)


@rule("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu", "ThresholdedRelu", "Gelu", "Shrink",
      "Swish")
def activation(d: Drawer, x: Value, op: str) -> Value:
    some = d.number(0.05, 0.95)
    given: dict[str, Any]
    match op:
        case "HardSigmoid": given = {"alpha": d.number(0.1, 0.4), "beta": d.number(0.2, 0.6)}
        case "Selu": given = {}
        case "Gelu": given = {"approximate": d.choice(("none", "tanh"))}
        case "Shrink": given = {"bias": d.number(0, 0.4), "lambd": d.number(0.2, 1)}
        case _: given = {"alpha": some}
    return d.emit(op, x, **given)


@rule("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod")
def binary(d: Drawer, x: Value, op: str) -> Value:
    other = operand(d, x)
    if op == "Pow" and d.chance(0.7):
        other = d.constant(d.choice((2, 2, 3, 1)), x.dtype)
    attributes: dict[str, Any] = {"fmod": 1} if op == "Mod" and x.dtype == "float32" else {}
    if op in ("Div", "Mod"):
        numbers = other.array if isinstance(other, Value) else d.constants.get(other, other)
        if np.any(np.abs(np.asarray(numbers, float)) < 0.05):
            raise Unfit("a divisor is near 0")
    pair = [x, other] if d.chance(0.7) or op in ("Div", "Mod", "Pow") else [other, x]
    return d.emit(op, *pair, **attributes)


@rule("Sum", "Mean", "Max:many", "Min:many")
def several(d: Drawer, x: Value, op: str) -> Value:
    others = [operand(d, x) for _ in range(d.below(3))]
    return d.emit(op, *others[:1], x, *others[1:])


@rule("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def comparison(d: Drawer, x: Value, op: str) -> Value:
    other = operand(d, x)
    return d.emit(op, *([x, other] if d.chance(0.6) else [other, x]))


@rule("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "BitwiseNot")
def bits(d: Drawer, x: Value, op: str) -> Value:
    match op:
        case "BitwiseNot": return d.emit(op, x)
        case "BitShift":
            number = d.constant(d.below(5), x.dtype)
            return d.emit(op, x, number, direction=d.choice(("LEFT", "RIGHT")))
        case _: return d.emit(op, x, operand(d, x))


@rule("And", "Or", "Xor", "Not")
def logic(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x, *([] if op == "Not" else [operand(d, x)]))


@rule("IsNaN", "IsInf")
def odd_numbers(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x)


@rule("Clip")
def clip(d: Drawer, x: Value, op: str) -> Value:
    low, high = np.sort(d.rng.choice(x.array.reshape(-1), 2))
    if d.chance(0.3) and x.dtype == "float32":
        low, high = np.float32(0), np.float32(6)
    ends = [None if d.chance(0.2) else d.constant(low), None if d.chance(0.2) else
            d.constant(high)]
    return d.emit(op, x, *ends, steps=(x.scale, x.zero))


@rule("PRelu")
def prelu(d: Drawer, x: Value, op: str) -> Value:
    if x.dtype != "float32":
        return d.emit(op, x, d.constant(1, x.dtype))
    begin = d.below(x.rank + 1)
    shape = [extent if d.chance(0.7) else 1 for extent in x.shape[begin:]]
    if x.rank > 1 and d.chance(0.5):            # a slope of each channel
        shape = [x.shape[1], *(1,) * (x.rank - 2)]
    slopes = d.rng.uniform(0, 0.9, shape).astype(np.float32)
    return d.emit(op, x, weight(d, slopes) if d.chance(0.4) else d.constant(slopes))


@rule("Max:slope", types=("float32",))
def greater_of_two(d: Drawer, x: Value, op: str) -> Value:
    """A slope below zero as other tools write it."""
    shape = [x.shape[1], *(1,) * (x.rank - 2)] if x.rank > 1 and d.chance(0.5) else []
    part = d.emit("Mul", x, d.constant(d.rng.uniform(0, 0.9, shape).astype(np.float32)))
    return d.emit(op, x, part)


@rule("Mul:gate", types=("float32",))
def gate(d: Drawer, x: Value, op: str) -> Value:
    """x times a function of x."""
    other = d.emit(d.choice(("Sigmoid", "HardSigmoid", "Tanh", "Relu")), x)
    return d.emit(op, x, other)


@rule("Where", operand=1)
def where(d: Drawer, x: Value, op: str) -> Value:
    conditions = [one for one in d.values if one.dtype == "bool" and one.shape == x.shape]
    condition = d.choice(conditions) if conditions and d.chance(0.7) else d.constant(
        d.rng.random(x.shape) < 0.5)
    pair = [x, operand(d, x)]
    return d.emit(op, condition, *(pair if d.chance(0.6) else pair[::-1]))


@rule("Where:condition", types=("bool",))
def condition(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x, d.constant(d.normal(*x.shape)), d.constant(np.float32(0)))
