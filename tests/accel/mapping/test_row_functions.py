"""Functions of rows on a machine that declares reductions over lanes."""

import re
import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import lockstep
from accel.machine.intrinsics import SHIPPED
from accel.mapping import layers
from accel.mapping.builders.row_layers import row_function_ways
from accel.mapping.layers import build_layers, forms_of
from accel.mapping.lowering import LoweringError
from accel.mapping.operators.blocked import Blocks
from accel.mapping.schedules import prefix_of, schedule, scheduled, shape_of, tiles_of
from accel.mapping.selecting.row_selection import select_rows
from accel.mapping.target import AccelTarget
from compiler.graph.graph import Graph, TensorType
from compiler.graph.reference import evaluate
from compiler.graph.rewrite import Builder
from compiler.ir import program_text
from compiler.ops.families.row_functions import RECIPROCALS, ROOTS, exponentials

EXAMPLES = Path(__file__).parents[3] / "examples" / "machines"
SCALED = {"mult": 40000, "shift": 36, "zp": -120, "lo": -128, "hi": 127}


@cache
def declared() -> tuple:
    return runpy.run_path(str(EXAMPLES / "normalize.py"))["DECLARATIONS"]


def machine_of(preset: str = "tiny-1x4x4", without: str = "", **changes) -> lockstep.Machine:
    own = [one for one in declared() if one.name != without]
    return lockstep.Machine(replace(lockstep.preset(preset), **changes), (*SHIPPED, *own))


def network(op: str, shape: tuple[int, ...], rng) -> Graph:
    """One operator of rows."""
    count = shape[-1]
    high, low = exponentials(0.03)
    constants, attrs = {
        "qbelow_max": ({}, {}),
        "qsoftmax": ({"high": high, "low": low, "reciprocals": RECIPROCALS}, SCALED),
        "qlayer_norm": ({"weight": rng.integers(-16384, 16385, count).astype(np.int16),
                         "bias": rng.integers(-2**27, 2**27, count).astype(np.int32),
                         "roots": ROOTS}, SCALED | {"epsilon": 50}),
        "qrms_norm": ({"mult": rng.integers(1 << 15, 1 << 16, count).astype(np.int32),
                       "shift": rng.integers(22, 26, count).astype(np.int32), "roots": ROOTS},
                      {name: SCALED[name] for name in ("zp", "lo", "hi")}
                      | {"epsilon": 50, "zero": -9})}[op]
    builder = Builder("net")
    builder.add_input("x", TensorType(shape, "int8"))
    for name, array in constants.items():
        builder.add_constant(name, array)
    builder.emit(op, "y", ["x", *constants], "y", **attrs)
    return builder.finish(["y"])


def rows(rng, shape: tuple[int, ...]) -> np.ndarray:
    return np.clip(rng.normal(size=shape) * 40 + 15, -128, 127).astype(np.int8)


def agrees(graph: Graph, x: np.ndarray, machine: lockstep.Machine, sim: str) -> int:
    """Runs the graph on the accelerator alone, compares with the reference; its cycles."""
    module = lockstep.compile(graph, "accel,cpu", machine=machine, sim=sim)
    assert [segment.target for segment in module.partition.segments] == ["accel"]
    module.set_input("x", x)
    runs = module.run()
    np.testing.assert_array_equal(module.get_output("y"), evaluate(graph, {"x": x})["y"])
    return sum(run.cycles for run in runs)


OPERATORS = ("qbelow_max", "qsoftmax", "qlayer_norm", "qrms_norm")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op, shape", [
    ("qbelow_max", (3, 8)), ("qbelow_max", (5, 2, 9)), ("qsoftmax", (5, 2, 9)),
    ("qrms_norm", (5, 2, 9)),
    *(pytest.param(op, shape, marks=pytest.mark.slow) for op, shape in (
        ("qbelow_max", (1, 1)), ("qsoftmax", (3, 8)), ("qsoftmax", (1, 1)), ("qlayer_norm", (3, 8)),
        ("qlayer_norm", (5, 2, 9)), ("qlayer_norm", (1, 1))))], ids=str)
