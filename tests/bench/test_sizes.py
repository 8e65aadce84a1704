"""Machines of any size: networks on some of the geometries of `bench.support.sizes`, and all
simulators on one of them."""

import pytest

from accel.hw.parts import divided
from accel.machine.machine import Machine
from accel.mapping.plans.interleave import halves
from accel.sim.checking.check import check
from accel.sim.checking.geometries import quick_simulators
from amaranth.hdl import Module, Signal
from bench.support.sizes import SIZES, digits_equal, geometry, graphs_equal
from tests.support.amaranth_sim import simulate

ODD = "1x3x5, bus 4", "2x12x6, bus 16", "3x4x7, bus 128"


def test_the_list_has_24_machines_with_odd_buffers() -> None:
    configs = [geometry(name) for name in SIZES]
    assert len({str(config.geometry()) for config in configs}) == 24
    for config in configs:
        assert any(one.size_bytes & (one.size_bytes - 1) for one in config.buffers.values())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ODD)
def test_graphs_are_right(name: str) -> None:
    assert graphs_equal(Machine(geometry(name)), 3)


@pytest.mark.slow
def test_digits_are_right_without_a_defect(capsys) -> None:
    """Two layers share buffers of odd depths."""
    assert digits_equal(Machine(geometry("1x12x12, bus 8")))
    assert "defect" not in capsys.readouterr().err


def test_halves_are_even() -> None:
    first, second = halves(geometry("1x12x12, bus 8"), ["inp", "acc", "tab"])
    assert first == {"inp": (0, 124), "acc": (0, 62), "tab": (0, 2)}
    assert second == {"inp": (124, 248), "acc": (62, 124), "tab": (2, 4)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["1x5x3, bus 1", *ODD])
def test_simulators_agree(name: str) -> None:
    machine = Machine(geometry(name))
    report = check(machine, 4, simulators=quick_simulators(machine))
    assert report.difference is None and not report.left_out


@pytest.mark.parametrize("divisor", [1, 3, 5, 6, 8, 72])
def test_a_number_divided_by_a_constant(divisor: int) -> None:
    m, value = Module(), Signal(9)
    quotient, rest = Signal(9), Signal(9)
    parts = divided(value, divisor)
    m.d.comb += [quotient.eq(parts[0]), rest.eq(parts[1])]
    m.d.sync += Signal().eq(0)

    async def testbench(ctx):
        for number in range(1 << 9):
            ctx.set(value, number)
            assert (ctx.get(quotient), ctx.get(rest)) == divmod(number, divisor)

    simulate(m, testbench)
