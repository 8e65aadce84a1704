"""The clock without place and route, beside what nextpnr made of machines the fit has not seen."""

from dataclasses import replace
from statistics import mean

import pytest

from accel.datapath.plan import plan
from accel.estimates import clock as clocks
from accel.estimates.clock import clock
from accel.estimates.paths import longest_path
from accel.estimates.runs import EXAMPLES, MachineSpec, Routing, routings
from accel.machine.config import preset
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from bench.support import estimate_errors

TINY = preset("tiny-1x4x4")


def deeper(levels: int) -> Machine:
    return Machine(replace(TINY, stage_depth=levels))


def test_routed_machines_are_estimated_by_the_others():
    errors = clocks.left_out([run for run in routings() if not run.held_back])
    assert mean(map(abs, errors)) <= 0.1 and max(map(abs, errors)) <= 0.18


def test_intervals_hold_routed_machines():
    rows = [row["mhz"] for row in estimate_errors.judge()["clock"]]
    assert sum(row["within"] for row in rows) >= 0.75 * len(rows)


def test_products_that_no_block_takes_are_slow():
    """Synthesis cuts products of 48-bit accumulators into blocks without registers."""
    deep = Machine(TINY, load_machine(EXAMPLES / "int16_deep.py").declarations)
    assert longest_path(plan(deep, "vector")) > 10 > longest_path(plan(Machine(TINY), "vector"))
    assert clock(deep).value < 0.9 * clock(Machine(TINY)).value


def test_what_is_larger_than_the_routed_cores_is_extrapolated():
    assert clock(Machine(preset("ecp5-1x16x16"))).extrapolated
    assert not clock(Machine(preset("ecp5-1x2x2"))).extrapolated


def test_larger_machines_are_slower():
    assert clock(Machine(preset("ecp5-1x16x16"))).value < clock(Machine(TINY)).value - 5


def test_stages_of_many_levels_are_slower_than_control():
    assert clock(deeper(6)).value < clock(deeper(2)).value - 5


def test_no_interval_is_narrower_than_seeds_differ():
    found = clock(Machine(TINY))
    assert found.low <= 0.951 * found.value and found.high >= 1.049 * found.value


@pytest.mark.parametrize("unit, levels, nanoseconds", [
    ("gemm", 1, 0.53 + 0.9 + 0.89 + 18 * 0.036),            # the last sum of four products
    ("gemm", 2, 0.53 + 2 * (0.9 + 0.89) + (17 + 8) * 0.036)])
def test_a_path_is_the_sum_of_its_chains(unit, levels, nanoseconds):
    assert longest_path(plan(deeper(levels), unit)) == pytest.approx(nanoseconds)


def test_periods_are_fitted_by_their_terms():
    """Machines of one size tell nothing about size, but all of it about the rest."""
    runs = [Routing(MachineSpec(replace(TINY, stage_depth=levels).values()), "", False,
                    {"1": 50.0, "2": mhz}, (), "nextpnr")
            for levels, mhz in ((1, 100.0), (2, 100.0), (8, 80.0))]
    model = clocks.fit_clock(runs)
    assert [model.mhz(run.spec.machine) for run in runs] == pytest.approx([100, 100, 80], rel=0.02)
    assert model.largest == pytest.approx(max(
        clocks.period_terms(run.spec.machine)["size"] for run in runs) * 1e3)

