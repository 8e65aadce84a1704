"""The model of plans: what it learns, from whom, and what it does without LightGBM."""

import subprocess
import sys
from math import inf

import numpy as np
import pytest

from compiler.errors import RequestError
from compiler.plans import Task
from compiler.tune.chooser import PointChooser
from compiler.tune.explorer import STRATEGIES, Explorer, Guided, cost_model
from compiler.tune.model import CostModel, Lesson, lessons
from compiler.tune.space import Candidate, Point, Result


def candidate(*features: float) -> Candidate:
    return Candidate((), f"plan {features}", features)


def time_of(features: np.ndarray) -> float:
    return 1 + abs(features[0] - 3) + abs(features[1] + 1)


def trials(count: int, seed: int = 0, factor: float = 1.0) -> list[tuple[Candidate, Result]]:
    points = np.random.default_rng(seed).uniform(-5, 5, (count, 4))
    return [(candidate(*point), Result(factor * time_of(point), "s")) for point in points]


def test_it_tells_the_best_from_the_rest() -> None:
    scores = CostModel().learned(trials(100))
    assert scores is not None
    others = trials(300, 1)
    found = np.array(scores([one for one, _ in others]))
    times = np.array([result.value for _, result in others])
    assert times[found.argsort()[-10:]].mean() < 0.6 * times.mean()


def test_the_same_trials_lead_to_the_same_scores() -> None:
    asked = [one for one, _ in trials(20, 1)]
    first, second = (CostModel().learned(trials(60)) for _ in range(2))
    assert first is not None and second is not None and first(asked) == second(asked)
    assert first([]) == ()


def test_failures_are_of_the_rest() -> None:
    """The fastest place fails: the model leads elsewhere."""
    told = [(one, Result(None, "s", "it crashes") if one.features[0] > 2 else result)
            for one, result in trials(200)]
    scores = CostModel().learned(told)
    assert scores is not None
    fails, works = scores([candidate(3, -1, 0, 0), candidate(1.5, -1, 0, 0)])
    assert works > fails


def test_little_teaches_nothing() -> None:
    assert CostModel().learned(trials(5)) is None
    failures = [(one, Result(None, "s", "it crashes")) for one, _ in trials(50)]
    assert CostModel().learned(failures) is None
    bare = [(Candidate((), str(number)), Result(1.0, "s")) for number in range(50)]
    assert CostModel().learned(bare) is None


def test_what_other_tasks_taught_serves_from_the_first_trial() -> None:
    """In another unit, of another size."""
    model = CostModel(lessons(trials(100, factor=1000.0)))
    for own in ([], trials(3, 7)):
        scores = model.learned(own)
        assert scores is not None
        good, bad = scores([candidate(3, -1, 0, 0), candidate(-4, 4, 0, 0)])
        assert good > bad


def test_an_explorer_begins_with_what_other_tasks_taught() -> None:
    class Line:
        task = Task("", "", "a line")

        def candidate(self, point: Point, random: np.random.Generator | None = None) -> Candidate:
            chooser = PointChooser(point, random)
            x, y = (chooser.one_of(name, range(-5, 6)) for name in "xy")
            return Candidate(tuple(chooser.decisions), f"{x} {y}", (x, y, 0.0, 0.0))

    guided = Guided(cost_model(lessons(trials(400))), drafts=0, chance=0)
    earlier = [({"x": str(x), "y": "5"}, Result(1.0, "s")) for x in range(-3, 5)]
    times = [time_of(np.array(one.features)) for one in Explorer(
        Line(), guided, earlier=earlier).propose(2)]
    assert max(times) <= 3          # those of the trials are 7 and more


def test_own_trials_outweigh_those_of_other_tasks() -> None:
    """Elsewhere the best place was another."""
    points = np.random.default_rng(3).uniform(-5, 5, (100, 4))
    others = [Lesson(tuple(point), 1 + abs(point[0] + 4)) for point in points]
    scores = CostModel(others).learned(trials(100))
    assert scores is not None
    good, bad = scores([candidate(3, -1, 0, 0), candidate(-4, 0, 0, 0)])
    assert good > bad


def test_lessons_count_relative_to_the_best() -> None:
    told = [(candidate(1.0), Result(4.0, "s")), (candidate(2.0), Result(2.0, "s")),
            (candidate(3.0), Result(None, "s", "it crashes")), (Candidate((), ""), Result(1, "s"))]
    assert lessons(told) == [Lesson((1.0,), 2.0), Lesson((2.0,), 1.0), Lesson((3.0,), inf)]
    assert lessons([]) == []


def test_without_lightgbm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(RequestError, match=r"^The cost model needs LightGBM: pip install "
                                           r"'lockstep-hw\[tune\]'$"):
        CostModel()
    assert STRATEGIES["guided"]() == Guided(None) == Guided(cost_model(lessons(trials(20))))


def test_lightgbm_is_imported_late() -> None:
    code = "import sys, compiler.tune.explorer; print('lightgbm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
