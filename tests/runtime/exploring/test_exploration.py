"""Which points are measured, on machines whose time a formula gives."""

from itertools import product
from math import log2
from pathlib import Path

import numpy as np
import pytest

from accel.estimates.technology import load_technology
from accel.machine.intrinsics import SHIPPED
from accel.machine.loading import load_machine
from compiler.plans import PlanRefused
from compiler.tune.records import Records
from runtime.exploring import budget_of, hypervolume
from runtime.exploring.answers import answer_of, bounds_of
from runtime.exploring.exploration import ExplorationError
from runtime.exploring.front_search import turned
from runtime.exploring.objectives import MeasuredPoint, ObjectiveError, usual_objectives
from runtime.exploring.point_trials import PointFigures, machine_of
from runtime.exploring.points import AddedInstructions
from tests.support.exploring import (BASE, Killed, MadeUp, exploration, point_of, space,
                                     time_of)

VARIED = ("block_in=4,8,16,32", "block_out=4,8,16,32", "bus_bytes=4,8,16,32",
          "wgt=same,double,quadruple")
FEW = ("block_in=4,8,16", "block_out=4,8,16", "bus_bytes=4,8,16")
SMALL = ("block_out=4,8,16", "bus_bytes=4,8")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def records(tmp_path: Path):
    with Records(tmp_path / "r.sqlite") as opened:
        yield opened


# ---- points -----------------------------------------------------------------------------------

def test_a_point_is_the_base_with_changed_fields() -> None:
    machines = space("block_out=4,8", "wgt=double")
    point = point_of(machines, {"block_out": "8", "wgt_bytes": "double"})
    assert machines.differences(point) == {"block_out": [4, 8], "wgt_bytes": [
        machines.base.machine.config.wgt_bytes, 2 * machines.base.machine.config.wgt_bytes]}
    assert point.machine.hash != machines.base.machine.hash and point.sources == ("",)


def test_what_leads_to_one_machine_is_one_point() -> None:
    machines = space("block_out=4,same")
    assert machines.point({"block_out": "4"}) is machines.point({"block_out": "same"}) is (
        machines.base)
    assert machines.candidate({"block_out": "same"}).plan == machines.base.identity


def test_names_are_coordinates_of_their_own() -> None:
    machines = space("shared_bytes=0,1k", "dataflow=adder_tree,weight_stationary")
    assert machines.coordinates(machines.base) == (0, 1, 0)
    point = point_of(machines, {"shared_bytes": "1k", "dataflow": "weight_stationary"})
    assert machines.coordinates(point) == (log2(1025), 0, 1)
    assert machines.candidate({"dataflow": "weight_stationary"}).features == (0, 0, 1)


def test_what_cannot_be_built_is_refused_with_the_reason() -> None:
    machines = space("block_out=4,300", refusal=lambda point: "not this one"
                     if point.choices.get("block_out") == "4" else "")
    for option, reason in (
            ("300", "block_out must be from 1 to 256, not 300: .*"), ("4", "not this one")):
        with pytest.raises(PlanRefused, match=f"^{reason}$"):
            machines.candidate({"block_out": option})


def test_instructions_are_added_or_not() -> None:
    added = AddedInstructions.of(str(ROOT / "examples" / "machines" / "hardswish.py"))
    machines = space(added=[added])
    names = {option: {one.name for one in point_of(machines, {"+hardswish": option}).machine
                      .declarations} for option in ("without", "with")}
    assert machines.point({"+hardswish": "without"}) is machines.base
    assert names["with"] - names["without"] == {one.name for one in added.declarations}
    assert point_of(machines, {"+hardswish": "with"}).sources == ("", added.source)


def test_units_of_vector_are_varied_with_their_instructions() -> None:
    added = AddedInstructions.of(str(ROOT / "examples" / "machines" / "hardswish.py"))
    machines = space("units=1,2", added=[added])
    two = point_of(machines, {"units": "2"})
    assert machines.point({"units": "1"}) is machines.base
    assert machines.differences(two) == {"units": [1, 2]}
    assert two.machine.unit_of("add_vector2") == "vector2"
    assert machine_of(two.toml, two.sources, two.machine.hash).hash == two.machine.hash
    both = point_of(machines, {"units": "2", "+hardswish": "with"})
    own = [one.name for one in added.declarations if one.unit == "vector"]
    assert {f"{name}_vector2" for name in own} <= {one.name for one in both.machine.declarations}
    assert machines.differences(both)["instructions"] == [
        [], [one.name for one in added.declarations]]
    assert machine_of(both.toml, both.sources, both.machine.hash).hash == both.machine.hash


