"""Checks that type rules of operators have in common."""

from collections.abc import Callable, Sequence

from compiler.errors import DEFECT, Error
from compiler.ops.records.node import Node, TensorType

Types = Sequence[TensorType]
TypeRule = Callable[[Node, Types], TensorType]


class TypeRefused(Error, ValueError):
    """An operator's inputs or attributes contradict its rule."""

    exit_status = DEFECT


def need(holds: bool, node: Node, sentence: str) -> None:
    """Refuses the node with the sentence unless it holds."""
    if not holds:
        raise TypeRefused(f"{node.name}: {sentence}")


def need_arity(node: Node, types: Types, *counts: int) -> None:
    """Refuses a number of inputs that is not in `counts`."""
    wanted = " or ".join(map(str, counts))
    need(len(types) in counts, node, f"{node.op} must have {wanted} inputs, not {len(types)}")


def need_dtype(node: Node, types: Types, dtype: str) -> None:
    """Refuses inputs of other element types."""
    for name, type_ in zip(node.inputs, types, strict=True):
        need(type_.dtype == dtype, node, f"input {name!r} must be {dtype}, not {type_.dtype}")


def need_factors(node: Node, types: Types) -> None:
    """Refuses inputs that are no factors of sums in float32, the first two: both float32, float16
    or bfloat16; others are float32.
    """
    need(types[0].dtype in ("float32", "float16", "bfloat16"), node,
         f"input {node.inputs[0]!r} must be float32, float16 or bfloat16, not {types[0].dtype}")
    for name, type_, wanted in zip(node.inputs, types, (types[0].dtype,) * 2 + ("float32",) * len(
            types)):
        need(type_.dtype == wanted, node, f"input {name!r} must be {wanted}, not {type_.dtype}")


def need_rank(node: Node, which: int, type_: TensorType, rank: int) -> None:
    """Refuses the input number `which` if it has not so many dimensions."""
    name = node.inputs[which]
    need(len(type_.shape) == rank, node,
         f"input {name!r} must have {rank} dimensions, not {type_}")


def of_stored(rule: TypeRule) -> TypeRule:
    """The rule of an operator on one tensor in stored form."""
    def checked(node: Node, types: Types) -> TensorType:
        need_arity(node, types, 1)
        need(types[0].dtype in ("int8", "int16"), node,
             f"input {node.inputs[0]!r} must be int8 or int16, not {types[0].dtype}")
        return rule(node, types)
    return checked
