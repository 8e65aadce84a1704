"""Tells what each instruction of a machine did in a network, and the area of idle ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from accel.datapath.dataflow import PlanError
from accel.estimates.area import area
from accel.machine.config import ConfigError
from accel.machine.machine import Machine
from accel.machine.rules import DeclarationError
from accel.answers.instructions import answers
from accel.mapping.spreading import twins
from compiler.graph.division.partition import subgraph
from runtime.module import Module


def instruction_rows(module: Module, machine: Machine) -> list[dict[str, Any]]:
    """The answer of each instruction of gemm and of vector as plain data
    (`accel.answers.instructions.InstructionAnswer`), with `luts`: what one of the machine's
    own takes that is never executed, else None.
    """
    steps = [step for step in module.steps if step.execute.program is not None]
    found = answers(machine, [one.program for one in module.accelerated if one.program is not None],
                    module.graph, [subgraph(module.graph, step.segment) for step in steps],
                    module.partition.stay)
    idle = [one.name for one in found if one.own and one.reason]
    spent = dict(zip(idle, luts_of(machine, idle), strict=True))
    return [{**asdict(one), "luts": spent.get(one.name)} for one in found]


def luts_of(machine: Machine, names: Sequence[str]) -> Iterator[int | None]:
    """The estimated LUTs that a machine is larger by for each of these instructions, on all units
    that have it; None where there is no such machine without it.
    """
    whole = _luts(machine, ()) if names else None
    for name in names:
        without = _luts(machine, (name, *(twin for twin, meant in twins(machine).items()
                                          if meant == name)))
        yield None if whole is None or without is None else max(round(whole - without), 0)


def _luts(machine: Machine, left_out: Sequence[str]) -> float | None:
    try:
        return area(Machine(machine.config, tuple(
            one for one in machine.declarations if one.name not in left_out))).luts.value
    except (ConfigError, DeclarationError, PlanError):
        return None


def idle_lines(rows: Iterable[Mapping[str, Any]], shipped: bool = False) -> Iterator[str]:
    """A sentence for each instruction that is never executed: the machine's own, and others if
    `shipped`.
    """
    for row in rows:
        if row["reason"] and (shipped or row["own"]):
            yield f"never executed: {row['name']}{spent(row)}: {row['reason']}"


def spent(row: Mapping[str, Any]) -> str:
    """The area that an idle instruction takes, in parentheses; "" where it is not known, or none.
    """
    return f" ({row['luts']:,} LUTs for nothing, estimated)" if row["luts"] else ""