def test_rows_of_whole_blocks_and_of_parts(rng, op: str, shape) -> None:
    agrees(network(op, shape, rng), rows(rng, shape), machine_of(), "functional")


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("changes", [
    {}, {"batch": 2}, {"block_in": 8}, {"bus_bytes": 16}], ids=str)
def test_simulators_agree(rng, op: str, changes) -> None:
    """In other geometries: of two rows in an entry, of wider inputs than outputs."""
    sizes = {name: 4 * getattr(lockstep.preset("tiny-1x4x4"), f"{name}_bytes")
             for name in ("inp", "wgt", "res", "acc", "out")}
    machine = machine_of(**changes, **{f"{name}_bytes": size for name, size in sizes.items()})
    graph, x = network(op, (7, 11), rng), rows(rng, (7, 11))
    agrees(graph, x, machine, "functional")
    assert agrees(graph, x, machine, "cycle") == agrees(graph, x, machine, "verilator")


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_long_rows_of_a_large_machine(rng, op: str) -> None:
    shape = (3, 50, 197)
    agrees(network(op, shape, rng), rows(rng, shape), machine_of("pynq-1x16x16"), "cycle")


SMALL = {"res_bytes": 128, "par_bytes": 128, "acc_bytes": 1024, "out_bytes": 32}


@pytest.mark.parametrize("op, shape, changes, apart", [
    ("qbelow_max", (2, 61), SMALL, False), ("qbelow_max", (3, 2, 131), SMALL, True),
    *(pytest.param(op, shape, changes, apart, marks=pytest.mark.slow)
      for op, shape, changes, apart in (
          ("qsoftmax", (2, 61), SMALL, False), ("qsoftmax", (3, 300), SMALL, True),
          ("qlayer_norm", (3, 131), SMALL | {"par_bytes": 256}, True),
          ("qlayer_norm", (2, 61), SMALL, False), ("qlayer_norm", (2, 768), {}, False),
          ("qlayer_norm", (1, 3000), {}, True),
          ("qsoftmax", (5, 131), SMALL | {"batch": 2, "acc_bytes": 4096, "out_bytes": 64}, True),
          ("qbelow_max", (1, 5000), {}, True)))], ids=str)
def test_rows_that_do_not_fit(rng, op: str, shape, changes, apart: bool) -> None:
    """Their numbers first, then results in parts; parts of a row for each total where a row does
    not fit."""
    graph, machine = network(op, shape, rng), machine_of(**changes)
    agrees(graph, rows(rng, shape), machine, "functional")
    layer, = AccelTarget(machine).compile(graph).layers
    assert bool(layer.operator.totals) == apart
    tiles, _ = tiles_of(machine, layer.operator, 2)
    assert tiles.stationary == "input" and tiles.channels < shape_of(layer.operator).channels


def test_what_acc_cannot_hold_is_refused(rng) -> None:
    """A row needs all its numbers at once."""
    graph, machine = network("qlayer_norm", (1, 8), rng), machine_of(acc_bytes=256)
    reason = "Tile of one pixel must fit the buffers of tiny-1x4x4: acc needs 45 of 16 entries"
    assert AccelTarget(machine).refusal(graph, graph.nodes[0]) == reason
    with pytest.raises(LoweringError, match=f"^y: {reason}$"):
        AccelTarget(machine).compile(graph)


def shipped(preset: str = "tiny-1x4x4", without: str = "", **changes) -> lockstep.Machine:
    return lockstep.Machine(replace(lockstep.preset(preset), **changes),
                            tuple(one for one in SHIPPED if one.name != without))


