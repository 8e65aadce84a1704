"""`lockstep records`: what searches have measured, looked at, merged, exported and checked."""

import json
import os
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import lockstep
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.plans import PlanRefused, Recorder, Task
from compiler.tune.record import read_lines
from compiler.tune.records import Records
from lockstep import cli
from lockstep.cli import main
from lockstep.searching import records as _records
from tests.support.records import ELSEWHERE, RELU, TANH, record

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
TRIALS = (record(plan="split(y_i, 4)\nvectorize(y_i_1)", value=1.25e-5), record(plan="slow"),
          record(plan="broken", value=None), record(TANH, "tiles", 12_000.0, unit="cycles"),
          record(ELSEWHERE, "of another", 2e-3))


@pytest.fixture
def db(tmp_path: Path) -> str:
    with Records(tmp_path / "db") as records:
        records.add_all(TRIALS)
    return str(tmp_path / "db")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def refusal(capsys, *line: str) -> str:
    assert main(["records", *line]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err.removeprefix("lockstep: error: ").rstrip()


def rows(out: str) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in out.splitlines()]


def test_tasks_are_listed(capsys, db: str) -> None:
    assert main(["records", "show", "--db", db]) == 0
    title, heading, *tasks = rows(capsys.readouterr().out)
    assert title == ["3 tasks, 5 trials"]
    assert heading == ["task", "digest", "target", "trials", "failed", "best", "last"]
    when = "2026-03-01"
    assert tasks == [["relu of float32[16]", "d1d1", "e0e0", "1", "0", "2 ms", when],
                     ["relu of float32[16]", "d1d1", "f0f0", "3", "1", "12.5 us", when],
                     ["tanh of float32[16]", "d2d2", "f0f0", "1", "0", "12,000 cycles", when]]


def test_the_best_plans_are_printed(capsys, db: str) -> None:
    assert main(["records", "best", "--db", db, "--target", "f0f0"]) == 0
    assert capsys.readouterr().out == (
        "relu of float32[16] (task d1d1, target f0f0): 12.5 us on a processor, "
        "2026-03-01T12:00:00Z\n    split(y_i, 4)\n    vectorize(y_i_1)\n"
        "tanh of float32[16] (task d2d2, target f0f0): 12,000 cycles on a processor, "
        "2026-03-01T12:00:00Z\n    tiles\n")


@pytest.mark.parametrize(("options", "number"), [
    ([], 5), (["--task", "relu"], 4), (["--task", "d2"], 1), (["--task", "2d"], 0),
    (["--target", "e0e0"], 1), (["--target", "f0f0", "--task", "relu"], 3),
    (["--target", "cpu"], 0)])
def test_filters_choose_tasks_and_targets(capsys, db: str, tmp_path, options, number) -> None:
    assert main(["records", "show", "--db", db, "--json", str(tmp_path / "j"), *options]) == 0
    assert len(json.loads((tmp_path / "j").read_text())) == number
    assert main(["records", "export", "--db", db, "-o", str(tmp_path / "r"), *options]) == 0
    assert len(read_lines(tmp_path / "r")) == number
    assert main(["records", "best", "--db", db, *options]) == 0
    assert ("no plans" in capsys.readouterr().out) == (number == 0)


def test_a_target_is_one_that_compile_takes(capsys, db: str) -> None:
    with Records(db) as records:
        records.add(record(Task(CpuTarget(threads=3).fingerprint, "d1d1", "of 3 threads"), "plan"))
    assert main(["records", "best", "--db", db, "--target", "cpu:3"]) == 0
    assert capsys.readouterr().out.startswith("of 3 threads")
    assert refusal(capsys, "show", "--db", db, "--target", "f0g0").startswith("Target must be ")
    assert refusal(capsys, "show", "--db", db, "--target", "cpu,opencl") == (
        "--target must be one target, not 'cpu,opencl'")


