"""Explorers on spaces whose best point is known."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from compiler.plans import PlanRefused, Task
from compiler.tune.chooser import PointChooser
from compiler.tune.explorer import (STRATEGIES, Explorer, Guided, Limits, Strategy, Trial,
                                    at_random, descent, grid)
from compiler.tune.model import CostModel, Scores
from compiler.tune.space import Candidate, Point, PointRefused, Result
from tests.support.effort import Effort

DIMENSIONS, EXTENT, TRIALS = 6, 8, 240
BEST = (5, 2, 7, 0, 3, 6) * 2


class Bowl:
    """Numbers, whose distance from the best ones is the time. Where the sum of the first two is
    12, it refuses; it estimates that small numbers are better, `told` or not why.
    """

    task = Task("", "", "a bowl")

    def __init__(self, dimensions: int = DIMENSIONS, extent: int = EXTENT, told: bool = True,
                 features: bool = True):
        self.dimensions, self.extent = dimensions, extent
        self.told, self.features, self.asked = told, features, 0

    def candidate(self, point: Point, random: np.random.Generator | None = None) -> Candidate:
        self.asked += 1
        chooser = PointChooser(point, random)
        numbers = [chooser.one_of(f"x{at}", range(self.extent), lambda x: 8 + abs(x - 4))
                   for at in range(self.dimensions)]
        if sum(numbers[:2]) == 12:
            raise PointRefused("sum must not be 12", tuple(chooser.decisions)) if self.told else (
                PlanRefused("sum must not be 12"))
        return Candidate(tuple(chooser.decisions), " ".join(map(str, numbers)),
                         tuple(map(float, numbers)) if self.features else ())


def time_of(candidate: Candidate) -> float:
    numbers = map(int, candidate.plan.split())
    return 10 + sum((number - best) ** 2 for number, best in zip(numbers, BEST))


def explore(explorer: Explorer, batch: int = 4, trials: int = 10 ** 6) -> list[str]:
    """The plans that were proposed until the explorer stops, or so many."""
    plans: list[str] = []
    while len(plans) < trials and (candidates := explorer.propose(min(batch, trials - len(plans)))):
        for candidate in candidates:
            plans.append(candidate.plan)
            explorer.tell(candidate, Result(time_of(candidate), "s"))
    return plans


NAMES = ("guided", "estimate", "descent", "random", "grid")


def strategies() -> Mapping[str, Strategy]:
    return {"guided": Guided(CostModel()), "estimate": Guided(), "descent": descent,
            "random": at_random, "grid": grid}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["guided", "estimate", "descent"])
def test_it_finds_the_best_where_chance_does_not(name: str) -> None:
    explorer = Explorer(Bowl(), strategies()[name], Limits(trials=TRIALS))
    explore(explorer, 8)
    assert explorer.best is not None and time_of(explorer.best) == 10


def test_chance_does_not_find_the_best() -> None:
    explorer = Explorer(Bowl(), at_random, Limits(trials=TRIALS))
    explore(explorer)
    assert explorer.best is not None and time_of(explorer.best) > 12


def test_chance_goes_on_until_nothing_new_comes_for_long() -> None:
    """Known plans come between the others, more and more often; so nearly all are found."""
    found = [*at_random(Explorer(Bowl(3, 7), at_random), np.random.default_rng(1))]
    assert 7 ** 3 - 7 >= len({candidate.plan for candidate in found}) == len(found) > 300


@pytest.mark.parametrize("seed", range(1 if Effort.quick else 3))
def test_the_model_saves_trials(seed: int) -> None:
    """The estimate says nothing about the best of these numbers; what was measured does."""
    best = []
    for strategy in (Guided(CostModel()), at_random):
        explorer = Explorer(Bowl(12, 8), strategy, Limits(trials=96), seed)
        explore(explorer, 8)
        assert explorer.best is not None
        best.append(time_of(explorer.best))
    assert best[0] < 0.7 * best[1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_no_plan_is_proposed_twice_and_all_are_in_the_end(name: str) -> None:
    explorer = Explorer(Bowl(3, 7), strategies()[name])
    plans = explore(explorer, 16)
    assert len(plans) == len(set(plans)) == 7 ** 3 - 7      # 6 + 6 is refused, with any third one
    assert explorer.stopped == "space exhausted"


def test_a_refusal_that_does_not_say_what_was_asked_hides_what_follows() -> None:
    explorer = Explorer(Bowl(2, 7, told=False), grid)
    assert len(explore(explorer)) == 7 ** 2 - 1
    assert [*explorer.refused.values()] == ["sum must not be 12"]


def test_plans_are_not_proposed_again_before_they_are_told() -> None:
    explorer = Explorer(Bowl(), Guided())
    plans = [candidate.plan for _ in range(5) for candidate in explorer.propose(4)]
    assert len(set(plans)) == 20


def test_the_first_proposal_is_the_own_choice() -> None:
    for name in ("guided", "estimate", "descent"):
        first, *_ = Explorer(Bowl(), strategies()[name]).propose(4)
        assert first.plan == "4 4 4 4 4 4"


def test_drafts_come_in_the_order_of_estimates() -> None:
    drafts = Explorer(Bowl(2, 8), Guided(drafts=25)).propose(25)
    estimates = [draft.estimate for draft in drafts]
    assert estimates == sorted(estimates) and len(set(estimates)) > 4


def test_descent_tries_neighbours_of_the_best_by_estimate() -> None:
    earlier = [({"x0": str(number), "x1": "1"}, Result(abs(number - 7), "s"))
               for number in range(8)]
    explorer = Explorer(Bowl(2, 8), descent, earlier=earlier)
    assert [one.plan for one in explorer.propose(6)] == ["7 4", "7 3", "7 2", "7 6", "7 7", "7 0"]


class Oracle:
    """A model that knows the times."""

    def learned(self, trials: Iterable[Trial]) -> Scores:
        return lambda candidates: [-time_of(candidate) for candidate in candidates]


def test_the_most_promising_children_come_first_with_others_by_chance() -> None:
    for chance in (0.0, 1.0):
        explorer = Explorer(Bowl(), Guided(Oracle(), drafts=8, chance=chance))
        drafts = explore(explorer, 8, 8)
        times = [time_of(candidate) for candidate in explorer.propose(8)]
        assert len(drafts) == len(times) == 8 and (times == sorted(times)) == (chance == 0)
        assert times[0 if chance == 0 else 1] < min(
            result.value for _, result in explorer.trials if result.value is not None)


def test_a_second_generation_descends_from_the_best_of_the_first() -> None:
    """So the best child differs from its oldest parents in more decisions than one generation
    changes: from a time of 133 to 30 on average; children of the same parents again come to 49.
    """
    guided, scores, times = Guided(Oracle()), Oracle().learned(()), []
    explorer = Explorer(Bowl(), guided)
    first = [explorer.look({f"x{at}": "0" for at in range(DIMENSIONS)})]
    for seed in range(8):
        best, *_ = guided._pool(explorer, [one for one in first if one], scores,
                                np.random.default_rng(seed))
        times.append(time_of(best))
    assert sum(times) / len(times) < 40


def test_estimates_of_neighbours_count_the_other_decisions_alone() -> None:
    """What replaces the worse decision, here the first one, is more promising."""
    earlier = [({"x0": "7", "x1": "3"}, Result(1.0, "s")), *(
        ({"x0": str(number), "x1": "0"}, Result(9.0, "s")) for number in range(7))]
    explorer = Explorer(Bowl(2, 8), descent, earlier=earlier)
    assert [one.plan for one in explorer.propose(6)] == ["4 3", "3 3", "5 3", "7 4", "2 3", "6 3"]


class Free(Bowl):
    """Its first option costs nothing by the estimate."""

    def candidate(self, point: Point, random: np.random.Generator | None = None) -> Candidate:
        chooser = PointChooser(point, random)
        number = chooser.one_of("x0", range(4), float)
        return Candidate(tuple(chooser.decisions), str(number))


def test_an_option_may_cost_nothing() -> None:
    assert explore(Explorer(Free(), descent)) == ["0", "1", "2", "3"]


def test_numbers_of_a_proposal_are_not_those_of_the_one_before() -> None:
    space = Bowl()
    explore(Explorer(space, at_random, Limits(trials=64)), 8)
    assert space.asked < 80


@pytest.mark.parametrize("name", NAMES)
def test_seeds_decide(name: str) -> None:
    def plans(seed: int) -> list[str]:
        return explore(Explorer(Bowl(), strategies()[name], Limits(trials=32), seed), 8)

    assert plans(3) == plans(3)
    if name in ("guided", "random"):
        assert plans(3) != plans(4)


@pytest.mark.parametrize("name", NAMES)
def test_one_that_resumes_goes_on_undisturbed(name: str) -> None:
    whole = Explorer(Bowl(), strategies()[name], Limits(trials=48), 5)
    plans = explore(whole, 8)
    first = Explorer(Bowl(), strategies()[name], seed=5)
    begun = explore(first, 8, 24)
    assert begun == plans[:24]
    earlier = [(candidate.point, result) for candidate, result in first.trials]
    resumed = Explorer(Bowl(), strategies()[name], Limits(trials=48), 5, earlier)
    assert explore(resumed, 8) == plans[24:]
    assert resumed.best == whole.best


@pytest.mark.parametrize("name", NAMES)
def test_one_that_resumes_within_a_round_goes_on_undisturbed(name: str) -> None:
    """Where one candidate at a time is asked for."""
    plans = explore(Explorer(Bowl(), strategies()[name], Limits(trials=36)), 1)
    first = Explorer(Bowl(), strategies()[name])
    assert explore(first, 1, 29) == plans[:29]
    earlier = [(candidate.point, result) for candidate, result in first.trials]
    assert explore(Explorer(Bowl(), strategies()[name], Limits(trials=36), 0, earlier),
                   1) == plans[29:]


def test_a_strategy_starts_once_in_a_round() -> None:
    settled = []

    def counted(explorer: Explorer, random: np.random.Generator) -> Iterator[Candidate]:
        settled.append(len(explorer.settled))
        return at_random(explorer, random)

    explore(Explorer(Bowl(), counted, Limits(trials=20)), 1)
    assert settled == [0, 8, 16]


@pytest.mark.parametrize("name", NAMES)
def test_a_small_space_is_exhausted_only_when_all_is_told(name: str) -> None:
    explorer = Explorer(Bowl(1, 5), strategies()[name])
    assert explorer.propose(0) == [] and not explorer.stopped
    candidates = explorer.propose(9)
    assert len(candidates) == 5 and explorer.propose(9) == [] and not explorer.stopped
    for candidate in candidates:
        explorer.tell(candidate, Result(1.0, "s"))
    assert explorer.propose(9) == [] and explorer.stopped == "space exhausted"


def test_trials_that_are_refused_now_are_forgotten() -> None:
    earlier = [({"x0": "6", "x1": "6"}, Result(1.0, "s")), ({"x0": "5"}, Result(2.0, "s")),
               ({"x0": "5"}, Result(3.0, "s"))]
    explorer = Explorer(Bowl(2, 8), descent, earlier=earlier)
    assert [(candidate.plan, result.value) for candidate, result in explorer.trials] == [
        ("5 4", 2.0)]


def test_failures_are_trials_and_never_the_best() -> None:
    explorer = Explorer(Bowl(), Guided(CostModel()), Limits(trials=64))
    while candidates := explorer.propose(8):
        for candidate in candidates:
            fails = candidate.point["x2"] in "4567"
            explorer.tell(candidate, Result(None, "s", "it takes too long") if fails
                          else Result(time_of(candidate), "s"))
    assert explorer.best is not None and explorer.best.point["x2"] == "3"
    late = [result.value is None for _, result in explorer.trials[32:]]
    assert sum(late) < 12       # what fails is avoided


def test_nothing_but_failures_is_explored_on() -> None:
    explorer = Explorer(Bowl(), Guided(CostModel()), Limits(trials=32))
    while candidates := explorer.propose(8):
        for candidate in candidates:
            explorer.tell(candidate, Result(None, "s", "it crashes"))
    assert len(explorer.trials) == 32 and explorer.best is None


def test_it_stops_after_so_many_trials() -> None:
    explorer = Explorer(Bowl(), at_random, Limits(trials=10))
    assert [len(explorer.propose(4)) for _ in range(4)] == [4, 4, 2, 0]
    assert explorer.stopped == ""           # ten are under way
    explorer = Explorer(Bowl(), at_random, Limits(trials=10))
    assert len(explore(explorer)) == 10 and explorer.stopped == "10 trials"


def test_it_stops_after_so_many_seconds() -> None:
    now = [0]
    explorer = Explorer(Bowl(), at_random, Limits(seconds=6), clock=lambda: now[0])
    proposed = 0
    while candidates := explorer.propose(4):
        now[0] += 1
        proposed += len(candidates)
        for candidate in candidates:
            explorer.tell(candidate, Result(1.0, "s"))
    assert proposed == 24 and explorer.stopped == "6 seconds"


def test_a_search_for_a_new_point_ends_with_its_time() -> None:
    """All points lead to one plan."""
    class Same(Bowl):
        def candidate(self, point, random=None):
            now[0] += 1
            return replace(super().candidate(point, random), plan="same")

    now = [0]
    explorer = Explorer(Same(6, 9), grid, Limits(seconds=500), clock=lambda: now[0])
    for candidate in explorer.propose(1):
        explorer.tell(candidate, Result(1.0, "s"))
    assert not explorer.propose(1) and explorer.stopped == "500 seconds" and now[0] < 510


def test_a_grid_lists_so_many_points(monkeypatch) -> None:
    monkeypatch.setattr("compiler.tune.explorer.MOST_POINTS", 20)
    explorer = Explorer(Bowl(3, 4), grid)
    assert len(explore(explorer)) == 20
    assert explorer.stopped == "first 20 points of a larger space"
    explorer = Explorer(Bowl(2, 4), grid)
    assert len(explore(explorer)) == 16 and explorer.stopped == "space exhausted"


def test_it_stops_where_nothing_is_gained() -> None:
    explorer = Explorer(Bowl(), grid, Limits(patience=9))
    told: Iterable[float] = [5, 4, 6, 3, *[3] * 100]
    for value in told:
        candidate = next(iter(explorer.propose(1)), None)
        if candidate is None:
            break
        explorer.tell(candidate, Result(value, "s"))
    assert len(explorer.trials) == 4 + 9 and explorer.stopped == "no gain in 9 trials"


def test_it_refuses_to_be_told_what_it_did_not_propose() -> None:
    explorer = Explorer(Bowl(2, 8), grid)
    candidate, = explorer.propose(1)
    explorer.tell(candidate, Result(1.0, "s"))
    other = Bowl(2, 8).candidate({"x0": "7", "x1": "7"})
    for wrong in (candidate, other):
        with pytest.raises(ValueError, match=f"^Candidate must be one that was proposed and not "
                                             f"told yet, not '{wrong.plan}'$"):
            explorer.tell(wrong, Result(1.0, "s"))


def test_all_strategies_have_names() -> None:
    assert list(STRATEGIES) == ["guided", "descent", "random", "grid"]
    for make in STRATEGIES.values():
        assert len(Explorer(Bowl(), make()).propose(3)) == 3