@pytest.mark.parametrize("op, shape", [
    ("qbelow_max", (5, 2, 9)), ("qbelow_max", (24, 10)), ("qbelow_max", (3, 1)),
    *(pytest.param(op, shape, marks=pytest.mark.slow) for op, shape in (
        ("qsoftmax", (3, 6)), ("qsoftmax", (5, 2, 9)), ("qlayer_norm", (5, 2, 9)),
        ("qrms_norm", (5, 2, 9)), ("qlayer_norm", (24, 10)), ("qsoftmax", (2, 1)),
        ("qlayer_norm", (2, 1))))], ids=str)
def test_rows_across_lanes_need_no_instruction_of_ones_own(rng, op: str, shape) -> None:
    agrees(network(op, shape, rng), rows(rng, shape), shipped(), "functional")


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("changes, shape", [
    ({}, (7, 11)), ({}, (24, 10)), ({"batch": 2}, (8, 11)), ({"block_in": 8}, (9, 21)),
    ({"bus_bytes": 16}, (9, 21))], ids=str)
def test_simulators_agree_about_rows_across_lanes(rng, op: str, changes, shape) -> None:
    sizes = {name: 4 * getattr(lockstep.preset("tiny-1x4x4"), f"{name}_bytes")
             for name in ("inp", "wgt", "res", "acc", "out")}
    machine = shipped(**changes, **{f"{name}_bytes": size for name, size in sizes.items()})
    graph, x = network(op, shape, rng), rows(rng, shape)
    agrees(graph, x, machine, "functional")
    cycles = agrees(graph, x, machine, "cycle")
    assert cycles == agrees(graph, x, machine, "verilator")
    bounds = [layer.bound.cycles for group in AccelTarget(machine).compile(graph).work
              for layer in group if layer.bound]
    assert 0 < max(bounds) <= cycles


@pytest.mark.parametrize("op", [OPERATORS[0], *(
    pytest.param(op, marks=pytest.mark.slow) for op in OPERATORS[1:])])
def test_extremes_across_lanes(rng, op: str) -> None:
    """Rows of one number, and of both ends."""
    x = np.repeat(np.array([-128, 127, 0, -1], np.int8)[:, None], 6, axis=1)
    x = np.concatenate([x, x])
    x[4:, 3] = -1 - x[4:, 3]
    agrees(network(op, x.shape, rng), x, shipped(), "functional")


def test_many_rows_are_turned_by_products(rng) -> None:
    """What a load brings byte by byte, gemm turns for less: blocks of columns and what is left."""
    graph = network("qbelow_max", (40, 50), rng)
    parts = [layer.part for layer in AccelTarget(shipped("pynq-1x16x16")).compile(graph).layers]
    assert parts == ["turned", "turned48", "", "back", "back32"]


@pytest.mark.parametrize("way", [0, 1], ids=["byte by byte", "turned"])
@pytest.mark.parametrize("op, shape", [
    ("qbelow_max", (5, 2, 9)), pytest.param("qlayer_norm", (9, 11), marks=pytest.mark.slow)],
    ids=str)
def test_each_way_across_lanes_gives_the_same(rng, monkeypatch, op: str, shape, way: int) -> None:
    monkeypatch.setattr(layers, "_row_function", lambda *of: [*row_function_ways(*of)][way])
    agrees(network(op, shape, rng), rows(rng, shape), shipped(), "functional")


def test_what_one_function_makes_for_another_stays_turned(rng) -> None:
    """Unless somebody else reads it, too."""
    builder = Builder("net")
    builder.add_input("x", TensorType((24, 10), "int8"))
    builder.emit("qbelow_max", "m", ["x"], "m")
    builder.emit("qbelow_max", "y", ["m"], "y")

    def parts(*outputs: str) -> list[str]:
        graph = builder.finish([*outputs])
        agrees(graph, rows(rng, (24, 10)), shipped(), "functional")
        return [layer.name for layer in AccelTarget(shipped()).compile(graph).layers]
    assert parts("y") == ["m:turned", "m:turned8", "m", "y", "y:back"]
    assert "m:back" in parts("y", "m")


@pytest.mark.parametrize("op", ["qbelow_max", *(
    pytest.param(op, marks=pytest.mark.slow) for op in ("qsoftmax", "qlayer_norm", "qrms_norm"))])
