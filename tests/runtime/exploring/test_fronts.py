"""Fronts and hypervolumes, against counting cells of a grid; budgets and objectives."""

import re
from dataclasses import replace

import numpy as np
import pytest

from accel.estimates.energy import leakage_watts
from accel.estimates.technology import load_technology, technology_of
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from runtime.exploring.budgets import budget_of
from runtime.exploring.front_search import turned
from runtime.exploring.fronts import PointIntervals, gains, hypervolume, non_dominated
from runtime.exploring.objectives import (OBJECTIVES, PARTS, MeasuredPoint, ObjectiveError,
                                          joules_of, objectives_of, usual_objectives)
from runtime.exploring.point_trials import PointFigures
from runtime.exploring.surrogate import predicted


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_hypervolume_is_that_of_counted_cells(rng, count: int) -> None:
    values, reference = rng.integers(0, 7, (9, count)), [6, 4, 7, 5][:count]
    cells = np.stack(np.meshgrid(*map(np.arange, reference)), axis=-1).reshape(-1, count)
    covered = (values[:, None, :] <= cells).all(axis=-1).any(axis=0).sum()
    assert hypervolume(values, reference) == covered > 0


def test_the_front_is_what_nothing_dominates(rng) -> None:
    values = np.array([[1, 5], [2, 2], [2, 2], [5, 1], [3, 3], [1, 6]])
    assert non_dominated(values).tolist() == [True, True, False, True, False, False]


def intervals(values, errors, cores) -> PointIntervals:
    values = np.array(values, float)
    return PointIntervals(values, values - errors, values + errors, cores)


@pytest.mark.parametrize(("errors", "cores", "expected"), [
    ((0, 0), "abcd", [[], [], [], []]),
    ((0.2, 0), "abcd", [[], [], [1], []]),              # the third may be the faster one
    ((0.2, 0.2), "abcd", [[], [2], [1], []]),           # either may dominate the other
    ((0.2, 0.2), "abbd", [[], [], [], []])])            # one core: one error
def test_rivals_are_what_errors_may_turn_round(errors, cores: str, expected) -> None:
    values = [[1, 5], [2, 2], [2.1, 2.1], [3, 3]]
    assert intervals(values, errors, cores).rivals() == expected


def test_equal_points_are_rivals() -> None:
    assert intervals([[1, 1]] * 3, 0, "aab").rivals() == [[1, 2], [0], [0]]


def test_a_place_without_rivals_does_not_depend_on_errors(rng) -> None:
    values, errors = rng.integers(0, 40, (30, 3)), rng.integers(0, 4, (30, 3))
    found = intervals(values, errors, [*map(str, range(30))])
    front, sure = non_dominated(found.values), [not one for one in found.rivals()]
    assert 3 < sum(sure) < 27 and {*front[sure]} == {False, True}
    seen = set()
    for _ in range(300):
        drawn = non_dominated(rng.uniform(found.low, found.high))
        assert (drawn == front)[sure].all()
        seen.update(np.flatnonzero(drawn != front).tolist())
    assert len(seen) > 3


def test_gains_count_what_the_front_leaves(rng) -> None:
    samples = rng.random((500, 2))
    front, candidates = np.array([[0.5, 0.5]]), np.array([[0.2, 0.6], [0.6, 0.6]])
    expected = ((samples >= candidates[0]).all(axis=1) & ~(samples >= 0.5).all(axis=1)).sum()
    assert gains(front, candidates, samples).tolist() == [expected, 0]


def test_a_process_predicts_a_smooth_function(rng) -> None:
    known, wanted = rng.random((60, 3)), rng.random((40, 3))

    def value(points: np.ndarray) -> np.ndarray:
        return np.sin(3 * points[:, 0]) + points[:, 1] ** 2     # the last one does not matter

    mean, deviation = predicted(known, value(known), wanted)
    errors = np.abs(mean - value(wanted))
    assert errors.max() < 0.1 and (errors < 4 * deviation + 1e-3).mean() > 0.9
    assert predicted(known, value(known), known)[1].max() < 0.05


