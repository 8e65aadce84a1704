"""Schedules of layers that differ only in names, and in the numbers that vector computes with: zero
points, factors, bounds. All steps but those that choose vector's instructions are made once.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace

from accel.machine.machine import Machine
from accel.mapping.lowering import LoweringError
from accel.mapping.operators.blocked import BlockedOperator
from accel.mapping.schedules.layers import LayerSteps, placed, schedule
from accel.mapping.schedules.tiles import Tiles
from compiler.ir import Program
from compiler.ir.visit import map_exprs, writes
from compiler.schedule import Schedule
from compiler.te import Const, Expr, Reduce, rewrite, walk

KEPT = 256
"""Schedules that a process keeps, those that were used last."""

INDEX = "int64"
"""The type of numbers in indices, which steps may have used."""


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """A scheduled loop program, in which all names begin with `prefix`."""

    program: Program
    prefix: str

    def renamed(self, name: str, prefix: str) -> str:
        """The name that goes with another prefix."""
        return prefix + name.removeprefix(self.prefix)


_kept: OrderedDict[tuple[str, str, Tiles, int], LayerSteps] = OrderedDict()
_whole: OrderedDict[tuple[str, str, Tiles, int], NamedProgram] = OrderedDict()


def scheduled(machine: Machine, operator: BlockedOperator, tiles: Tiles,
              threads: int) -> NamedProgram:
    """The schedule of this operator, or of one that is equal but for its name, on this machine or
    on one with the same forms.
    """
    key = machine.forms_hash, text_of(operator, numbers=True), tiles, threads
    if key not in _whole:
        _whole[key] = _scheduled(machine, operator, tiles, threads)
        while len(_whole) > KEPT:
            _whole.popitem(last=False)
    _whole.move_to_end(key)
    return _whole[key]


def _scheduled(machine: Machine, operator: BlockedOperator, tiles: Tiles,
               threads: int) -> NamedProgram:
    """The schedule of this operator, or of one that differs in numbers, with its own."""
    key = machine.forms_hash, text_of(operator), tiles, threads
    if key not in _kept:
        _kept[key] = placed(machine, operator, tiles, threads)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    layer = copy(_kept[key])
    program = _with_numbers(layer, operator)
    if program is None:
        made = schedule(machine, operator, tiles, threads).program
        return NamedProgram(made, prefix_of(operator))
    layer.steps = Schedule(program)
    computed = layer.program_computed()
    if computed is None:
        layer.compute()                 # says what there is no instruction for
        computed = layer.steps.program
    return NamedProgram(computed, prefix_of(layer.operator))


def require_instructions(machine: Machine, operator: BlockedOperator, tiles: Tiles,
                         threads: int) -> None:
    """Refuses an operator of which the machine has no instruction for some step. Of operators that
    differ in numbers alone, such as extents, the first is tried.
    """
    key = machine.hash, re.sub(r"[0-9]+", "#", text_of(operator))
    if key not in _tried:
        _tried[key] = _lacks(machine, operator, tiles, threads)
        while len(_tried) > KEPT:
            _tried.popitem(last=False)
    if _tried[key]:
        raise LoweringError(_tried[key])


_tried: OrderedDict[tuple[str, str], str] = OrderedDict()


def _lacks(machine: Machine, operator: BlockedOperator, tiles: Tiles, threads: int) -> str:
    try:
        scheduled(machine, operator, tiles, threads)
    except LoweringError as error:
        return str(error)
    return ""


def prefix_of(operator: BlockedOperator) -> str:
    """The text that the names of its stages begin with."""
    return operator.output.name.removesuffix("output")


def _computed(operator: BlockedOperator) -> tuple[str, ...]:
    """The stages whose numbers are left out of `_text`."""
    return tuple(role for role in (*operator.accumulators, "quantized")
                 if role != "acc" and isinstance(operator[role].body, Expr)
                 and not isinstance(operator[role].body, Reduce))


def text_of(operator: BlockedOperator, numbers: bool = False) -> str:
    """The operator without its name, and without the numbers that may differ unless told."""
    loose = set() if numbers else set(_computed(operator))
    stages = (re.sub(rf"Const\(value=[^,()]+, (?!dtype='{INDEX}')", "Const(", repr(tensor))
              if role in loose else repr(tensor) for role, tensor in operator.stages.items())
    rest = repr(replace(operator, stages={}))
    return "\n".join((*operator.stages, *stages, rest)).replace(f"'{prefix_of(operator)}", "'")


def _with_numbers(layer: LayerSteps, operator: BlockedOperator) -> Program | None:
    """The layer's program with the numbers of another operator of the same text; None where it is
    not certain which is which.
    """
    program = layer.steps.program
    changed: dict[str, tuple[list[Const], list[Const]]] = {}
    for role in _computed(operator):
        mine, theirs = (list(_numbers(_value(one, role))) for one in (operator, layer.operator))
        if mine != theirs:
            changed[layer.operator[role].name] = theirs, mine
    new: dict[int, Const] = {}              # by identity: what a node becomes
    for write in writes(program.body):
        before, after = changed.get(write.buffers[0].name, ([], []))
        nodes = list(_numbers(*write.values)) if before else []
        if nodes != before:
            return None
        for node, number in zip(nodes, after, strict=True):
            if new.setdefault(id(node), number) != number:
                return None
    return replace(program, body=map_exprs(
        program.body, lambda expr: rewrite(expr, lambda node: new.get(id(node)))))


def _value(operator: BlockedOperator, role: str) -> Expr:
    body = operator[role].body
    assert isinstance(body, Expr)
    return body


def _numbers(*values: Expr) -> Iterator[Const]:
    """The numbers in expressions, but those of indices."""
    for value in values:
        yield from (node for node in walk(value)
                    if isinstance(node, Const) and node.dtype != INDEX)