def test_its_schedule_is_that_of_single_steps(rng, op: str) -> None:
    graph, machine = network(op, (9, 11), rng), shipped()
    for layer in AccelTarget(machine).compile(graph).layers:
        tiles, prefix = tiles_of(machine, layer.operator, 2), prefix_of(layer.operator)
        found = scheduled(machine, layer.operator, *tiles)
        texts = [program_text(program, bodies=True).partition("\n")[2] for program in (
            found.program, schedule(machine, layer.operator, *tiles).program)]
        assert texts[0].replace(found.prefix, prefix) == texts[1]


def test_few_rows_are_of_the_host(rng) -> None:
    """Lanes without a row cost as much as others."""
    graph = network("qbelow_max", (1, 8), rng)
    reason = AccelTarget(shipped()).refusal(graph, graph.nodes[0])
    assert re.fullmatch(r"its rows are 1 of 4 that are computed at once, in about \d+ cycles; the "
                        "host computes fewer than half of them for less", str(reason))


@pytest.mark.parametrize("missing", ["mul", "lookup"])
def test_what_lacks_an_instruction_is_told(rng, missing: str) -> None:
    module = lockstep.compile(network("qlayer_norm", (3, 8), rng), "accel,cpu",
                              machine=shipped(without=missing))
    assert "no vector instruction computes" in module.partition.reasons["y"]
    assert not module.accelerated


@pytest.mark.parametrize("missing", ["row_sum", "shl", "exponent"])
def test_without_one_of_its_own_rows_lie_across_lanes(rng, missing: str) -> None:
    graph = network("qlayer_norm", (3, 8), rng)
    machines = machine_of(), machine_of(without=missing)
    assert [select_rows(machine, graph, graph.nodes[0]).across for machine in machines] == [
        False, True]


@pytest.mark.slow
def test_a_negative_weight_is_a_factor(rng) -> None:
    """Multipliers have no sign."""
    graph = network("qrms_norm", (5, 2, 9), rng)
    builder = Builder.like(graph)
    builder.add_constant("sign", np.array([1, -1, -1] * 3, np.int8))
    builder.emit("qrms_norm", "y", [*graph.nodes[0].inputs, "sign"], "y", **graph.nodes[0].attrs)
    agrees(builder.finish(["y"]), rows(rng, (5, 2, 9)), machine_of(), "functional")


def test_rows_of_many_channels_have_room_for_their_weights(rng) -> None:
    """RMS normalization has one record a channel."""
    graph = network("qrms_norm", (1, 768), rng)
    layer, = build_layers(graph.nodes[0], graph, forms_of(graph, Blocks(1, 16, 16)),
                          machine_of("pynq-1x16x16"))
    assert [role for role in layer.constants if role.startswith("params")] == ["params"]
    tiles_of(machine_of("pynq-1x16x16"), layer.operator, 2)


def test_padding_takes_no_part_in_a_sum(rng) -> None:
    """A sum of looked up values is corrected by what the padding of the last block adds."""
    graph = network("qsoftmax", (2, 6), rng)
    selection = select_rows(machine_of(), graph, graph.nodes[0])
    high = graph.constants["high"]
    numbers = [stage for stage in selection.stages if not stage.total]
    texts = {str(value) for stage in numbers for step in stage.steps for _, value in step.bound}
    assert selection.pad == 0 and any(f"value={2 * int(high[0])}," in text for text in texts)


def test_images_are_no_rows(rng) -> None:
    """The last axis of an image is not that of its channels."""
    builder = Builder("net")
    builder.add_input("x", TensorType((1, 8, 4, 4), "int8"))
    builder.emit("qmaxpool", "p", ["x"], "p", kernel=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0))
    builder.emit("qbelow_max", "y", ["p"], "y")
    module = lockstep.compile(builder.finish(["y"]), "accel,cpu", machine=machine_of())
    assert "images, not as rows" in module.partition.reasons["y"]
