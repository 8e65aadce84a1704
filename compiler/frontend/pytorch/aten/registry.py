"""Operators of ATen as functions: the table, element types, and how a node's arguments are read.

An operator is one function. Its first parameter is the importer. Then follow ATen's arguments in
ATen's order with ATen's defaults; keyword-only arguments keep their names::

    @aten("add.Tensor", "add.Scalar")
    def add(t, x, other, *, alpha=1):

A name without an overload stands for every overload that has no entry of its own. Tensors come as
values, symbolic sizes as the integers that they are bound to, element types by our names. Results
are one value, or a tuple where the node has several.
"""

from collections.abc import Callable, Sequence
from typing import Any

from compiler.frontend.building.values import NodeRefused, Value
from compiler.te import is_float

Rule = Callable[..., Any]
OPERATORS: dict[str, Rule] = {}
"""Rules by operator name, with the overload where overloads differ."""

REFUSED: set[str] = set()
"""Operators that are refused: a reason in place of a rule."""

UNCHANGING = {"fused_moving_avg_obs_fake_quant"}
"""Operators that write in place by their schema, and whose rules refuse them where they do."""


def aten(*names: str) -> Callable[[Rule], Rule]:
    """Registers a function for operators of these names."""
    def register(rule: Rule) -> Rule:
        OPERATORS.update(dict.fromkeys(names, rule))
        return rule
    return register


def find(name: str) -> Rule | None:
    """The rule of an operator with its overload, ``add.Tensor``; None where there is none."""
    return OPERATORS.get(name) or OPERATORS.get(name.partition(".")[0])


def refuse(*names: str, why: str) -> None:
    """Registers operators that cannot be imported, with the reason."""
    def refused(t, *arguments, **options):
        raise NodeRefused(why)
    aten(*names)(refused)
    REFUSED.update(names)


# Element types: torch.result_type, for any number of operands

ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
         "float64")


def promoted(*operands: Any) -> str:
    """The type in which these operands are computed. Within a kind (bool, integer, float) tensors
    with dimensions decide, then tensors without, then numbers.
    """
    groups: list[str | None] = [None, None, None]
    for operand in operands:
        place = 2 if not isinstance(operand, Value) else 1 if operand.rank == 0 else 0
        dtype = operand.dtype if isinstance(operand, Value) else _type_of_number(operand)
        before = groups[place]
        groups[place] = dtype if before is None else _wider(before, dtype)
    first, *rest = [dtype for dtype in groups if dtype is not None]
    for dtype in rest:
        if _kind(dtype) > _kind(first):
            first = _wider(first, dtype)
    return first


def _type_of_number(number: Any) -> str:
    return "bool" if isinstance(number, bool) else "int64" if isinstance(number, int) else "float32"


def _kind(dtype: str) -> int:
    return 2 if is_float(dtype) else int(dtype != "bool")


def _wider(a: str, b: str) -> str:
    """torch.promote_types."""
    if a == b:
        return a
    if a not in ORDER or b not in ORDER:
        raise NodeRefused(f"its element types must have a common one, not {a} and {b}")
    if {a, b} == {"uint8", "int8"}:
        return "int16"
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    return max(a, b, key=ORDER.index)


def in_kind(x: Value, dtype: str = "float32") -> Value:
    """Converts integers to floats, for functions that take floats alone."""
    return x if is_float(x.dtype) else x.astype(dtype)


def numbers(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """Returns one number for each axis; ATen accepts a single number for all."""
    many = (value,) if isinstance(value, int) else tuple(value)
    return many * count if len(many) == 1 else many
