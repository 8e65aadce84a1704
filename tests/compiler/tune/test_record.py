"""Records of trials, and files of them."""

import json
import re
from pathlib import Path

import pytest

from compiler.errors import ArgumentError
from compiler.plans import Task
from compiler.tune.record import (Record, RecordsError, as_json, from_json, now, processor_name,
                                  read_lines, text_lines, versions)
from compiler.tune.space import Result
from tests.support.records import RELU, TANH, record

HEADING = '{"lockstep": "records", "format": 1}\n'


def written(path: Path, *records: Record) -> Path:
    path.write_text("".join(text_lines(records)))
    return path


def test_a_record_says_by_what_and_when_it_was_made() -> None:
    made = Record(RELU, "", Result(1.0, "s"), processor_name(), 0, "a")
    assert made.versions == versions() and made.when <= now()
    assert re.fullmatch(r"compiler [0-9a-f]{12}, islpy \S+, llvmlite \S+", versions())


def test_versions_follow_the_folders_and_packages() -> None:
    theirs = versions(("compiler", "accel"), ("numpy",))
    assert re.fullmatch(r"compiler accel [0-9a-f]{12}, numpy \S+", theirs)
    assert theirs.split()[2] not in versions()


def test_a_record_comes_back_from_a_file(tmp_path: Path) -> None:
    records = [record(), record(value=None), record(TANH, "a\nb ü", 3e-7, unit="cycles")]
    assert [from_json(as_json(one)) for one in records] == records
    assert read_lines(written(tmp_path / "r", *records)) == sorted(records,
                                                                   key=lambda one: one.order)


def test_the_order_of_a_file_follows_from_its_records(tmp_path: Path) -> None:
    records = [record(task, trial=trial, when=when) for task in (TANH, RELU) for trial in "ba"
               for when in ("2026-03-02T00:00:00Z", "2026-03-01T00:00:00Z")]
    forth, back = (written(tmp_path / name, *some).read_text()
                   for name, some in (("a", records), ("b", records[::-1])))
    assert forth == back
    whens = [json.loads(line)["when"] for line in forth.splitlines()[1:5]]
    assert whens == sorted(whens)


def test_a_whole_number_of_cycles_is_the_same_record(tmp_path: Path) -> None:
    whole, real = (record(value=value, unit="cycles") for value in (900, 900.0))
    assert [*text_lines([whole])] == [*text_lines([real])] and whole.order == real.order


def test_details_come_back(tmp_path: Path) -> None:
    point = Record(RELU, "p", Result(9.0, "cycles", details='{"a": 1}'), "a", 0, "a")
    path = written(tmp_path / "r", record(), point)
    assert path.read_text().startswith('{"lockstep": "records", "format": 3}\n')
    assert sorted(one.result.details for one in read_lines(path)) == ["", '{"a": 1}']


def test_files_may_be_joined(tmp_path: Path) -> None:
    both = written(tmp_path / "a", record()).read_text() + written(tmp_path / "b",
                                                                   record(TANH)).read_text()
    (tmp_path / "both").write_text(both)
    assert read_lines(tmp_path / "both") == [record(), record(TANH)]


@pytest.mark.parametrize(("change", "same"), [
    ({}, True), ({"when": "2026-03-02T00:00:00Z"}, True), ({"value": 2.0}, True),
    ({"where": "another"}, True), ({"title": "another"}, True), ({"trial": "1"}, False),
    ({"plan": "unroll(y_i)"}, False), ({"unit": "cycles"}, False), ({"digest": "d2"}, False),
    ({"versions": "compiler 2"}, False), ({"fingerprint": "e0e0"}, False)])
def test_what_a_sender_repeats_has_the_same_key(change: dict, same: bool) -> None:
    assert (from_json(as_json(record()) | change).key == record().key) is same


