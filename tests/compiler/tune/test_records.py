"""The database of records: nothing is lost, nothing stands twice, and the best is the best."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from compiler.plans import Task
from compiler.tune import records as module
from compiler.tune.record import Record, RecordsError, content_hash, text_lines
from compiler.tune.records import Records, default_path, records_of
from compiler.tune.space import Result
from tests.support.records import (EACH, ELSEWHERE, RELU, TANH, WRITERS, record, written)

ROOT = Path(__file__).parents[3]
PAGE = 4096                     # of SQLite
DAMAGED = "is damaged ({}); a copy or an export must replace it"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.sqlite"


def filled(path: Path, *records: Record) -> Path:
    with Records(path) as database:
        database.add_all(records)
    return path


def text(path: Path) -> str:
    with Records(path) as records:
        return "".join(text_lines(records))


# What is kept

def test_a_record_stands_once_however_often_it_is_added(path: Path) -> None:
    with Records(path) as records:
        assert records.add(record())
        assert not records.add(record())
        assert records.add_all([record(), record(trial="1"), record(trial="1")]) == 1
        assert [*records] == sorted([record(), record(trial="1")], key=lambda one: one.key)
        assert records.of(RELU) == [*records] and records.of(TANH) == []


def test_a_record_comes_back_as_it_was(path: Path) -> None:
    records = [record(), record(value=None, trial="1"), record(TANH, "a\nb ü", 3e-7, unit="cycles"),
               record(ELSEWHERE)]
    with Records(filled(path, *records)) as database:
        assert [*database] == sorted(records, key=lambda one: one.order)
        assert database.tasks() == [ELSEWHERE, RELU, TANH]


def test_of_one_trial_the_earliest_record_stays(tmp_path: Path) -> None:
    early = record(value=2.0)
    late = record(Task("f0f0", "d1d1", "relu"), value=1.0, when="2026-03-01T12:00:01Z")
    for number, order in enumerate(permutations([early, late])):
        with Records(filled(tmp_path / str(number), *order)) as records:
            assert [*records] == [early] and records.tasks() == [RELU]


def test_all_or_nothing_is_added(path: Path) -> None:
    def some():
        yield record()
        raise KeyboardInterrupt
    with Records(path) as records:
        with pytest.raises(KeyboardInterrupt):
            records.add_all(some())
        assert [*records] == []
        assert records.add(record())


def test_databases_merge_alike_in_any_order(tmp_path: Path) -> None:
    random = Random(3)
    trials = [record(task, f"plan {random.randrange(9)}", random.choice([None, 1.0, 2.0]),
                     str(random.randrange(9)), when=f"2026-03-0{random.randrange(1, 4)}T00:00:00Z")
              for task in (RELU, TANH, ELSEWHERE) for _ in range(40)]
    parts = [filled(tmp_path / f"part {number}", *trials[number::3]) for number in range(3)]
    (tmp_path / "lines").write_text(text(parts[2]))
    parts[2] = tmp_path / "lines"
    merged = set()
    for number, order in enumerate(permutations(parts)):
        with Records(tmp_path / f"merged {number}") as records:
            for part in order:
                records.merge(records_of(part))
            assert records.merge(records) == 0 and records.merge(records_of(order[0])) == 0
            merged.add("".join(text_lines(records)))
    assert len(merged) == 1 and merged.pop().count("\n") == 1 + len({one.key for one in trials})


# Which is the best

def test_the_least_value_is_the_best_and_errors_do_not_count(path: Path) -> None:
    with Records(path) as records:
        assert records.best(RELU) is None
        records.add(record(value=None))
        assert records.best(RELU) is None and records.plans().fingerprint == ""
        records.add_all([record(plan="a", value=2.0), record(plan="b", value=1.0),
                         record(plan="c", value=1.5), record(TANH, "d", 0.5),
                         record(ELSEWHERE, "e", 0.1)])
        assert records.best(RELU) == record(plan="b", value=1.0)
        assert [one.plan for one in records.every_best()] == ["e", "b", "d"]


def test_a_plan_that_was_measured_again_counts_with_its_median(path: Path) -> None:
    with Records(path) as records:
        for trial, value in enumerate([0.1, 3.0, 2.0]):
            records.add(record(plan="lucky once", value=value, trial=str(trial)))
        records.add(record(plan="steady", value=1.9))
        assert records.best(RELU) == record(plan="steady", value=1.9)
        records.add(record(plan="lucky once", value=1.8, trial="3"))        # the lower of two
        assert records.best(RELU) == record(plan="lucky once", value=1.8, trial="3")


def test_ties_go_to_the_earliest_whatever_the_order(tmp_path: Path) -> None:
    plans = sorted("abcd", key=lambda plan: record(plan=plan).key)
    ties = [record(plan=plan, when=f"2026-03-0{day}T00:00:00Z")
            for plan, day in zip(plans, (2, 3, 1, 1))]
    for number, order in enumerate(permutations(ties)):
        with Records(filled(tmp_path / str(number), *order)) as records:
            assert records.best(RELU) == ties[2]


def test_cycles_are_not_compared_with_seconds(path: Path) -> None:
    with Records(filled(path, record(plan="a", value=1e-6),
                        record(plan="b", value=900.0, unit="cycles"))) as records:
        assert records.best(RELU) == record(plan="b", value=900.0, unit="cycles")


def test_what_was_refused_does_not_count(path: Path) -> None:
    with Records(filled(path, record(plan="a", value=1.0), record(plan="b", value=2.0),
                        record(TANH, "a", 1.0), record(ELSEWHERE, "a", 1.0))) as records:
        assert records.noted(RELU, "a") is None
        records.note(RELU, "a", "compiler 2", "it is not legal")
        assert records.noted(RELU, "a") == ("compiler 2", "it is not legal")
        assert [(one.task, one.plan) for one in records.every_best()] == [
            (ELSEWHERE, "a"), (RELU, "b"), (TANH, "a")]
        records.note(RELU, "a", "compiler 3")
        assert [one.plan for one in records.every_best()] == ["a", "a", "a"]


# Several processes

def test_nothing_is_lost_or_doubled_by_writers_that_are_killed(path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.support.records", path, "5"], cwd=ROOT,
                          text=True, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= EACH // 20
    expected = [written(writer, number) for writer in range(WRITERS) for number in range(EACH)]
    with Records(path) as records:
        assert [*records] == sorted(expected, key=lambda one: one.order)


@pytest.mark.slow
def test_processes_make_a_database_at_the_same_time(path: Path) -> None:
    script = ("import sys; from tests.support.records import Path, Records, record;\n"
              "sys.stdin.read(1)\n"
              "for name in range(20):\n"
              "    with Records(Path(sys.argv[1]) / str(name)) as records:\n"
              "        records.add(record(trial=sys.argv[2]))\n")
    processes = [subprocess.Popen([sys.executable, "-c", script, path.parent, str(number)],
                                  cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
                 for number in range(3)]
    for process in processes:
        assert process.stdin
        process.stdin.write(b".")
        process.stdin.flush()
    assert [process.communicate(timeout=120)[1] for process in processes] == [b""] * 3
    for name in range(20):
        with Records(path.parent / str(name)) as records:
            assert len([*records]) == 3


def test_who_makes_the_database_waits_for_others_in_the_file(path: Path, monkeypatch) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")            # SQLite itself does not wait for this
    monkeypatch.setattr(module, "sleep", lambda seconds: other.close())
    with Records(path) as records:
        assert records.add(record())
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):      # it did have to wait
        other.execute("ROLLBACK")


HOLDER = ("import sqlite3, sys\n"
          "file = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
          "file.execute('BEGIN IMMEDIATE')\n"
          "print(flush=True)\n"
          "sys.stdin.read()\n")


def test_a_busy_database_is_one_line_and_free_when_the_other_is_killed(path: Path) -> None:
    filled(path)
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline() == b"\n"
        with Records(path, patience_seconds=0.05) as records:
            with pytest.raises(RecordsError, match="^'.*' has been busy for 0.05 s: another "
                                                   "process writes into it$"):
                records.add(record())
            assert [*records] == []
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            assert records.add(record())


# Files that are something else

def refused(path: Path) -> str:
    with pytest.raises(RecordsError) as caught, Records(path, 0.05) as records:
        records.add(record())
    assert caught.value.exit_status == 2
    name = repr(str(path))
    assert str(caught.value).startswith(name)
    return str(caught.value).removeprefix(f"{name} ")


@pytest.mark.parametrize("content", [b"no database", b"\0" * 5000, b"SQLite format 3\0" * 400])
def test_a_file_that_is_no_database_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert refused(path) == "must be a database of records, not another file"
    assert path.read_bytes() == content


def test_a_database_of_something_else_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE bookmarks (name TEXT)")
    other.close()
    content = path.read_bytes()
    assert refused(path) == "must be a database of records, not of something else"
    assert path.read_bytes() == content


def altered(path: Path, *statements: str) -> Path:
    other = sqlite3.connect(path)
    with other:
        for statement in statements:
            other.execute(statement)
    other.close()
    return path


def test_a_newer_format_is_refused(path: Path) -> None:
    altered(filled(path, record()), "PRAGMA user_version = 4")
    assert refused(path) == ("is a database of format 4, which a newer Lockstep wrote; this one "
                             "reads formats up to 3")


WITHOUT_HASHES = ("ALTER TABLE records DROP COLUMN hash", "ALTER TABLE checks DROP COLUMN hash",
                  "PRAGMA user_version = 2")


def test_a_database_of_the_first_format_keeps_its_records(path: Path) -> None:
    altered(filled(path, record()), *WITHOUT_HASHES, "ALTER TABLE records DROP COLUMN details",
            "PRAGMA user_version = 1")
    point = replace(record(plan="point"), result=Result(2.0, "cycles", details="[1]"))
    for _ in range(2):
        with Records(path) as records:
            records.add(point)
            assert {one.plan: one.result.details for one in records} == {
                "split(y_i, 4)": "", "point": "[1]"}
            assert [one.plan for one in records.every_best()] == ["split(y_i, 4)"]


def test_a_database_of_the_format_before_gets_hashes(path: Path) -> None:
    kept = [record(), record(value=None, trial="1"), record(TANH, "a\nb ü", 3e-7)]
    with Records(filled(path, *kept)) as records:
        records.note(RELU, "x", "compiler 2", "it is not legal")
    altered(path, *WITHOUT_HASHES)
    with Records(path) as records:
        assert [*records] == sorted(kept, key=lambda one: one.order)
        assert records.noted(RELU, "x") == ("compiler 2", "it is not legal")
    with Records(path):                                     # and they are right
        pass
    altered(path, "UPDATE records SET value = value + 1")
    assert refused(path) == DAMAGED.format("a record was altered after it was added")


def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path) == "must be a file"
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "must be a file"
    assert refused(tmp_path / "no" / "folder") == ("must be a file in a folder that exists and can "
                                                   "be written")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_file_that_is_read_only_is_refused() -> None:
    script = ("import os, sys, tempfile; from pathlib import Path\n"
              "from tests.support.records import Records, record\n"
              "folder = Path(tempfile.mkdtemp()); folder.chmod(0o755); path = folder / 'r'\n"
              "Records(path).close()\n"
              "os.seteuid(65534)\n"
              "try: Records(path).add(record())\n"
              "except Exception as error: print(type(error).__name__, error)\n"
              "os.seteuid(0); path.unlink(); folder.rmdir()\n")
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, text=True, check=True,
                          capture_output=True)
    assert re.fullmatch(r"RecordsError '.*/r' (must be a file in a folder that exists and can be "
                        r"written|cannot be written: the file or its folder is read-only)\n",
                        done.stdout)


def test_a_file_without_write_permission_can_be_read(path: Path, monkeypatch) -> None:
    connect = sqlite3.connect

    def read_only(name: Path, **options):
        return connect(f"file:{name}?mode=ro", uri=True, **options)

    filled(path, record())
    monkeypatch.setattr(sqlite3, "connect", read_only)
    with Records(path) as records:
        assert [*records] == [record()]
        with pytest.raises(RecordsError, match="cannot be written: the file or its folder is "
                                               "read-only$"):
            records.add(record(TANH))


def spoiled(content: bytes, random: Random, kind: int) -> bytes:
    """The content of a file with a bit, some bytes, or a page that is another, or cut."""
    damaged, place = bytearray(content), random.randrange(100, len(content))
    match kind:
        case 0: damaged[place] ^= 1 << random.randrange(8)
        case 1: damaged[place:place + 16] = bytes(min(16, len(damaged) - place))
        case 2: del damaged[place:]
        case 3:
            first, second = (slice(at * PAGE, (at + 1) * PAGE)
                             for at in random.sample(range(1, len(content) // PAGE), 2))
            damaged[first], damaged[second] = damaged[second], damaged[first]
        case _:
            for _ in range(200):
                damaged[random.randrange(100, len(damaged))] = random.randrange(256)
    return bytes(damaged)


def test_a_damaged_file_is_one_line_or_the_same(path: Path) -> None:
    filled(path, *(written(0, number) for number in range(EACH)))
    with Records(path) as records:
        for number in range(0, EACH, 3):
            kept = written(0, number)
            records.note(kept.task, kept.plan, "compiler 2", "refused" if number % 2 else "")
        whole, best = [*records], records.every_best()
    content, random, messages = path.read_bytes(), Random(9), set()
    for number in range(60):
        path.write_bytes(spoiled(content, random, number % 5))
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        try:
            with Records(path, 0.05) as records:
                assert records.every_best() == best and [*records] == whole
                records.add_all([*records])
        except RecordsError as error:
            assert "\n" not in str(error)
            messages.add(str(error).removeprefix(f"{str(path)!r} ").partition(" (")[0])
    assert "is damaged" in messages


def test_values_of_other_types_are_damage(path: Path) -> None:
    """Even with the right hash."""
    altered(filled(path, record()), "UPDATE records SET value = 'fast'")
    with sqlite3.connect(path) as other:
        row = other.execute("SELECT * FROM records").fetchone()
        other.execute("UPDATE records SET hash = ?", [content_hash(*row[:-1])])
    other.close()
    with pytest.raises(RecordsError) as caught, Records(path) as records:
        records.of(RELU)
    assert str(caught.value) == f"{str(path)!r} " + DAMAGED.format(
        "value of a record must be a finite number of at least 0, not 'fast'")


@pytest.mark.parametrize(("statement", "reason"), [
    *((f'UPDATE records SET "{column}" = {value}', "a record was altered after it was added")
      for column, value in (("plan", "'split(y_i, 8)'"), ("value", "1.4"), ("value", "NULL"),
                            ("unit", "'cycles'"), ("error", "'no'"), ("where", "'here'"),
                            ("seed", "8"), ("trial", "'9'"), ("versions", "'compiler 2'"),
                            ("when", "'2027-03-01T12:00:00Z'"), ("details", "'{}'"),
                            ("key", "'a'"), ("hash", "''"))),
    *((f"UPDATE tasks SET {column} = 'f1f1'", "a task was altered after it was added")
      for column in ("fingerprint", "digest", "title", "body")),
    *((f'UPDATE checks SET "{column}" = \'other\'', "a check was altered after it was added")
      for column in ("plan", "versions", "when", "reason")),
    ("DELETE FROM tasks", "the task of a record is not there")])
def test_what_was_altered_by_hand_is_noticed(path: Path, statement: str, reason: str) -> None:
    with Records(filled(path, record())) as records:
        records.note(RELU, "x", "compiler 2", "it is not legal")
    altered(path, statement)
    assert refused(path) == DAMAGED.format(reason)


# Where it lies

def test_it_lies_in_the_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "a" / "cache"))
    with Records.in_cache() as records:
        assert records.path == default_path() == tmp_path / "a" / "cache" / "records.sqlite"
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "file"))
    with pytest.raises(RecordsError, match="^Cache .*/file must be a folder, but .*/file is none; "
                                           "LOCKSTEP_CACHE may name another one$"):
        Records.in_cache()


def test_a_file_to_merge_must_be_there(path: Path) -> None:
    with pytest.raises(RecordsError, match="^'.*/records.sqlite' cannot be read: No such file"):
        records_of(path)
