"""Bounds of groups of layers and of streams, from bounds of layers."""

from dataclasses import replace

from accel.figures.bounds import group_cycles, stream_cycles
from accel.machine.config import preset
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.figures.work import Bound, Work
from compiler.graph import Node

MACHINE = Machine(preset("tiny-1x4x4"))             # a bus of 4 bytes
ROOM = 2048 + 4096 + 1024 + 2048                    # bytes of inp, wgt, par and tab


def layer(gemm: int = 0, vector: int = 0, loaded: int = 0, moved: int = 0) -> Work:
    busy = max(gemm, vector, -(-moved // 4))
    return Work(Node("qconv2d", "conv", (), ("y",)), 0, gemm, 0, 0,
                bound=Bound(busy + 100, busy, moved, gemm, vector, loaded, moved))


def test_a_group_takes_what_its_busiest_unit_works_for_both_layers() -> None:
    assert group_cycles(MACHINE, [layer(gemm=50, vector=20)]) == 50
    assert group_cycles(MACHINE, [layer(gemm=50, vector=20), layer(vector=45)]) == 65
    assert group_cycles(MACHINE, [layer(gemm=50), layer(gemm=45)]) == 95
    assert group_cycles(MACHINE, [layer(gemm=50, moved=120), layer(moved=121)]) == 61


def test_a_slow_memory_takes_longer() -> None:
    slow = Machine(replace(MACHINE.config, memory=Dram(bytes_per_cycle=2)))
    work = [layer(gemm=50, loaded=100, moved=120)]
    assert (group_cycles(slow, work), stream_cycles(slow, [work])) == (60, 60)


def test_channels_move_for_all_units_at_once() -> None:
    """Two of 4 bytes a cycle; eight of 1 byte a cycle, of which load alone takes 4."""
    two = Machine(replace(MACHINE.config, channels=2))
    slow = Machine(replace(MACHINE.config, channels=8, memory=Dram(bytes_per_cycle=1)))
    work, only = (replace(layer(), bound=Bound(100, 0, 240, 0, 0, loaded, 240))
                  for loaded in (100, 240))
    assert (group_cycles(two, [work]), stream_cycles(two, [[work]])) == (30, 30)
    assert (group_cycles(slow, [work]), stream_cycles(slow, [[work]])) == (30, 30)
    assert stream_cycles(two, [[only]]) == stream_cycles(slow, [[only]]) == 60


def test_gemm_works_through_a_stream_in_order() -> None:
    assert stream_cycles(MACHINE, [[layer(gemm=50)], [layer(vector=10)], [layer(gemm=70)]]) == 120
    assert stream_cycles(MACHINE, [[layer(gemm=5, vector=90)], [layer(vector=40)]]) == 130


def test_loads_come_ahead_by_no_more_than_the_buffers_hold() -> None:
    first, much = layer(gemm=5000), layer(gemm=10, loaded=ROOM + 4000)
    assert stream_cycles(MACHINE, [[first], [much]]) == 5000 + 1000
    little = layer(gemm=10, loaded=ROOM)
    assert stream_cycles(MACHINE, [[first], [little]]) == 5010
    assert stream_cycles(MACHINE, [[much]]) == (ROOM + 4000) // 4
    assert stream_cycles(MACHINE, [[much], [layer(gemm=70)]]) == (ROOM + 4000) // 4 + 70


def test_where_a_bound_is_not_known_nothing_is() -> None:
    unknown = replace(layer(gemm=5), bound=None)
    assert group_cycles(MACHINE, [layer(gemm=5), unknown]) == 0
    assert stream_cycles(MACHINE, [[layer(gemm=5)], [unknown]]) == 0
