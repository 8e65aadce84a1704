"""The best plans, as targets ask for them: those of their own fingerprint alone."""

import pytest

from compiler.plans import OWN, Task, Table
from compiler.tune import best
from compiler.tune.best import PACKAGED, BestPlans, PackagedPlans, in_turn, packaged
from compiler.tune.record import text_lines
from compiler.tune.records import Records
from tests.support.records import ELSEWHERE, RELU, TANH, record


def own() -> str:
    pytest.fail("nobody asked for it")


def test_another_target_has_no_part_in_them() -> None:
    plans = BestPlans.of([record(plan="a")])
    assert plans.find(RELU, own) == "a"
    assert plans.find(Task(RELU.fingerprint, RELU.digest, "another title"), own) == "a"
    assert plans.find(ELSEWHERE, own) is None and plans.find(TANH, own) is None


def test_the_fingerprint_follows_the_best_plans(tmp_path) -> None:
    with Records(tmp_path / "r") as records:
        assert records.plans().fingerprint == ""
        seen = []
        for change in (record(plan="a", value=2.0), record(plan="b", value=3.0),
                       record(plan="a", value=1.0, trial="1"), record(plan="c", value=0.5),
                       record(TANH, "a"), record(ELSEWHERE, "a")):
            records.add(change)
            seen.append(records.plans().fingerprint)
    first = seen[0]
    assert seen[:3] == [first] * 3 and len(set(seen[2:])) == 4
    again = BestPlans.of([record(ELSEWHERE, "a"), record(plan="c"), record(TANH, "a")])
    assert len(first) == 64 and again.fingerprint == BestPlans(
        dict(sorted(again.plans.items()))).fingerprint


def test_plans_do_not_change_with_the_database(tmp_path) -> None:
    with Records(tmp_path / "r") as records:
        records.add(record(plan="a", value=2.0))
        plans, fingerprint = (now := records.plans()), now.fingerprint
        records.add(record(plan="b", value=1.0))
        assert plans.find(RELU, own) == "a" and plans.fingerprint == fingerprint
        assert records.plans().find(RELU, own) == "b"


def test_the_first_that_has_a_plan_gives_it() -> None:
    table = Table({RELU.digest: "of a table"})
    database = BestPlans.of([record(), record(TANH, "of a database")])
    packed = BestPlans.of([record(TANH, "packed"), record(ELSEWHERE, "packed")])
    plans = in_turn(table, database, packed)
    assert [plans.find(task, own) for task in (RELU, TANH, Task("e0e0", "d2", "")) ] == [
        "of a table", "of a database", None]
    assert in_turn(database, packed).find(ELSEWHERE, own) == "packed"
    assert in_turn(Table({TANH.digest: ""}), database).find(TANH, own) == ""    # no step at all
    assert len({in_turn(*parts).fingerprint for parts in (
        (table,), (table, database), (database, table), (table, database, packed))}) == 4


def test_parts_without_plans_are_left_out() -> None:
    table = Table({"a": "b"})
    assert in_turn() is OWN and in_turn(BestPlans({}), OWN) is OWN
    assert in_turn(OWN, table, BestPlans({})) is table


def test_those_that_were_asked_for_bind() -> None:
    table, packed = Table({RELU.digest: "a"}), PackagedPlans.of([record(), record(TANH)])
    assert table.binds(RELU) and not table.binds(TANH)
    assert BestPlans.of([record()]).binds(RELU) and not packed.binds(RELU)
    plans = in_turn(table, packed)
    assert plans.binds(RELU) and not plans.binds(TANH)
    assert not in_turn(packed, table).binds(RELU)       # the packaged one is taken


def test_the_part_of_a_target_does_not_change_with_others() -> None:
    few = BestPlans.of([record(), record(TANH)])
    more = BestPlans.of([record(), record(TANH), record(ELSEWHERE)])
    assert few.of_target(RELU.fingerprint).fingerprint == few.fingerprint
    assert more.of_target(RELU.fingerprint).fingerprint == few.fingerprint
    assert more.of_target("another") is OWN and OWN.of_target("any") is OWN
    both = in_turn(Table({"a": "b"}), more)
    assert both.of_target("another").fingerprint == Table({"a": "b"}).fingerprint
    assert isinstance(PackagedPlans.of([record()]).of_target(RELU.fingerprint), PackagedPlans)


def test_packaged_plans_are_read(tmp_path, monkeypatch) -> None:
    assert PACKAGED.is_file() and isinstance(packaged(), BestPlans)
    (tmp_path / "plans").write_text("".join(text_lines([record(plan="a")])))
    monkeypatch.setattr(best, "PACKAGED", tmp_path / "plans")
    packaged.cache_clear()
    try:
        assert packaged().find(RELU, own) == "a"
    finally:
        packaged.cache_clear()
