"""Area without synthesis, beside what yosys made of machines that the fit has not seen."""

import time
from dataclasses import replace
from statistics import mean

import pytest

from accel.datapath.plan import plan
from accel.estimates import model
from accel.estimates.amounts import amounts
from accel.estimates.area import area
from accel.estimates.estimate import Estimate
from accel.estimates.memories import FULL, blocks, shallow_blocks
from accel.estimates.runs import EXAMPLES, syntheses
from accel.estimates.structure import parts
from accel.machine.config import preset, preset_names
from accel.machine.intrinsics import SHIPPED
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from fpga.building import build

RUNS = [run for run in syntheses() if not run.unit]
HELD_BACK = [run for run in RUNS if run.held_back]
TINY = Machine(preset("tiny-1x4x4"))
FIGURES = ("luts", "registers", "multipliers", "block_rams")


def name(run) -> str:
    return run.spec.geometry["name"]


def real(run, figure: str) -> float:
    return model.of_unit(model.measured(run), "total", figure)


@pytest.mark.parametrize("figure", FIGURES)
def test_machines_held_back_from_the_fit_are_estimated(figure):
    errors = [abs(getattr(area(run.spec.machine), figure).value / real(run, figure) - 1)
              for run in HELD_BACK]
    assert mean(errors) <= 0.07 and max(errors) <= 0.15


@pytest.mark.parametrize("run", RUNS, ids=name)
def test_multipliers_and_block_rams_are_counted_exactly(run):
    found = area(run.spec.machine)
    assert (found.multipliers.value, found.block_rams.value) == (
        real(run, "multipliers"), real(run, "block_rams"))


@pytest.mark.parametrize("figure", ("luts", "registers"))
def test_intervals_hold_most_machines(figure):
    within = [real(run, figure) in getattr(area(run.spec.machine), figure) for run in HELD_BACK]
    assert sum(within) >= 0.75 * len(within)


def test_units_sum_to_the_whole():
    found = area(TINY)
    for figure in (*FIGURES, "distributed", "gates"):
        units = sum(unit[figure].value for unit in found.units.values())
        assert units == pytest.approx(getattr(found, figure).value, abs=len(found.units))
    assert found.units["gemm"]["multipliers"].value == 16


def test_an_added_instruction_is_counted_where_it_is():
    added = Machine(TINY.config, load_machine(EXAMPLES / "argmax.py").declarations)
    before, after = area(TINY).units, area(added).units
    assert after["vector"]["luts"].value > before["vector"]["luts"].value
    assert [figure.value for figure in after["gemm"].values()] == [
        figure.value for figure in before["gemm"].values()]


def test_an_instruction_left_out_is_not_counted():
    fewer = Machine(TINY.config, tuple(one for one in SHIPPED if one.name not in ("lookup", "mul")))
    before, after = area(TINY), area(fewer)
    assert "tab" in before.units and "tab" not in after.units
    assert after.luts.value < before.luts.value


@pytest.mark.one_in(4)
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_has_an_area(path):
    machine = load_machine(path)
    found = area(machine)
    assert found.luts.low < found.luts.value < found.luts.high
    assert found.luts.value > area(Machine(preset("ecp5-1x2x2"))).luts.value


@pytest.mark.parametrize("preset_name", preset_names())
def test_an_area_takes_well_under_a_second(preset_name):
    machine = Machine(preset(preset_name))
    area(TINY)                              # imports, coefficients
    begin = time.process_time()
    area(machine)
    assert time.process_time() - begin < 1


def test_larger_machines_are_extrapolated():
    assert area(Machine(preset("ecp5-1x16x16"))).luts.extrapolated
    assert not area(Machine(preset("ecp5-1x2x2"))).luts.extrapolated


BUILT = {   # core of bitstreams in docs/fpga.md: LUTs, registers, multipliers, block RAMs
    "ecp5-1x2x2": (17_353 - 2_500, 12_283 - 1_500, 7, 79),
    "tiny-1x4x4": (22_737 - 2_500, 15_209 - 1_500, 28, 89),
    "ecp5-1x8x8": (31_600 - 2_500, 23_599 - 1_500, 88, 146),
    "ecp5-1x16x16": (50_536 - 2_500, 33_683 - 1_500, 156, 128)}
LATER = ("lookup", "reduce_add", "reduce_max", "reduce_min")


@pytest.mark.parametrize("built", BUILT)
def test_bitstreams_of_larger_machines_are_estimated(built):
    """They were built before there were tables and reductions."""
    machine = Machine(preset(built), tuple(one for one in SHIPPED if one.name not in LATER))
    found = area(machine)
    luts, registers, *counted = BUILT[built]
    assert found.luts.value == pytest.approx(luts, rel=0.12)
    assert found.registers.value == pytest.approx(registers, rel=0.07)
    assert [found.multipliers.value, found.block_rams.value] == counted


def test_wider_arrays_and_more_soft_multipliers_are_counted():
    wide = Machine(replace(TINY.config, block_in=8))
    soft = Machine(replace(TINY.config, dsp_multipliers=6))
    assert area(wide).multipliers.value == area(TINY).multipliers.value + 16
    assert area(soft).multipliers.value == area(TINY).multipliers.value - 10
    assert area(soft).luts.value > area(TINY).luts.value + 10 * 40


@pytest.mark.parametrize("width, rows, used, count", [
    (64, 512, None, 2), (64, 513, None, 4), (8, 2048, None, 1), (8, 2049, None, 2),
    (64, 2048, range(56), 7), (64, 512, range(40), 2), (64, 16384, None, 64)])
def test_block_rams_are_as_narrow_as_their_depth(width, rows, used, count):
    assert blocks(width, rows, used) == count


def test_queues_are_distributed_where_block_rams_are_scarce():
    assert int(build.FULL * build.CAPACITY["85k"]["block_rams"]) == FULL
    large = Machine(preset("ecp5-1x8x8"))
    assert shallow_blocks(TINY) and not shallow_blocks(large)
    assert parts(large)["queue_load"].block_rams == 0 < parts(large)["queue_load"].distributed


def test_registers_are_those_between_stages():
    gemm = amounts(plan(TINY, "gemm"))      # products are inside of blocks; sums of two, of 18 bits
    assert (gemm.multipliers, gemm.registers, gemm.bits["compress"]) == (16, 72, 8 * 17 + 4 * 18)


def test_an_estimate_lies_in_its_interval():
    assert 7 in Estimate(8, 7, 9) and 6.9 not in Estimate(8, 7, 9)
    with pytest.raises(ValueError, match=r"^Estimate must lie in its interval, not 3 in \[4, 5\]$"):
        Estimate(3, 4, 5)
