"""Origins of instructions: text, the table, its serialized form, what compilation records."""

import numpy as np

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.origins import UNKNOWN, Loop, Origin, Origins, Site
from accel.mapping.target import AccelTarget
from tests.support.networks import convolution_graph

CONV = Site("conv", (Loop("y_o", 3), Loop("x_o", 2, "virtual_thread")), ("y_i", "x_i"),
            (("a", "inp", "conv_input"), ("dst", "acc", "conv_acc")))
POOL = Site("pool", (Loop("c", 4),))
ORIGINS = (Origin(POOL, (3,)), Origin(CONV, (2, 1)), Origin(POOL, (1,)), UNKNOWN)


def test_text_is_layer_and_loops():
    assert [str(origin) for origin in ORIGINS] == ["pool c=3", "conv y_o=2 x_o=1", "pool c=1", ""]
    assert str(Origin.named("mine")) == "mine"


def test_tensors_are_known_by_memory():
    assert ORIGINS[1].tensors("inp") == ("conv_input",)
    assert ORIGINS[1].tensors("out") == ()


def test_every_site_is_kept_once_in_order():
    table = Origins.of(ORIGINS)
    assert table.sites == (POOL, CONV, Site())
    assert table.rows.tolist() == [[0, 3, 0], [1, 2, 1], [0, 1, 0], [2, 0, 0]]
    assert len(table) == 4
    assert tuple(map(table.origin, range(5))) == (*ORIGINS, UNKNOWN)


def test_text_and_rows_are_all_there_is():
    table = Origins.of(ORIGINS)
    assert Origins.parse(table.sites_text(), table.rows.copy()) == table
    assert Origins.parse(table.sites_text(), table.rows[:2]) != table
    assert Origins.parse(Origins().sites_text(), Origins().rows) == Origins()


def compiled():
    graph = convolution_graph(8, 8, 9, seed=0)
    return AccelTarget(Machine(preset("tiny-1x4x4"))).compile(graph).program


def test_compilation_records_layer_loops_and_tensors():
    program = compiled()
    machine = Machine(preset("tiny-1x4x4"))
    stream = program.instructions(machine)
    assert {one.origin.site.layer for one in stream[:-1]} == {"conv"}
    assert stream[-1].origin == UNKNOWN
    store = next(one.origin for one in stream if one.unit == "store")
    assert store.site.tensors == (("dst", "io", "y"), ("src", "out", "conv_quantized"))
    assert any(loop.kind == "virtual_thread" for loop in store.site.loops)
    loads = [one.origin for one in stream if one.unit == "load"]
    assert {origin.tensors("io") for origin in loads} == {(), ("x",)}
    assert {origin.tensors("weights") for origin in loads} == {
        (), ("conv_w",), ("conv_params",)}
    gemm = next(one.origin for one in stream if one.unit == "gemm")
    assert [operand for operand, _, _ in gemm.site.tensors] == ["dst", "inp", "wgt"]
    assert len(gemm.site.folded) >= 2
    for one in stream[:-1]:
        assert all(0 <= value < loop.extent
                   for value, loop in zip(one.origin.position, one.origin.site.loops, strict=True))


def test_the_same_network_has_the_same_table():
    one, other = compiled().origins, compiled().origins
    assert one == other and one.sites_text() == other.sites_text()
    assert np.array_equal(one.rows, other.rows)
    assert len(one.sites) < len(one) / 2