def test_what_is_exported_is_merged(capsys, db: str, tmp_path: Path) -> None:
    lines, other = str(tmp_path / "lines"), str(tmp_path / "other")
    assert main(["records", "export", "--db", db, "-o", lines]) == 0
    assert capsys.readouterr().out == ""
    assert main(["records", "export", "--db", db]) == 0
    assert capsys.readouterr().out == Path(lines).read_text()
    for first, second in ((lines, "5 records read, 5 new"), (db, "5 records read, 0 new")):
        assert main(["records", "merge", first, "--db", other, "--json", f"{other}.json"]) == 0
        assert capsys.readouterr().out == f"{second}\n"
    assert json.loads(Path(f"{other}.json").read_text()) == {"read": 5, "new": 0}
    assert main(["records", "export", "--db", other]) == 0
    assert capsys.readouterr().out == Path(lines).read_text()


def test_the_best_are_exported(db: str, tmp_path: Path) -> None:
    assert main(["records", "export", "--best", "--db", db, "-o", str(tmp_path / "r")]) == 0
    assert read_lines(tmp_path / "r") == [TRIALS[4], TRIALS[0], TRIALS[3]]


def test_the_database_of_the_cache_is_used(capsys, db: str, own_cache: Path) -> None:
    assert refusal(capsys, "show") == (f"{str(own_cache / 'records.sqlite')!r} must be a database "
                                       f"of records that exists; --db names another one")
    assert not own_cache.exists()
    assert main(["records", "merge", db]) == 0
    assert main(["records", "show"]) == 0
    assert capsys.readouterr().out.startswith("5 records read, 5 new\n3 tasks, 5 trials")


@pytest.mark.parametrize("command", ["show", "best", "export", "check", "merge"])
def test_a_file_in_place_of_the_cache_is_one_line(capsys, command: str, db: str, own_cache: Path
                                                  ) -> None:
    own_cache.touch()
    assert refusal(capsys, command, *[db][command != "merge":]) == (
        f"Cache {own_cache} must be a folder, but {own_cache} is none; LOCKSTEP_CACHE may name "
        f"another one")


@pytest.mark.parametrize("command", ["show", "best", "export", "check", "merge"])
def test_records_that_were_altered_are_one_line(capsys, command: str, db: str, tmp_path: Path
                                                ) -> None:
    lines, other = tmp_path / "lines", str(tmp_path / "other")
    assert main(["records", "export", "--db", db, "-o", str(lines)]) == 0
    with sqlite3.connect(db) as file:
        file.execute("UPDATE records SET value = 1e-9 WHERE value > 1")
    file.close()
    damaged = (f"{db!r} is damaged (a record was altered after it was added); a copy or an export "
               f"must replace it")
    if command != "merge":
        assert refusal(capsys, command, "--db", db) == damaged
        return
    assert refusal(capsys, "merge", db, "--db", other) == damaged
    lines.write_text(lines.read_text().replace('"value": 1.5', '"value": 1.25'))
    assert refusal(capsys, "merge", str(lines), "--db", other).endswith(
        ": hash of a record must be that of what it says: it was altered")


