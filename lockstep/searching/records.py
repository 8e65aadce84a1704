"""Carries out ``lockstep records``."""

import argparse
import json
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from compiler.errors import RequestError
from compiler.files import write_text
from compiler.plans import Task
from compiler.tune.record import Record, as_json, text_lines, versions
from compiler.tune.records import Records, default_path, records_of
from compiler.tune.replay import Replayed, replays
from compiler.tune.replay import check as replayed
from compiler.tune.space import CountsCycles, Tunable
from lockstep.printing.progress import progress_bar
from lockstep.printing.table import show_columns
from lockstep.printing.lines import say, shortened
from runtime.driver.targets import Placed, request

SHORT = 8       # digits of a hash in a table
DAY = 10        # of a time
HEADINGS = ("task", "digest", "target", "trials", "failed", "best", "last")


def show(args: argparse.Namespace) -> int:
    with _opened(args.db) as records:
        chosen = [*filter(_filter(args), records)]
        found = {_task(record): record for record in records.every_best()}
    rows = []
    for task, group in groupby(chosen, _task):
        of_task = [*group]
        failed = sum(bool(record.result.error) for record in of_task)
        rows.append((shortened(of_task[-1].task.title), task[1][:SHORT], task[0][:SHORT],
                     str(len(of_task)), str(failed),
                     _value(found[task]) if task in found else "-", of_task[-1].when[:DAY]))
    _write(args, [as_json(record) for record in chosen])
    show_columns(f"{_count(len(rows), 'task')}, {_count(len(chosen), 'trial')}", HEADINGS, rows, 3)
    return 0


def best(args: argparse.Namespace) -> int:
    with _opened(args.db) as records:
        chosen = [*filter(_filter(args), records.every_best())]
    _write(args, [as_json(record) for record in chosen])
    for record in chosen:
        say(f"{_titled(record.task)}: {_value(record)} on {record.where}, {record.when}")
        for line in record.plan.splitlines():
            print(f"    {line}")
    if not chosen:
        say("no plans")
    return 0


def merge(args: argparse.Namespace) -> int:
    others = [record for path in args.files for record in records_of(path)]
    with Records(args.db) if args.db else Records.in_cache() as records:
        new = records.merge(others)
    _write(args, {"read": len(others), "new": new})
    say(f"{_count(len(others), 'record')} read, {new:,} new")
    return 0


def export(args: argparse.Namespace) -> int:
    with _opened(args.db) as records:
        chosen = filter(_filter(args), records.every_best() if args.best else records)
        text = "".join(text_lines(chosen))
    if args.output:
        write_text(args.output, text)
    else:
        print(text, end="")
    return 0


def check(args: argparse.Namespace) -> int:
    placed = _placed(args.target)
    target = placed.target
    if not isinstance(target, Tunable | CountsCycles):
        raise RequestError(f"--target must be one whose plans can be replayed, not {args.target!r}")
    with _opened(args.db) as records:
        checked: list[Replayed] = []
        with progress_bar("replay", 0, lambda: len(checked)):
            replay = replays(target, placed.device)
            for entry in replayed(records, target.fingerprint, replay, args.best):
                checked.append(entry)
        others = sum(task.fingerprint != target.fingerprint for task in records.tasks())
        bare = sum(task.fingerprint == target.fingerprint and not task.body
                   for task in records.tasks())
    refused = [entry for entry in checked if entry.reason is not None]
    _write(args, {"versions": versions(), "held": _plans(checked, False),
                  "refused": _plans(checked, True), "other_targets": others})
    for entry in refused:
        say(f"refused: {_titled(entry.record.task)}, {_value(entry.record)}, measured by "
            f"{entry.record.versions}: {_first_line(entry.reason)}")
    say(f"{_count(len(checked) - len(refused), 'plan')} held by {versions()}, {len(refused):,} "
        f"refused, {_count(others, 'task')} of other targets not checked"
        + (f", {_count(bare, 'task')} without the text that makes it again" if bare else ""))
    return 1 if refused else 0


def _first_line(reason: str | None) -> str:
    """The reason without the program that a schedule's has behind it."""
    return (reason or "").partition("\n")[0]


def _plans(checked: Iterable[Replayed], refused: bool) -> list[dict[str, Any]]:
    return [{**as_json(entry.record), **({"reason": entry.reason} if refused else {})}
            for entry in checked if (entry.reason is not None) == refused]


def _opened(path: Path | None) -> Records:
    """The database to read, which must exist."""
    path = path or default_path()
    if not path.is_file():
        raise RequestError(f"{str(path)!r} must be a database of records that exists; --db names "
                           f"another one")
    return Records(path)


def _filter(args: argparse.Namespace):
    """The test for a record of the tasks and the target that the options name."""
    text, target = args.task or "", args.target or ""
    if target and not re.fullmatch("[0-9a-f]{4,64}", target):
        target = _placed(target).target.fingerprint

    def is_chosen(record: Record) -> bool:
        task = record.task
        return ((text in task.title or task.digest.startswith(text))
                and task.fingerprint.startswith(target))
    return is_chosen


def _placed(text: str) -> Placed:
    asked = request(text)
    if asked.auto or len(asked.names) > 1:
        raise RequestError(f"--target must be one target, not {text!r}")
    return next(iter(asked.placed(lambda machine: None)))


def _task(record: Record) -> tuple[str, str]:
    return record.task.fingerprint, record.task.digest


def _titled(task: Task) -> str:
    return f"{task.title} (task {task.digest[:SHORT]}, target {task.fingerprint[:SHORT]})"


def _value(record: Record) -> str:
    value = record.result.value
    if value is None:
        return "-"
    if record.result.unit == "cycles":
        return f"{value:,.0f} cycles"
    return next(f"{value * factor:.4g} {unit}" for unit, factor in (
        ("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)) if value * factor >= 1 or unit == "ns")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _write(args: argparse.Namespace, content: Any) -> None:
    if args.json:
        write_text(args.json, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