def test_budgets_of_both_kinds() -> None:
    point = MeasuredPoint(load_machine("tiny-1x4x4"), {"a": 500}, {})
    size = OBJECTIVES["bytes"].of(point).value
    assert budget_of(f"bytes<={size:.0f}").refusal(point) == ""
    assert budget_of("cycles <= 400").refusal(point) == "cycles must be at most 400, not 500"
    assert budget_of("cycles>=1k").refusal(point) == "cycles must be at least 1,000, not 500"


def test_an_estimated_time_has_the_interval_of_its_clock() -> None:
    point = MeasuredPoint(load_machine("tiny-1x4x4"), {"a": 500, "b": 700}, {},
                          load_technology("ecp5"))
    time, mhz = OBJECTIVES["ms"].of(point), OBJECTIVES["mhz"].of(point)
    assert mhz.low < mhz.value < mhz.high
    np.testing.assert_allclose([time.low, time.value, time.high],
                               [1.2 / mhz.high, 1.2 / mhz.value, 1.2 / mhz.low])


def test_energy_is_in_microjoules() -> None:
    def figures(joules: float | None) -> PointFigures:
        return PointFigures(0, 0, 0, (), joules=joules)

    point = MeasuredPoint(load_machine("tiny-1x4x4"), {}, {"a": figures(2e-6), "b": figures(3e-6)})
    assert OBJECTIVES["energy"].of(point).value == pytest.approx(5)
    with pytest.raises(ObjectiveError, match="energy was counted$"):
        OBJECTIVES["energy"].of(MeasuredPoint(point.machine, {}, {"a": figures(None)}))


def test_all_figures_of_a_point_are_at_one_clock() -> None:
    """Times and leakage are at the nominal clock of the base, whatever a machine is called."""
    base = load_machine("tiny-1x4x4")
    fast = Machine(replace(base.config, clock_mhz=800))
    technology = load_technology("45nm").at(100)
    counted = {"a": PointFigures(0, 0, 0, (), joules=2e-6)}
    slow, quick = (MeasuredPoint(one, {"a": 500_000}, counted, technology) for one in (base, fast))
    names = ("ms", "energy", "edp", "power", "area")
    assert [OBJECTIVES[name].of(slow) for name in names] == [
        OBJECTIVES[name].of(quick) for name in names]
    assert technology.energies is not None
    energy, leaking = OBJECTIVES["energy"].of(slow).value, leakage_watts(base, technology.energies)
    assert leaking is not None
    assert OBJECTIVES["ms"].of(slow).value == 5
    assert energy == pytest.approx(2 + 1e6 * leaking * 5e-3)
    assert joules_of(slow, "a") == pytest.approx(1e-6 * energy)


def test_leakage_is_as_unsure_as_the_clock() -> None:
    text = load_technology("45nm").text + '[clock]\nmodel = "ecp5"\nsource = "a test"\n'
    point = MeasuredPoint(load_machine("tiny-1x4x4"), {"a": 500_000}, {
        "a": PointFigures(0, 0, 0, (), joules=2e-6)}, technology_of(text))
    energy, ms = OBJECTIVES["energy"].of(point), OBJECTIVES["ms"].of(point)
    assert energy.low < energy.value < energy.high
    assert (energy.high - 2) / (energy.value - 2) == pytest.approx(ms.high / ms.value)


@pytest.mark.parametrize(("name", "technology", "message"), [
    ("energy", "ecp5", "energies, such as 45nm or 7nm, not 'ecp5'"),
    ("edp", "ecp5", "energies, such as 45nm or 7nm, not 'ecp5'"),
    ("luts", "45nm", "cells of an FPGA, such as ecp5, not '45nm'"),
    ("mhz", "45nm", "an estimate of clocks, such as ecp5, not '45nm'"),
    ("area", "ecp5", "area in mm2, such as 45nm, not 'ecp5'")])
def test_what_a_technology_lacks_is_refused(name: str, technology: str, message: str) -> None:
    with pytest.raises(ObjectiveError, match=f"^Objective {name} must come with a technology that "
                                             f"has {message}$"):
        OBJECTIVES[name].require(load_technology(technology))


