"""The table of drawing rules: how a node of each ONNX operator that reads a value is drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import onnx

from bench.values.draw import Drawer, Unfit, Value
from bench.values.reference import OPSET

__all__ = ["QUANTIZED", "RULES", "TYPES", "Rule", "allows", "allows_any", "rule"]

QUANTIZED = ("int8", "uint8", "int16", "uint16")
TYPES = (*QUANTIZED, "float32")
"""Types of what movers move."""

Draw = Callable[[Drawer, Value, str], Value]


@dataclass(frozen=True, slots=True)
class Rule:
    """``draw(drawer, value, op)`` adds nodes of which the first reads the value, and gives what
    they make; it raises Unfit where it cannot. `kind` is the kind of reader. A mover gives the
    elements that it reads. `types` are those that it can read, where they are fewer than ONNX's.
    """

    op: str
    kind: str
    draw: Draw
    moves: bool = False
    types: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    operand: int = 0

    def reads(self, dtype: str) -> bool:
        return (not self.types or dtype in self.types) and allows(self.op, dtype, self.operand)


RULES: dict[str, Rule] = {}
"""By the name of the rule: that of the operator, and a word behind it where it has several."""


def rule(*names: str, moves: bool = False, types: tuple[str, ...] = (),
         ranks: tuple[int, ...] = (), operand: int = 0) -> Callable[[Draw], Draw]:
    """Registers the function for these operators, ``Operator`` or ``Operator:case``; its name is
    the kind of reader. `operand`: the place of the input that reads the value.
    """
    def register(draw: Draw) -> Draw:
        for name in names:
            op = name.partition(":")[0]
            kind = "mover" if moves else draw.__name__
            RULES[name] = Rule(op, kind, draw, moves, types, ranks, operand)
        return draw
    return register


@lru_cache(1024)
def allows(op: str, dtype: str, operand: int = 0) -> bool:
    """Whether the operator takes this type there, as its schema has it."""
    schema = onnx.defs.get_schema(op, OPSET)
    name = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    return f"tensor({name})" in schema.inputs[min(operand, len(schema.inputs) - 1)].types


def allows_any(op: str, dtype: str) -> None:
    """Unfit where the operator does not take the type."""
    if not allows(op, dtype):
        raise Unfit(f"{op} does not take {dtype}")
