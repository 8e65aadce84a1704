"""Chooses tiles and virtual threads of a segment's layers, and which two run at the same time.

A plan says so, else the closed formula of `accel.mapping.schedules.ranking` does; `search.py` asks
the simulator.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

from accel.machine.machine import Machine
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.lowering import LoweringError, Room
from accel.mapping.operators.blocked import BlockedOperator
from accel.mapping.plans.interleave import halves
from accel.mapping.plans.text import (NEXT, layer_task, pair_of, pair_task, pair_text, tiles_from,
                                      tiles_text)
from accel.mapping.schedules import (Cost, Tiles, choose_together, cost_of, cost_together,
                                     most_threads, ranked, ranked_together, shape_of, tiles_of)
from compiler.plans import OWN, PlanRefused, Plans, replayed

KEPT = 4096
"""Choices of tiles that a process keeps."""

Chosen = TypeVar("Chosen")


@dataclass(frozen=True)
class LayerPart:
    """A layer's tiles and virtual threads, and the `room` in the buffers that it may use."""

    layer: MappedLayer
    room: Room = field(hash=False)
    tiles: Tiles
    threads: int
    cost: Cost


Group = tuple[LayerPart, ...]
"""A layer, or two that are computed at the same time."""


@dataclass(frozen=True)
class Choices:
    """The choices of one machine; at most `threads` virtual threads."""

    machine: Machine
    threads: int
    plans: Plans = OWN

    def groups(self, layers: Sequence[MappedLayer], whole: bool = True) -> list[Group]:
        """Group layers, the `whole` program's or some of it: each alone, or with the next one where
        that has no products and the formula expects both together to take less time.
        """
        groups: list[Group] = []
        for layer in layers:
            part = self.alone(layer, only=whole and len(layers) == 1)
            pair = self._pair(groups[-1][0], part) if groups and len(groups[-1]) == 1 else ()
            if pair:
                groups[-1] = pair
            else:
                groups.append((part,))
        return groups

    def cheapest(self, operator: BlockedOperator, only: bool = False) -> tuple[Tiles, int]:
        """`tiles_of`, once for layers of one shape."""
        return _once(("tiles", self.machine.hash, shape_of(operator), self.threads, only),
                     lambda: tiles_of(self.machine, operator, self.threads, only))

    def alone(self, layer: MappedLayer, only: bool = False) -> LayerPart:
        """A layer, which may be the `only` one of its program, by the plan, else with the cheapest
        tiles by the formula.
        """
        try:
            tiles, threads = self._tiles(layer.operator, only)
        except LoweringError as error:
            raise LoweringError(f"{layer.name}: {error}") from None
        return self.part(layer, {}, tiles, threads, only)

    def part(self, layer: MappedLayer, room: Room, tiles: Tiles, threads: int, only: bool = False
             ) -> LayerPart:
        shape = replace(shape_of(layer.operator), only=only)
        return LayerPart(layer, room, tiles, threads,
                         cost_of(self.machine.config, shape, tiles, threads))

    def others(self, layer: MappedLayer, most: int) -> list[Group]:
        """A layer in the ways that the formula ranks first, for every number of threads."""
        def found(threads: int) -> list[Tiles]:
            shape = shape_of(layer.operator)
            return _once(("ranked", self.machine.hash, shape, threads, most),
                         lambda: ranked(self.machine.config, shape, threads, most))

        own = range(self.threads, 0, -1)
        counts = dict.fromkeys((most_threads(shape_of(layer.operator), self.threads), *own))
        return [(self.part(layer, {}, tiles, threads),)
                for threads in counts for tiles in found(threads)]

    def pairs(self, first: MappedLayer, second: MappedLayer, most: int) -> list[Group]:
        """Two layers at the same time, in the ways that the formula ranks first; none where they
        cannot be.
        """
        if not self._may_share(first, second):
            return []
        rooms = self._rooms(first, second)
        shapes = shape_of(first.operator), shape_of(second.operator)
        found = _once(("pairs", self.machine.hash, shapes, self.threads, most), lambda: (
            ranked_together(self.machine.config, *shapes, self.threads, rooms, most)))
        return [self._together(first, second, tiles) for tiles in found]

    def groups_of(self, text: str, layers: Sequence[MappedLayer]) -> list[Group]:
        """The groups that `groups_text` gave for these layers, or for equal ones. Raises
        PlanRefused for another text, and for tiles that a layer or the machine cannot have.
        """
        groups: list[Group] = []
        left, config = list(layers), self.machine.config
        for plan in text.split(NEXT):
            count = 1 + plan.count("/")
            mine, left = left[:count], left[count:]
            if len(mine) < count:
                raise PlanRefused(f"Plan of {len(layers)} layers must not have more, as {text!r}")
            if count == 1:
                shape = shape_of(mine[0].operator)
                tiles, threads = tiles_from(plan, config, shape,
                                            most_threads(shape, self.threads), {})
                groups.append((self.part(mine[0], {}, tiles, threads),))
                continue
            first, second = mine
            shapes = shape_of(first.operator), shape_of(second.operator)
            pair = pair_of(plan, config, shapes, self.threads, self._rooms(first, second))
            groups.append(self._together(first, second, pair) if pair else ())
        if left or sum(map(len, groups)) != len(layers):
            raise PlanRefused(f"Plan of {len(layers)} layers must have tiles for each, not "
                              f"{text!r}")
        return groups

    def _together(self, first: MappedLayer, second: MappedLayer,
                  tiles: tuple[Tiles, Tiles]) -> Group:
        return tuple(self.part(layer, room, its, self.threads) for layer, room, its in zip(
            (first, second), self._rooms(first, second), tiles, strict=True))

    def _rooms(self, first: MappedLayer, second: MappedLayer) -> tuple[Room, Room]:
        """Halves of the buffers that two layers share."""
        operator = second.operator
        return halves(self.machine.config, [*["out"] * (operator.stream is None),
                                            *["acc"] * bool(operator.accumulators),
                                            *["par"] * bool(operator.parameters),
                                            *["res"] * bool(first.operator.residuals
                                                            or first.operator.scales)])

    def are_bound(self, layers: Sequence[MappedLayer]) -> bool:
        """True if a plan binds a layer, or two in a row."""
        if self.plans is OWN:
            return False
        of_machine, operators = self.machine.hash, [layer.operator for layer in layers]
        tasks = [*(layer_task(of_machine, one, self.threads) for one in operators),
                 *(pair_task(of_machine, *two, self.threads) for two in pairwise(operators))]
        return any(map(self.plans.binds, tasks))

    def _may_share(self, first: MappedLayer, second: MappedLayer) -> bool:
        return (self.threads > 1 and "w" in first.operator.stages
                and "w" not in second.operator.stages and not second.operator.across)

    def _tiles(self, operator: BlockedOperator, only: bool) -> tuple[Tiles, int]:
        """The tiles and virtual threads of the plan, else the cheapest by our formula."""
        if self.plans is OWN:
            return self.cheapest(operator, only)

        def made(plan: str | None) -> tuple[Tiles, int]:
            shape = shape_of(operator)
            return self.cheapest(operator, only) if plan is None else tiles_from(
                plan, self.machine.config, shape, most_threads(shape, self.threads), {})

        return replayed(self.plans, layer_task(self.machine.hash, operator, self.threads),
                        lambda: tiles_text(*self.cheapest(operator, only)), made)

    def _pair(self, first: LayerPart, second: LayerPart) -> Group:
        """Both layers with halves of the buffers that they share; () where that gains nothing."""
        if not self._may_share(first.layer, second.layer):
            return ()
        tiles = self._tiles_together(first, second, self._rooms(first.layer,
                                                                         second.layer))
        return self._together(first.layer, second.layer, tiles) if tiles else ()

    def _tiles_together(self, first: LayerPart, second: LayerPart, rooms: tuple[Room, Room]
                        ) -> tuple[Tiles, Tiles] | None:
        """The tiles of the plan, else the cheapest by our formula where both layers together cost
        less than one after the other; None where they are computed apart.
        """
        config = self.machine.config
        shapes = shape_of(first.layer.operator), shape_of(second.layer.operator)

        def own() -> tuple[Tiles, Tiles] | None:
            pair = _once(("pair", self.machine.hash, shapes, self.threads),
                         lambda: choose_together(config, *shapes, self.threads, rooms))
            if pair is None:
                return None
            apart = first.cost.cycles + second.cost.cycles
            together = cost_together(config, shapes, pair, self.threads).cycles
            return pair if together < apart else None

        if self.plans is OWN:
            return own()
        task = pair_task(self.machine.hash, first.layer.operator, second.layer.operator,
                         self.threads)
        return replayed(self.plans, task, lambda: pair_text(own(), self.threads), lambda plan: (
            own() if plan is None else pair_of(plan, config, shapes, self.threads, rooms)))


def groups_text(groups: Sequence[Group]) -> str:
    """The tiles of groups of layers as a plan."""
    return f" {NEXT} ".join(" / ".join(tiles_text(part.tiles, part.threads) for part in group)
                            for group in groups)


def _once(key: Hashable, choose: Callable[[], Chosen]) -> Chosen:
    """Calls `choose` once for a key, and keeps its result or its refusal."""
    if key not in _chosen:
        try:
            _chosen[key] = choose()
        except LoweringError as error:
            _chosen[key] = error
        while len(_chosen) > KEPT:
            _chosen.pop(next(iter(_chosen)))
    if isinstance(_chosen[key], LoweringError):
        raise _chosen[key]
    return _chosen[key]


_chosen: dict[Hashable, Any] = {}
