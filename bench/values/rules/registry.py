"""The table of drawing rules: how a node of each ONNX operator that reads a value is drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import onnx

from bench.values.draw import Drawer, Unfit, Value
from bench.values.reference import OPSET

QUANTIZED = ("int8", "uint8", "int16", "uint16")
TYPES = (*QUANTIZED, "float32")
"""Types of what movers move."""

ALL_RANKS = tuple(range(7))
ROWS = ALL_RANKS[1:]
MATRICES = ALL_RANKS[2:]
Draw = Callable[[Drawer, Value, str], Value]


@dataclass(frozen=True, slots=True)
class Rule:
    """``draw(drawer, value, op)`` adds nodes of which the first reads the value, and gives what
    they make; it raises Unfit where it cannot. `kind` is the kind of reader. A mover gives the
    elements that it reads. `types` and `ranks` are those that it can read, all that ONNX allows
    unless told; a rank stands there twice that is drawn twice as often. A mover that does not keep
    the rank gives one of `gives`.
    """

    op: str
    kind: str
    draw: Draw
    moves: bool = False
    types: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ALL_RANKS
    operand: int = 0
    gives: tuple[int, ...] = ()

    def reads(self, dtype: str) -> bool:
        return (not self.types or dtype in self.types) and allows(self.op, dtype, self.operand)

    def drawn(self, d: Drawer, x: Value) -> Value:
        """What nodes make that read the value; Unfit where its type or rank is none of ours."""
        if x.rank not in self.ranks or not self.reads(x.dtype):
            raise Unfit(f"{self.op} does not read {x.dtype}{list(x.shape)} here")
        return self.draw(d, x, self.op)


RULES: dict[str, Rule] = {}
"""By the name of the rule: that of the operator, and a word behind it where it has several."""


def rule(*names: str, moves: bool = False, types: tuple[str, ...] = (),
         ranks: tuple[int, ...] = ALL_RANKS, operand: int = 0, gives: tuple[int, ...] = ()
         ) -> Callable[[Draw], Draw]:
    """Registers the function for these operators, ``Operator`` or ``Operator:case``; its name is
    the kind of reader. `operand`: the place of the input that reads the value.
    """
    def register(draw: Draw) -> Draw:
        for name in names:
            op = name.partition(":")[0]
            kind = "mover" if moves else draw.__name__
            RULES[name] = Rule(op, kind, draw, moves, types, ranks, operand, gives or ranks)
        return draw
    return register


@lru_cache(None)
def readers(dtype: str) -> tuple[Rule, ...]:
    """Rules that read values of the type."""
    return tuple(rule for rule in RULES.values() if rule.reads(dtype))


@lru_cache(1024)
def allows(op: str, dtype: str, operand: int = 0) -> bool:
    """Whether the operator takes this type there, as its schema has it."""
    inputs = onnx.defs.get_schema(op, OPSET).inputs
    return _in_schema(dtype, inputs[min(operand, len(inputs) - 1)])


def gives(op: str, dtype: str) -> bool:
    """Whether the operator can give this type, as its schema has it."""
    return _in_schema(dtype, onnx.defs.get_schema(op, OPSET).outputs[0])


def _in_schema(dtype: str, parameter: onnx.defs.OpSchema.FormalParameter) -> bool:
    name = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    return f"tensor({name})" in parameter.types


def allows_any(op: str, dtype: str) -> None:
    """Unfit where the operator does not take the type."""
    if not allows(op, dtype):
        raise Unfit(f"{op} does not take {dtype}")
