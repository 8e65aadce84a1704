"""Fronts and hypervolumes, against counting cells of a grid; budgets and objectives."""

import re

import numpy as np
import pytest

from accel.machine.loading import load_machine
from runtime.exploring.budgets import budget_of
from runtime.exploring.front_search import turned
from runtime.exploring.fronts import gains, hypervolume, non_dominated
from runtime.exploring.objectives import (OBJECTIVES, PARTS, MeasuredPoint, ObjectiveError,
                                          objectives_of)
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
    point = MeasuredPoint(load_machine("tiny-1x4x4"), {"a": 500, "b": 700}, {})
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


def test_every_objective_says_what_it_reads() -> None:
    assert all(one.reads and one.reads <= PARTS and one.meaning for one in OBJECTIVES.values())
    assert {name for name, one in OBJECTIVES.items() if one.of_machine} == {
        "luts", "registers", "multipliers", "block_rams", "gates", "mhz", "bytes", "products"}
    assert OBJECTIVES["edp"].title == "edp, uJ*ms" and OBJECTIVES["ms"].title == "ms"


def test_a_formula_is_an_objective() -> None:
    point = MeasuredPoint(load_machine("tiny-1x4x4"), {"a": 500}, {
        "a": PointFigures(0, 0, 0, (), joules=2e-6)})
    product, area, turned_area = objectives_of(["energy*ms", "luts / 1000", "0 - luts"])
    energy, ms, luts = (OBJECTIVES[name].of(point) for name in ("energy", "ms", "luts"))
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

    assert OBJECTIVES["accuracy"].of(point(30.0, 20.0)).value == 20
    for absent in (point(), point(30.0, None)):
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