@pytest.mark.parametrize("command", ["show", "best", "export", "check", "merge"])
def test_a_file_that_is_no_database_is_one_line(capsys, command: str, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("no records\n")
    line = [command, str(path), "--db", f"{path}.db"] if command == "merge" else [
        command, "--db", str(path)]
    assert refusal(capsys, *line).startswith(f"{str(path)!r} must be a ")
    assert not Path(f"{path}.db").exists()
    if command != "merge":
        assert refusal(capsys, command, "--db", str(tmp_path)) == (
            f"{str(tmp_path)!r} must be a file that exists")


def test_a_database_is_not_merged_into_itself(capsys, db: str) -> None:
    assert refusal(capsys, "merge", db, "--db", db) == (
        f"--db {db!r} must be another file than {db!r}, which is read")


def test_a_pipe_is_refused(capsys, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(capsys, "show", "--db", str(tmp_path / "pipe")).endswith(
        "must be a file that exists")
    assert refusal(capsys, "merge", str(tmp_path / "pipe")).endswith("must be a file that exists")


# check

class Replaying:
    """A target of which every plan but `slow` is legal."""

    fingerprint = "f0f0"

    def space(self, task: Task) -> SimpleNamespace:
        return SimpleNamespace(task=task)

    def decides_tasks(self, task: Task) -> bool:
        return False

    def measurable(self, task: Task, plan: str, seed: int, device: object = None):
        assert device == "of the target"
        if plan == "slow":
            raise PlanRefused("Plan must be a fast one\nprogram")
        return lambda: None


@pytest.fixture
def replaying(monkeypatch) -> None:
    monkeypatch.setattr(_records, "_placed",
                        lambda text: SimpleNamespace(target=Replaying(), device="of the target"))


def test_refused_plans_are_told_and_end_with_status_1(capsys, db: str, tmp_path: Path,
                                                      replaying) -> None:
    assert main(["records", "check", "--db", db, "--json", str(tmp_path / "r")]) == 1
    refused, summary = capsys.readouterr().out.splitlines()
    assert refused == ("refused: relu of float32[16] (task d1d1, target f0f0), 1.5 s, measured by "
                       "compiler 1: Plan must be a fast one")
    assert re.fullmatch(r"2 plans held by compiler [0-9a-f]{12}, .*, 1 refused, 1 task of other "
                        r"targets not checked", summary)
    report = json.loads((tmp_path / "r").read_text())
    assert [entry["plan"] for entry in report["held"]] == ["split(y_i, 4)\nvectorize(y_i_1)",
                                                           "tiles"]
    (entry,) = report["refused"]
    assert (entry["plan"], entry["reason"]) == ("slow", "Plan must be a fast one\nprogram")
    with Records(db) as records:
        assert records.noted(RELU, "slow") == (report["versions"], entry["reason"])


def test_the_best_alone_may_be_checked(capsys, db: str, replaying) -> None:
    assert main(["records", "check", "--best", "--db", db]) == 0
    assert capsys.readouterr().out.startswith("2 plans held by compiler ")


def test_plans_of_the_processor_are_replayed(capsys, tmp_path: Path) -> None:
    recorder = Recorder()
    lockstep.compile(DIGITS, "cpu", plans=recorder, cache=False)
    kept = [record(task, plan) for task, plan in recorder.recorded.items()]
    groups = [one for one in kept if "split" in one.plan]
    first, other = groups[0], next(one for one in groups if one.plan != groups[0].plan)
    body = replace(first.task, body=other.task.body)
    altered = [replace(first, plan=other.plan, trial="1"),
               replace(first, task=body, plan=f"{other.plan}\n", trial="2")]
    with Records(tmp_path / "db") as records:
        records.add_all([*kept, *altered, record(ELSEWHERE)])
    assert main(["records", "check", "--db", str(tmp_path / "db"), "--target", "cpu"]) == 1
    *refused, summary = capsys.readouterr().out.splitlines()
    assert len(refused) == 2 and all(line.startswith("refused: ") for line in refused)
    assert summary.startswith(f"{len(kept)} plans held by ")
    assert summary.endswith("2 refused, 1 task of other targets not checked")
    with Records(tmp_path / "db") as records:
        assert {one.task: one.plan for one in records.every_best() if one.task != ELSEWHERE} == (
            recorder.recorded)


def test_a_target_whose_plans_are_not_replayed_is_one_line(capsys, db: str, monkeypatch) -> None:
    monkeypatch.setattr(_records, "_placed", lambda text: SimpleNamespace(target=object()))
    assert refusal(capsys, "check", "--db", db, "--target", "opencl") == (
        "--target must be one whose plans can be replayed, not 'opencl'")


def test_a_command_must_be_given(capsys) -> None:
    assert "required: COMMAND" in refusal(capsys)
    assert cli.make_parser().parse_args(["records", "check"]).target == "cpu"
