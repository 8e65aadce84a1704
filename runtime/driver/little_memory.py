"""Compiles a step of training so that its activations take no more memory than they may."""

from collections.abc import Callable

from compiler.errors import ArgumentError
from compiler.gradients.memory import LittleMemory
from compiler.gradients.steps import TrainingStep
from compiler.graph.graph import Graph
from runtime.module import Module

TRIES = 8
CLOSER = 0.98


def compiled_within(step: TrainingStep, memory: int, compile: Callable[[Graph], Module]
                    ) -> tuple[TrainingStep, Module]:
    """The step that computes least twice of those whose module's plan has at most `memory` bytes.

    What is estimated of a choice is compared with its plan, and the next choice corrected by that.
    Raises ArgumentError where no known way takes so little.
    """
    ways, budget, least = LittleMemory(step), float(memory), float("inf")
    for _ in range(TRIES):
        made = ways.within(budget) or ways.within(ways.least)
        assert made is not None
        module = compile(made.graph)
        taken = arena_bytes(module)
        if taken <= memory:
            return made, module
        least = min(least, taken)
        if budget <= ways.least:
            break
        budget = max(budget * CLOSER * memory / taken, ways.least)
    raise ArgumentError(f"memory must be at least the {least:,.0f} bytes that activations of "
                        f"{step.graph.name} take where most is computed twice, not {memory:,}")


def arena_bytes(module: Module) -> int:
    """The bytes in which a module computes what is neither its input nor its output."""
    return max((plan.size for step in module.steps
                if (plan := getattr(step.compiled, "plan", None)) is not None), default=0)