def test_the_second_unit_of_a_machine_may_go() -> None:
    source = str(ROOT / "examples" / "machines" / "two_vectors.py")
    machines = space("units=1,2", base=source)
    one = point_of(machines, {"units": "1"})
    assert machines.point({"units": "2"}) is machines.base
    assert machines.differences(one) == {"units": [2, 1]}
    assert one.machine.declarations == SHIPPED
    assert machine_of(one.toml, one.sources, one.machine.hash).hash == one.machine.hash


def test_whole_machines_are_varied() -> None:
    source = str(ROOT / "examples" / "machines" / "int16.py")
    machines = space(f"machine={source}", "queue_depth=double")
    point = point_of(machines, {"machine": source, "queue_depth": "double"})
    assert point.machine.config.operand == "int16"
    assert point.machine.config.queue_depth == 2 * load_machine(source).config.queue_depth
    assert point.sources == (source,)


# ---- strategies -------------------------------------------------------------------------------

def test_a_grid_measures_every_machine_once(records: Records) -> None:
    run, found = MadeUp(), exploration(records, *SMALL)
    found.run(run)
    assert len(run.seen) == len({trial.id for trial in run.seen}) == len(found.measured) == 6
    assert [*found.measured][0] == found.space.base.identity
    assert all(figures.cycles["made-up"] == time_of(point.machine.config)
               for point, figures in found.measured.values())


def test_the_front_is_that_of_all_pairs(records: Records) -> None:
    found = exploration(records, *SMALL)
    found.run(MadeUp())
    rows = {identity: found.values(identity) for identity in found.measured}
    expected = {one for one, row in rows.items() if not any(
        other != row and all(a <= b for a, b in zip(other, row)) for other in rows.values())}
    assert {rows[one] for one in found.front()} == {rows[one] for one in expected}
    assert [rows[one][0] for one in found.front()] == sorted(rows[one][0] for one in found.front())


def test_what_was_measured_is_not_measured_again(records: Records) -> None:
    first = exploration(records, *SMALL, trials=3)
    first.run(MadeUp())
    assert len(first.measured) == 3
    again, run = exploration(records, *SMALL), MadeUp()
    again.run(run)
    assert len(run.seen) == again.done == 3
    fresh = exploration(records, *SMALL)
    fresh.run(run)
    assert len(run.seen) == 3 and answer_of(fresh) == answer_of(again)


def test_records_of_other_sources_do_not_count(records: Records, monkeypatch) -> None:
    exploration(records, *SMALL).run(MadeUp())
    monkeypatch.setattr("runtime.exploring.exploration.versions", lambda rooms: "others")
    run = MadeUp()
    exploration(records, *SMALL).run(run)
    assert len(run.seen) == 6


@pytest.mark.parametrize("strategy", ["random", "search"])
def test_a_strategy_stays_within_its_trials_and_is_the_same_again(records: Records, strategy: str
                                                                  ) -> None:
    runs, answers, spaces = [MadeUp(), MadeUp()], [], []
    for run in runs:
        with Records(records.path.with_name(f"{len(answers)}.sqlite")) as own:
            found = exploration(own, *FEW, strategy=strategy, trials=20)
            found.run(run)
            answers.append(answer_of(found))
            spaces.append(found.space)
    assert len(runs[0].seen) == 20 and answers[0] == answers[1]
    alone = {trial.toml for trial in runs[0].seen[:7]}
    assert {point.toml for options in spaces[0].alone.values()
            for point in options.values() if not isinstance(point, str)} <= alone


@pytest.mark.parametrize("strategy", ["grid", "search"])
def test_what_is_killed_again_and_again_finds_the_same(tmp_path: Path, strategy: str) -> None:
    options = {"strategy": strategy, "trials": None if strategy == "grid" else 24, "seed": 3}
    machines = space(*FEW)              # making them takes longest

    def explored(name: str, run: MadeUp) -> dict:
        with Records(tmp_path / f"{name}.sqlite") as own:
            found = exploration(own, *FEW, **options)
            found.space = machines
            found.run(run)
            found.refine(1, run)
            found.check(run)
            return answer_of(found)

    undisturbed, measured = explored("whole", whole := MadeUp()), 0
    for results in np.random.default_rng(0).integers(0, 6, 10).tolist():
        run = MadeUp(results=results)
        with pytest.raises(Killed):
            explored("killed", run)
        measured += results
        assert run.seen
    assert explored("killed", last := MadeUp()) == undisturbed
    assert len(last.seen) + measured == len(whole.seen)