@pytest.mark.parametrize(("change", "message"), [
    ({"plan": 3}, "plan of a record must be text, not 3"),
    ({"plan": "\ud800"}, "plan of a record must be text, not '\\ud800'"),
    ({"title": "a\0b"}, "title of a record must be text, not 'a\\x00b'"),
    ({"trial": ""}, "trial of a record must not be empty"),
    ({"digest": ""}, "digest of a record must not be empty"),
    ({"unit": "ms"}, "unit of a record must be s or cycles, not 'ms'"),
    ({"unit": ["s"]}, "unit of a record must be text, not ['s']"),
    ({"error": "no"}, "A record must have a value or an error, not both"),
    ({"value": None}, "A record must have a value or an error, not both"),
    ({"value": float("nan")}, "value of a record must be a finite number of at least 0, not nan"),
    ({"value": -1.0}, "value of a record must be a finite number of at least 0, not -1.0"),
    ({"value": True}, "value of a record must be a finite number of at least 0, not True"),
    ({"value": "1"}, "value of a record must be a finite number of at least 0, not '1'"),
    ({"seed": 1 << 63}, f"seed of a record must be an integer of 64 bits, not {1 << 63}"),
    ({"seed": 1.0}, "seed of a record must be an integer of 64 bits, not 1.0"),
    ({"when": "2026-3-1T0:00:00Z"}, "when of a record must be a time like 2026-01-31T23:59:59Z, "
                                    "not '2026-3-1T0:00:00Z'"),
    ({"host": "a"}, "A record must not have 'host'")])
def test_a_wrong_record_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        from_json(as_json(record()) | change)


def test_a_huge_value_is_refused() -> None:
    with pytest.raises(ArgumentError, match="^value of a record must be a finite number"):
        record(value=10 ** 400)


@pytest.mark.parametrize("text", [
    "", "no json", "[]", "3", HEADING.strip() + "[]", '{"lockstep": "plans", "format": 1}',
    '{"lockstep": "records"}', '{"lockstep": "records", "format": true}', "[" * 100_000,
    json.dumps(as_json(record())), HEADING + "\n", HEADING + "\n\n"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r").write_text(text)
    with pytest.raises(RecordsError, match=r"^'.*/r' must be a file of records") as caught:
        read_lines(tmp_path / "r")
    assert caught.value.exit_status == 2


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(b"\xff\xfe")
    with pytest.raises(RecordsError, match="^'.*/r' must be a file of records: it is no text$"):
        read_lines(tmp_path / "r")
    with pytest.raises(RecordsError, match="^'.*/q' must be a file of records: No such file"):
        read_lines(tmp_path / "q")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").write_text(HEADING.replace("1", "4"))
    with pytest.raises(RecordsError, match="^'.*/r' has records of format 4, which a newer Lockstep"
                                           " wrote; this one reads formats up to 3$"):
        read_lines(tmp_path / "r")


def test_lines_of_older_formats_have_no_hashes(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_text(f"{HEADING}{json.dumps(as_json(record()))}\n" +
                    "".join(text_lines([record(TANH)])))
    assert read_lines(path) == [record(), record(TANH)]


@pytest.mark.parametrize(("before", "after"), [
    ('"value": 1.5', '"value": 1.25'), ("split(y_i, 4)", "split(y_i, 8)"),
    ('"trial": "0"', '"trial": "1"'), ("relu float32 16", "relu float32 8"),
    ('"hash": "', '"hash": "0'), (', "hash"', ', "details": "{}", "hash"')])
def test_a_line_that_was_altered_is_noticed(tmp_path: Path, before: str, after: str) -> None:
    path = written(tmp_path / "r", record())
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))
    with pytest.raises(RecordsError, match="^'.*/r', line 2: hash of a record must be that of what "
                                           "it says: it was altered$"):
        read_lines(path)


def test_a_line_without_its_hash_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "r")
    with path.open("a") as file:
        print(json.dumps(as_json(record())), file=file)
    with pytest.raises(RecordsError, match="^'.*/r', line 2: A record must have 'hash'$"):
        read_lines(path)


def test_a_wrong_line_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "r", record())
    path.write_text(path.read_text().replace('"value": 1.5', '"value": -1.5'))
    with pytest.raises(RecordsError, match="^'.*/r', line 2: value of a record must be a finite "
                                           "number of at least 0, not -1.5$"):
        read_lines(path)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(RecordsError, match="^'.*/r' must be a file of records; line 2 is no object "
                                           "in JSON$"):
        read_lines(path)


def test_a_task_is_that_of_plans() -> None:
    assert from_json(as_json(record())).task == Task("f0f0", "d1d1", "relu of float32[16]",
                                                     "relu float32 16")
