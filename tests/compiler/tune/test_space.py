"""Points of a space: all of them, each once, and those beside one."""

from itertools import product

from compiler.tune.chooser import Decision, PointChooser
from compiler.tune.space import Candidate, Point, every_point, neighbours


def asked(point: Point) -> list[Decision]:
    chooser = PointChooser(point)
    size = chooser.one_of("size", (1, 2, 3), lambda size: 4 - size)
    if size > 1:
        chooser.one_of("order", ("rows", "columns"))
    chooser.one_of("unrolled", (False, True))
    return chooser.decisions


def test_every_point_is_visited_once() -> None:
    expected = [{"size": "1", "unrolled": str(u)} for u in (False, True)]
    expected += [{"size": str(s), "order": o, "unrolled": str(u)}
                 for s, o, u in product((2, 3), ("rows", "columns"), (False, True))]
    assert [*every_point(asked)] == expected


def test_every_point_of_nothing_is_the_empty_one() -> None:
    assert [*every_point(lambda point: [])] == [{}]


def test_neighbours_differ_in_one_decision() -> None:
    candidate = Candidate(tuple(asked({"size": "2"})), "")
    assert candidate.estimate == 2.0
    own = {"size": "2", "order": "rows", "unrolled": "False"}
    assert candidate.point == own
    assert neighbours(candidate) == [own | {"size": "1"}, own | {"size": "3"},
                                     own | {"order": "columns"}, own | {"unrolled": "True"}]