@pytest.mark.parametrize(("technology", "expected"), [
    ("45nm", ["ms", "area", "energy"]), ("7nm", ["ms", "energy"]), ("ecp5", ["ms", "luts"])])
def test_usual_objectives_are_those_of_the_technology(technology: str, expected: list[str]) -> None:
    assert [one.name for one in usual_objectives(load_technology(technology))] == expected


def test_every_objective_says_what_it_reads() -> None:
    assert all(one.reads and one.reads <= PARTS and one.meaning for one in OBJECTIVES.values())
    assert {name for name, one in OBJECTIVES.items() if one.of_machine} == {
        "area", "luts", "registers", "multipliers", "block_rams", "gates", "mhz", "bytes",
        "products"}
    assert OBJECTIVES["edp"].title == "edp, uJ*ms" and OBJECTIVES["ms"].title == "ms"


def test_a_formula_is_an_objective() -> None:
    point = MeasuredPoint(load_machine("tiny-1x4x4"), {"a": 500}, {
        "a": PointFigures(0, 0, 0, (), joules=2e-6)})
    product, area, turned_area = objectives_of(["energy*ms", "area / 1000", "0 - area"])
    energy, ms, luts = (OBJECTIVES[name].of(point) for name in ("energy", "ms", "area"))
    assert product.of(point) == OBJECTIVES["edp"].of(point)
    assert product.of(point).high == energy.high * ms.high and product.unit == "uJ*ms"
    assert OBJECTIVES["power"].of(point).value == pytest.approx(energy.value / ms.value)
    assert area.of_machine and not product.of_machine
    assert area.of(point).value == luts.value / 1000 == -turned_area.of(point).value / 1000
    assert budget_of("energy * ms<=1000").refusal(point) == ""


def test_accuracy_is_that_of_the_network_that_is_furthest_off() -> None:
    def point(*accuracies: float | None) -> MeasuredPoint:
        return MeasuredPoint(load_machine("tiny-1x4x4"), {}, {
            str(place): PointFigures(0, 0, 0, (), accuracy=one)
            for place, one in enumerate(accuracies)})

    assert OBJECTIVES["accuracy"].of(point(30.0, 20.0, None)).value == 20
    for absent in (point(), point(None)):
        with pytest.raises(ObjectiveError, match="^Objective accuracy must come with networks in "
                                                 "float, which are quantized for each machine$"):
            OBJECTIVES["accuracy"].of(absent)


def test_what_is_to_be_greatest_is_turned() -> None:
    assert turned(OBJECTIVES["mhz"], 100) < turned(OBJECTIVES["mhz"], 50)
    assert turned(OBJECTIVES["ms"], 100) > turned(OBJECTIVES["ms"], 50)
    below = [turned(OBJECTIVES["ms"], value) for value in (-9, -2, -1e-15, 0, 1e-9, 1)]
    assert below == sorted(below) and below[0] < below[1] < below[2]


@pytest.mark.parametrize("text", ["cycles<400", "cycles<=", "<=4", "cycles<=x", "cycles<=-1"])
def test_a_budget_that_is_none(text: str) -> None:
    with pytest.raises(ObjectiveError, match=f"^A budget must be OBJECTIVE<=NUMBER or "
                                             f"OBJECTIVE>=NUMBER, not {re.escape(repr(text))}$"):
        budget_of(text)


def test_objectives_that_are_none() -> None:
    with pytest.raises(ObjectiveError, match="^Objective must be one of cycles, .*, not 'speed'$"):
        objectives_of(["speed"])
    with pytest.raises(ObjectiveError, match="^Objective must be one of .*, not 'speed'$"):
        objectives_of(["ms / speed"])
    with pytest.raises(ObjectiveError, match="^Objective cycles must be given once$"):
        objectives_of(["cycles", "cycles"])
    with pytest.raises(ObjectiveError, match="^Objective 7 must read a figure, such as ms$"):
        objectives_of(["7"])
