"""Decisions of templates: the best by estimate, those of a point, those at random."""

import numpy as np

from compiler.tune.chooser import OWN, Chooser, PointChooser


def taken(chooser: PointChooser) -> dict[str, str]:
    return {decision.name: decision.answer for decision in chooser.decisions}


def template(chooser: Chooser) -> tuple[int, str]:
    size = chooser.one_of("size", (1, 2, 4), lambda size: abs(size - 2) + 1)
    if size == 1:
        return size, ""
    return size, chooser.one_of("order", ("rows", "columns"))


def test_own_answers_are_the_best_by_estimate() -> None:
    assert template(OWN) == (2, "rows")


def test_an_empty_point_leads_to_the_own_answers() -> None:
    chooser = PointChooser({})
    assert template(chooser) == template(OWN)
    assert [decision.excess for decision in chooser.decisions] == [1.0, 1.0]


def test_a_point_decides_and_tells_what_it_costs() -> None:
    chooser = PointChooser({"size": "4", "order": "columns"})
    assert template(chooser) == (4, "columns")
    assert taken(chooser) == {"size": "4", "order": "columns"}
    assert chooser.decisions[0].excess == 3.0


def test_what_there_is_not_is_the_best_by_estimate() -> None:
    assert template(PointChooser({"size": "3", "order": "columns"})) == (2, "columns")


def test_a_decision_may_depend_on_those_before_it() -> None:
    chooser = PointChooser({"size": "1", "order": "columns"})
    assert template(chooser) == (1, "")
    assert taken(chooser) == {"size": "1"}


def test_the_same_name_again_has_a_number() -> None:
    chooser = PointChooser({"tile 2": "3"})
    assert [chooser.one_of("tile", (1, 3)) for _ in range(3)] == [1, 3, 1]
    assert taken(chooser) == {"tile": "1", "tile 2": "3", "tile 3": "1"}


def test_the_first_that_is_possible_is_the_one_remembered() -> None:
    chooser = PointChooser({"by": "b"})
    for way in chooser.ranked("by", ("a", "b", "c")):
        chooser.one_of(f"size of {way}", (1, 2))
        if way == "c":
            break
    assert taken(chooser) == {"by": "c", "size of c": "1"}


def test_random_answers_follow_the_seed_and_differ() -> None:
    def points(seed: int) -> list[dict[str, str]]:
        random = np.random.default_rng(seed)
        choosers = [PointChooser({"order": "columns"}, random) for _ in range(20)]
        for chooser in choosers:
            template(chooser)
        return [taken(chooser) for chooser in choosers]

    assert points(1) == points(1)
    assert {point["size"] for point in points(1)} == {"1", "2", "4"}
    assert {point.get("order", "columns") for point in points(1)} == {"columns"}
