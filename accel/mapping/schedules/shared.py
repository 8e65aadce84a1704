"""Schedules of layers that differ only in their names: made once."""

from collections import OrderedDict
from dataclasses import dataclass

from accel.machine.machine import Machine
from accel.mapping.operators.blocked import BlockedOperator
from accel.mapping.schedules.layers import schedule
from accel.mapping.schedules.tiles import Tiles
from compiler.ir import Program

__all__ = ["NamedProgram", "prefix_of", "scheduled"]

KEPT = 256
"""Schedules that a process keeps, those that were used last."""


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """A scheduled loop program, in which all names begin with `prefix`."""

    program: Program
    prefix: str

    def renamed(self, name: str, prefix: str) -> str:
        """The name that goes with another prefix."""
        return prefix + name.removeprefix(self.prefix)


_kept: OrderedDict[tuple[str, str, Tiles, int], NamedProgram] = OrderedDict()


def scheduled(machine: Machine, operator: BlockedOperator, tiles: Tiles,
              threads: int) -> NamedProgram:
    """The schedule of this operator, or of one that is equal but for its name."""
    prefix = prefix_of(operator)
    key = machine.hash, repr(operator).replace(f"'{prefix}", "'"), tiles, threads
    if key not in _kept:
        _kept[key] = NamedProgram(schedule(machine, operator, tiles, threads).program, prefix)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]


def prefix_of(operator: BlockedOperator) -> str:
    """What the names of its stages begin with."""
    return operator.output.name.removesuffix("output")
