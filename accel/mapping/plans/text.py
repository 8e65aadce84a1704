"""Plans of the accelerator as text: the tiles of one layer, or of two computed together.

::

    rows=14 columns=14 channels=2 depth=4 stationary=w threads=2    a layer
    rows=1 columns=1 channels=1 depth=1 pieces=7 threads=2          a pool: its window in pieces
    apart                                                           two layers, one after the other
    rows=... ; rows=... / rows=... ; ...                            all layers of a stream
    rows=... threads=2 / rows=... threads=2                         two layers together
"""

from collections.abc import Sequence
from dataclasses import MISSING, fields

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.lowering import Room
from accel.mapping.operators.blocked import BlockedOperator
from accel.mapping.schedules import Shape, Tiles, follows, misfit, shape_of
from compiler.native import digest
from compiler.plans import PlanRefused, Task

APART = "apart"
NEXT = ";"
STATIONARY = ("", "w", "input")


def layer_task(fingerprint: str, operator: BlockedOperator, threads: int) -> Task:
    """The task of a layer. Layers of one shape are one task, whatever their names."""
    return Task(fingerprint, digest(["layer", described(operator), str(threads)]),
                f"layer {described(operator)}")


def pair_task(fingerprint: str, first: BlockedOperator, second: BlockedOperator, threads: int
              ) -> Task:
    both = [described(first), described(second)]
    return Task(fingerprint, digest(["pair", *both, str(threads)]), f"layers {' and '.join(both)}")


def stream_task(machine: Machine, layers: Sequence[MappedLayer], threads: int) -> Task:
    """The task of all layers of a stream, as a search measures them: with the machine's memory."""
    texts = [described(layer.operator) for layer in layers]
    return Task(machine.hash, digest(["stream", *texts, str(threads),
                                      repr(machine.config.memory)]),
                f"stream of {len(layers)} layers, {layers[0].name} to {layers[-1].name}")


def described(operator: BlockedOperator) -> str:
    """Text of all that the tiles of a layer depend on."""
    shape = shape_of(operator)
    gathered = f", {shape.gathered} blocks of channels in each" if shape.gathered else ""
    packed = f", weights of {operator.weight_bits} bits" if operator.weight_bits < 8 else ""
    several = f", in {shape.passes} passes" if shape.passes > 1 else ""
    own = (f", by {operator.by['acc']} in {shape.passes} passes of {shape.weights} elements"
           if shape.weights else several)
    step = f", each {shape.step} elements further" if shape.step else ""
    by = (f", by {operator.stream.name} in {shape.row_cycles} cycles a row" if operator.stream
          else "")
    planes = f", sums in {shape.planes} elements" if shape.planes else ""
    factors = f", {shape.scales} factors of groups" if shape.scales else ""
    return (f"{', '.join(operator.stages)} of {shape}{gathered}{packed}{own}{factors}{step}"
            f"{planes}{by}")


def tiles_text(tiles: Tiles, threads: int) -> str:
    numbers = {field.name: getattr(tiles, field.name) for field in fields(Tiles)
               if field.default == MISSING or getattr(tiles, field.name) != field.default}
    return " ".join(f"{name}={value}" for name, value in {**numbers, "threads": threads}.items())


def tiles_from(text: str, config: AccelConfig, shape: Shape, most_threads: int, room: Room
               ) -> tuple[Tiles, int]:
    """Parse tiles and virtual threads of a layer. Raises PlanRefused for text that is no such plan,
    and for tiles that the layer or the machine cannot have.
    """
    words = [word.partition("=") for word in text.split()]
    given = {"pieces": "1"} | {name: value for name, _, value in words}
    numbers = {name: given.get(name, "") for name in ("rows", "columns", "channels", "depth",
                                                      "threads", "pieces")}
    stationary, by_rows = given.get("stationary", ""), given.get("by_rows", "False")
    if (len({name for name, _, _ in words}) < len(words)        # nothing twice
            or not all(number.isdecimal() for number in numbers.values())
            or stationary not in STATIONARY or by_rows not in ("False", "True")
            or not given.keys() <= {*numbers, "stationary", "by_rows"}):
        raise PlanRefused(f"Plan of a layer must be like 'rows=4 columns=4 channels=2 depth=1 "
                          f"stationary=w threads=2', not {text!r}")
    rows, columns, channels, depth, threads, pieces = map(int, numbers.values())
    tiles = Tiles(rows, columns, channels, depth, stationary, pieces, by_rows == "True")
    if not 1 <= threads <= most_threads:
        raise PlanRefused(f"Plan {text!r}: threads must be from 1 to {most_threads}")
    if reason := misfit(config, shape, tiles, threads, room):
        raise PlanRefused(f"Plan {text!r}: {reason}")
    return tiles, threads


def pair_text(tiles: tuple[Tiles, Tiles] | None, threads: int) -> str:
    return " / ".join(tiles_text(layer_tiles, threads) for layer_tiles in tiles) if tiles else APART


def pair_of(text: str, config: AccelConfig, shapes: tuple[Shape, Shape], threads: int,
            rooms: tuple[Room, Room]) -> tuple[Tiles, Tiles] | None:
    """Parse the tiles of both layers; None where they are computed apart. Raises PlanRefused as
    `tiles_from` does, and where tiles of the second are not parts of those of the first.
    """
    if text.strip() == APART:
        return None
    parts = text.split("/")
    if len(parts) != 2:
        raise PlanRefused(f"Plan of two layers must be {APART!r} or the tiles of both with '/' "
                          f"between them, not {text!r}")
    plans = [tiles_from(part, config, shape, threads, room)
             for part, shape, room in zip(parts, shapes, rooms, strict=True)]
    if {count for _, count in plans} != {threads}:
        raise PlanRefused(f"Plan {text!r}: threads of layers that are computed together must be "
                          f"{threads}")
    (first, _), (second, _) = plans
    if not follows(shapes, first, second):
        raise PlanRefused(f"Plan {text!r}: tiles of the second layer must be parts of those of the "
                          f"first")
    return first, second