@pytest.mark.slow
def test_a_search_finds_the_front_of_a_grid_with_an_eighth_of_it(records: Records) -> None:
    found = exploration(records, *VARIED, strategy="search", trials=24)
    found.run(MadeUp())
    rows, cycles, size = [], *found.objectives
    for options in product(*(axis.options for axis in found.space.axes)):
        point = found.space.point(dict(zip([axis.name for axis in found.space.axes], options)))
        if not isinstance(point, str):
            rows.append([turned(cycles, time_of(point.machine.config)), turned(size, sum(
                buffer.size_bytes for buffer in point.machine.config.buffers.values()))])
    grid = np.array(rows)
    mine = np.array([[turned(one, one.of(figures).value) for one in found.objectives]
                     for _, figures in found.measured.values()])
    reference = grid.max(axis=0) + 0.1
    assert len(grid) > 150
    assert hypervolume(mine, reference) >= 0.98 * hypervolume(grid, reference)


# ---- effort -----------------------------------------------------------------------------------

def test_machines_on_the_front_are_measured_with_effort_too(records: Records) -> None:
    found, run = exploration(records, *SMALL, objectives="cycles,products"), MadeUp()
    found.run(run)
    before = {found.measured[identity][0].machine.hash for identity in found.front()}
    count = len(run.seen)
    found.refine(2, run)
    fresh = run.seen[count:]
    assert {trial.machine_hash for trial in fresh} == before and len(fresh) == len(before) > 2
    points = [found.measured[identity] for identity in found.front()]
    assert {point.machine.hash for point, _ in points} == before
    assert all(point.effort == 2 and figures.cycles["made-up"] == time_of(
        point.machine.config) * 8 // 10 for point, figures in points)
    answer = answer_of(found)
    assert answer["points"][answer["front"][-1]]["label"].endswith("effort 2")
    again, run = exploration(records, *SMALL, objectives="cycles,products"), MadeUp()
    again.run(run)
    again.refine(2, run)
    assert not run.seen and answer_of(again) == answer


def test_a_machine_that_effort_fails_for_stays_as_it_is(records: Records) -> None:
    found = exploration(records, *SMALL, objectives="cycles,products")
    found.run(MadeUp())
    found.refine(1, MadeUp(lambda config: config.block_out == 4))
    front = [found.measured[identity][0] for identity in found.front()]
    assert {point.effort for point in front if point.machine.config.block_out == 4} == {0}
    assert {point.effort for point in front if point.machine.config.block_out != 4} == {1}
    assert "it cannot be" in next(iter(found.failed.values()))[1]


def test_effort_is_a_field_like_others(records: Records) -> None:
    found, run = exploration(records, "block_out=8", "effort=0,1,2"), MadeUp()
    found.run(run)
    tried = {(trial.effort, trial.machine_hash) for trial in run.seen}
    hashes = {point.machine.hash for point, _ in found.measured.values()}
    assert len(hashes) == 2 and tried == {*product((0, 1, 2), hashes)}
    assert len(found.measured) == 6 == len({trial.id for trial in run.seen})
    effect = answer_of(found)["sensitivity"][1]
    assert effect["axis"] == "effort" and effect["options"][0]["point"] == 0
    assert {found.measured[one][0].effort for one in found.front()} == {2}


def test_what_got_lost_is_measured_again(records: Records) -> None:
    """A process that was killed, or took too long, says nothing about the machine."""
    first = exploration(records, *SMALL)
    with pytest.raises(ExplorationError, match="made-up: its process crashed by signal 9$"):
        first.run(MadeUp(lost=1))
    again, run = exploration(records, *SMALL), MadeUp()
    again.run(run)
    assert len(run.seen) == len(again.measured) == 6


# ---- failures, budgets, values ------------------------------------------------------------------

def test_a_base_that_cannot_be_measured_is_refused(records: Records) -> None:
    with pytest.raises(ExplorationError, match="^The base tiny-1x4x4 must run the networks: "
                                               "made-up: it cannot be$"):
        exploration(records, *SMALL).run(MadeUp(lambda config: True))


def test_machines_that_fail_have_a_reason(records: Records) -> None:
    found = exploration(records, *SMALL)
    found.run(MadeUp(lambda config: config.block_out == 16))
    answer = answer_of(found)
    assert [one["reason"] for one in answer["failed"]] == ["made-up: it cannot be"] * 2
    assert answer["sensitivity"][0]["options"][2] == {"option": "16",
                                                      "reason": "made-up: it cannot be"}


def test_budgets_keep_machines_from_the_front(records: Records) -> None:
    found = exploration(records, *SMALL, budgets=[budget_of("cycles>=13000")])
    found.run(MadeUp())
    assert found.front() and all(found.values(one)[0] >= 13000 for one in found.front())
    assert any(point["over_budget"] for point in answer_of(found)["points"])


@pytest.mark.parametrize("name", ["45nm", "ecp5"])
def test_no_machine_wins_by_the_name_of_its_clock(records: Records, name: str) -> None:
    technology = load_technology(name)
    found = exploration(records, "clock_mhz=50,100,800", technology=technology,
                        objectives=",".join(one.name for one in usual_objectives(technology)
                                            if one.name != "energy"))
    found.run(MadeUp())
    assert len(found.measured) == 3 and len({found.values(one) for one in found.measured}) == 1
    assert found.front() == [found.space.base.identity]
    answer = answer_of(found)
    assert [point["rivals"] for point in answer["points"]] == [[1, 2], [0], [0]]
    assert answer["technology"]["name"] == name
    assert answer["technology"]["nominal_mhz"] == (100 if name == "45nm" else None)


def test_points_that_errors_may_turn_round_are_told(records: Records) -> None:
    """Queues change the LUTs by less than the error, and no cycles."""
    found = exploration(records, "queue_depth=4,16", technology=load_technology("ecp5"),
                        objectives="luts,cycles")
    found.run(MadeUp())
    base, *others = answer_of(found)["points"]
    assert [one["front"] for one in (base, *others)] == [False, True, False]
    assert base["rivals"] == [1] and others[1]["rivals"] == [1] and others[0]["rivals"] == [0, 2]


def test_an_objective_that_the_technology_lacks_is_refused_before_anything_is_measured(
        records: Records) -> None:
    with pytest.raises(ObjectiveError, match="^Objective luts must come with a technology that "):
        exploration(records, *SMALL, objectives="luts")
    with pytest.raises(ObjectiveError, match="^Objective mhz must come with a technology that "):
        exploration(records, *SMALL, budgets=[budget_of("mhz>=80")])


def test_values_of_the_front_are_compared(records: Records) -> None:
    run, found = MadeUp(), exploration(records, *SMALL)
    found.run(run)
    count = len(run.seen)
    found.check(run)
    assert [trial.values for trial in run.seen[count:]] == [True] * len(found.front())
    assert found.checked == dict.fromkeys(found.front(), "")
    wrong = exploration(records, "block_out=8")
    wrong.run(MadeUp())
    wrong.check(MadeUp(lambda config: config.block_out == 8))
    assert wrong.checked[wrong.front()[0]] in ("", "made-up: it cannot be")


def test_what_bounds_the_layers_is_told_by_their_cycles() -> None:
    layers = (("a", 60, 1, 1, "gemm"), ("b", 30, 1, 1, "load"), ("c", 10, 1, 1, ""))
    figures = {"x": PointFigures(0, 0, 0, layers), "y": PointFigures(0, 0, 0, layers[:1])}
    found = bounds_of(MeasuredPoint(load_machine(BASE), {}, figures))
    assert found == {"gemm": 0.75, "load": 0.1875, "start and end": 0.0625}


def test_the_answer_tells_bounds_and_each_field_alone(records: Records) -> None:
    found = exploration(records, *SMALL)
    found.run(MadeUp())
    answer = answer_of(found)
    wide = next(point for point in answer["points"] if point["label"] == "block_out 16")
    assert wide["changed_bounds"] == [["made-up", "layer", "gemm", "load"]]
    assert answer["points"][0]["label"] == "base" and answer["points"][0]["changed_bounds"] == []
    effects = {row["axis"]: [option.get("point") for option in row["options"]]
               for row in answer["sensitivity"]}
    assert effects["block_out"][0] == 0 and effects["block_out"][2] == answer["points"].index(wide)
