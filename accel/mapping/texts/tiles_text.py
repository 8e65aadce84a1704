"""The tiles of each layer as text, and why these: what else was considered, and what limits them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

from accel.datapath.dataflow import PlanError
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.mapping.bounds import bound_of
from accel.mapping.plans.choices import Choices, Group, LayerPart
from accel.mapping.plans.text import pair_text, tiles_text as plan_text
from accel.mapping.schedules import (Shape, Tiles, all_that_fit, choose_together, cost_of,
                                     cost_together, misfit, most_threads, near, needs_of,
                                     next_larger, ranked_together, shape_of)
from accel.mapping.texts.layer_words import names_of
from compiler.texts import Part, PartedText, wrapped

OTHERS = 3
"""Other tiles that are listed."""


def tiles_text(machine: Machine, threads: int, groups: Sequence[Group]) -> PartedText:
    """A part for each group: how it is computed, what that costs by the formula, and why."""
    def lines(group: Group) -> Iterator[str]:
        if len(group) > 1:
            yield from _together(machine, threads, group)
        for part in group:
            yield from _layer(machine, threads, part)
            if len(group) == 1:
                yield from _chosen(machine, threads, part, len(groups) == 1)

    return PartedText([Part(names_of(group), lambda group=group: lines(group)) for group in groups])


def _together(machine: Machine, threads: int, group: Group) -> Iterator[str]:
    """Why two layers are computed at the same time, and with these tiles."""
    config, choices = machine.config, Choices(machine, threads)
    first, second = group
    shapes = shape_of(first.layer.operator), shape_of(second.layer.operator)
    rooms, mine = (first.room, second.room), (first.tiles, second.tiles)

    def text(pair: tuple[Tiles, Tiles]) -> str:
        cycles = cost_together(config, shapes, pair, threads).cycles
        return f"{pair_text(pair, threads)}, about {cycles:,} cycles"

    apart = " + ".join(f"{choices.alone(part.layer).cost.cycles:,}" for part in group)
    yield from wrapped(f"{first.layer.name} + {second.layer.name}, at the same time: {text(mine)}; "
                       f"one after the other {apart}", 0)
    own = choose_together(config, *shapes, threads, rooms)
    yield ("  chosen: the least traffic of those that take about the least cycles" if own == mine
           else "  chosen: by a plan or a search")
    for pair in ranked_together(config, *shapes, threads, rooms, 1 + OTHERS):
        if pair != mine:
            yield from wrapped(f"considered: {text(pair)}", 2)


def _layer(machine: Machine, threads: int, part: LayerPart) -> Iterator[str]:
    config, layer, shape = machine.config, part.layer, shape_of(part.layer.operator)
    yield f"{layer.name}: {plan_text(part.tiles, part.threads)}"
    yield from wrapped(f"of: {_shape_text(shape)}", 2)
    cost, stream = part.cost, layer.operator.stream
    unit = machine.unit_of(stream.name) if stream else "gemm" if shape.weighted else "vector"
    yield (f"  expected: about {cost.cycles:,} cycles; {unit} works {cost.work:,.0f}, the bus "
           f"{cost.traffic:,.0f}{_bound_text(machine, threads, part)}")
    yield from wrapped("takes: " + ", ".join(
        f"{need} of {have} entries of {name}" for name, need, have
        in needs_of(config, shape, part.tiles, part.threads, part.room)), 2)
    yield from _larger(machine, threads, part, shape)


def _shape_text(shape: Shape) -> str:
    """The fields of a shape that not all layers have alike."""
    return " ".join(f"{part.name}={_value_text(getattr(shape, part.name))}"
                    for part in fields(Shape) if getattr(shape, part.name) != part.default)


def _value_text(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _bound_text(machine: Machine, threads: int, part: LayerPart) -> str:
    if part.layer.operator.stream or machine.config.shared_bytes:
        return ""
    try:
        bound = bound_of(machine, part.layer, threads, Dram(latency=0))
    except PlanError:
        return ""
    return f"; no tiles take fewer than {bound.cycles:,}"


def _larger(machine: Machine, threads: int, part: LayerPart, shape: Shape) -> Iterator[str]:
    """Says of a larger tile in each direction, and of more threads, why not."""
    for name, tiles in next_larger(shape, part.tiles).items():
        reason = misfit(machine.config, shape, tiles, part.threads, part.room)
        if reason is None:
            cycles = cost_of(machine.config, shape, tiles, part.threads).cycles
            reason = f"fits, about {cycles:,} cycles"
        yield f"  with {name}={getattr(tiles, name)}: {reason}"
    most = threads if part.room else most_threads(shape, threads)
    if part.threads < most:
        reason = misfit(machine.config, shape, part.tiles, most, part.room)
        yield f"  with threads={most}: {reason or 'fits'}"


def _chosen(machine: Machine, threads: int, part: LayerPart, only: bool) -> Iterator[str]:
    """By whom the tiles were chosen, and what the formula ranks first."""
    config, shape = machine.config, replace(shape_of(part.layer.operator), only=only)
    own = Choices(machine, threads).cheapest(part.layer.operator, only)
    fitting = all_that_fit(config, shape, part.threads)
    if own == (part.tiles, part.threads):
        equals = len(near(config, shape, part.threads))
        least = f"the least traffic of {equals} that take about the least cycles"
        pieces = "" if equals else " in pieces, as none fits whole"
        yield (f"  chosen: of {len(fitting)} that fit{pieces}, "
               f"{least if equals > 1 else 'the cheapest'}")
    else:
        cycles = cost_of(config, shape, *own).cycles
        yield from wrapped(f"chosen: by a plan or a search; the formula has {plan_text(*own)}, "
                           f"about {cycles:,} cycles", 2)
    for tiles in [tiles for tiles in fitting if tiles != part.tiles][:OTHERS]:
        cost = cost_of(config, shape, tiles, part.threads)
        yield from wrapped(f"considered: {plan_text(tiles, part.threads)}, about {cost.cycles:,} "
                           f"cycles, the bus {cost.traffic:,.0f}", 2)
