"""What each instruction of the machine did in a compiled network, and the area of idle ones."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from accel.datapath.dataflow import PlanError
from accel.estimates.area import area
from accel.machine.config import ConfigError
from accel.machine.machine import Machine
from accel.machine.rules import DeclarationError
from accel.mapping.answers.instructions import answers
from compiler.graph.division.partition import subgraph
from runtime.module import Module

__all__ = ["idle_lines", "instruction_rows", "luts_of"]


def instruction_rows(module: Module, machine: Machine) -> list[dict[str, Any]]:
    """The answer of each instruction of gemm and of vector as plain data
    (`accel.mapping.answers.instructions.InstructionAnswer`), with `luts`: what one of the machine's
    own takes that is never executed, else None.
    """
    steps = [step for step in module.steps if step.execute.program is not None]
    found = answers(machine, [one.program for one in module.accelerated if one.program is not None],
                    module.graph, [subgraph(module.graph, step.segment) for step in steps])
    return [{**asdict(one), "luts": luts_of(machine, one.name) if one.own and one.reason else None}
            for one in found]


def luts_of(machine: Machine, name: str) -> int | None:
    """The estimated LUTs that a machine is larger by for one of its instructions; None where there
    is no such machine without it.
    """
    try:
        without = Machine(machine.config, tuple(one for one in machine.declarations
                                                if one.name != name))
        return max(round(area(machine).luts.value - area(without).luts.value), 0)
    except (ConfigError, DeclarationError, PlanError):
        return None


def idle_lines(rows: Iterable[Mapping[str, Any]], shipped: bool = False) -> Iterator[str]:
    """A sentence for each instruction that is never executed: the machine's own, and others if
    `shipped`.
    """
    for row in rows:
        if row["reason"] and (shipped or row["own"]):
            spent = f" ({row['luts']:,} LUTs for nothing, estimated)" if row["luts"] else ""
            yield f"never executed: {row['name']}{spent}: {row['reason']}"
