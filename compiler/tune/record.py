"""The record of one trial of a plan, and files of such records: one JSON object a line.

A file begins with a line that says what it is, so files may be joined by ``cat``. Records stand in
their order (`Record.order`): equal records give equal files. With each stands a hash of what it
says, so that one that was altered is noticed; files of formats 1 and 2 have none.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compiler.errors import ArgumentError, RequestError
from compiler.native import digest
from compiler.plans import Task
from compiler.tune.space import Result

FORMAT = 3
FIRST_HASHED = 3                    # format of files
UNITS = ("s", "cycles")
LARGEST_SEED = (1 << 63) - 1        # an integer of SQLite
LARGEST_VALUE = sys.float_info.max
TIME = "%Y-%m-%dT%H:%M:%SZ"
SOURCES = Path(__file__).parents[2]
HEADING = json.dumps({"lockstep": "records", "format": FORMAT})


class RecordsError(RequestError):
    """Records that cannot be read or kept: which file, and why."""


def now() -> str:
    """This moment: UTC, to the second."""
    return datetime.now(UTC).strftime(TIME)


@cache
def versions(rooms: tuple[str, ...] = ("compiler",),
             packages: tuple[str, ...] = ("islpy", "llvmlite")) -> str:
    """The versions that decide a plan's result: a hash of our sources in these folders, and
    versions of packages.

    Like ``compiler 4f0c2a91d3b7, islpy 2025.2.5, llvmlite 0.45.1``.
    """
    total = hashlib.sha256()
    for room in rooms:
        for path in sorted((SOURCES / room).rglob("*")):
            if path.suffix in (".py", ".toml", ".cpp", ".h"):
                total.update(f"{path.relative_to(SOURCES)} ".encode())
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return ", ".join([f"{' '.join(rooms)} {total.hexdigest()[:12]}",
                      *(f"{package} {version(package)}" for package in packages)])


@cache
def processor_name() -> str:
    """The model of this processor. It names no computer and no user."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models and models[0] else "a processor"


@dataclass(frozen=True, slots=True)
class Record:
    """A trial: which plan was measured for which task, and what came of it.

    Parameters
    ----------
    where : the processor or the device, such as its model. Records are shared: no names or
        addresses of computers, no paths.
    seed : the search's.
    trial : what distinguishes this trial from others of the same plan, such as the search's name
        and a number. Who sends a record again after a crash must give the same text.
    versions : of what compiled the plan, as `versions` gives them.
    when : UTC, as `now` gives it.
    """

    task: Task
    plan: str
    result: Result
    where: str
    seed: int
    trial: str
    versions: str = field(default_factory=versions)
    when: str = field(default_factory=now)

    def __post_init__(self) -> None:
        for name, text in as_json(self).items():
            if name not in ("value", "seed"):
                _require_text(name, text)
            if name in ("fingerprint", "digest", "trial", "versions") and not text:
                raise ArgumentError(f"{name} of a record must not be empty")
        _require_result(self.result)
        if type(self.seed) is not int or abs(self.seed) > LARGEST_SEED:
            raise ArgumentError(f"seed of a record must be an integer of 64 bits, not "
                                f"{self.seed!r}")
        _require_time(self.when)

    @property
    def key(self) -> str:
        """A key that is equal for repetitions by a sender, and for nothing else."""
        return digest([self.task.fingerprint, self.task.digest, self.plan, self.versions,
                       self.result.unit, self.trial])

    @property
    def row(self) -> tuple[str | float | None, ...]:
        """The row of a database: the key, the task's, and all that was found out."""
        task, result = self.task, self.result
        return (self.key, content_hash(task.fingerprint, task.digest, task.title, task.body),
                self.plan, None if result.value is None else float(result.value), result.unit,
                result.error, self.where, self.seed, self.trial, self.versions, self.when,
                result.details)

    @property
    def hash(self) -> str:
        """The hash of all that it says."""
        return content_hash(*self.row)

    @property
    def order(self) -> tuple[str, ...]:
        """By target and task, then by time."""
        return self.task.fingerprint, self.task.digest, self.when, self.key, _line(self)


def content_hash(*values: object) -> str:
    """The hash of some values of a database, in their order."""
    return digest("" if value is None else str(value) for value in values)


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str) or "\0" in value or not _is_utf8(value):
        raise ArgumentError(f"{name} of a record must be text, not {value!r}")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:          # half of a character
        return False
    return True


def _require_result(result: Result) -> None:
    value = result.value
    if result.unit not in UNITS:
        raise ArgumentError(f"unit of a record must be {' or '.join(UNITS)}, not {result.unit!r}")
    if (value is None) != bool(result.error):
        raise ArgumentError("A record must have a value or an error, not both")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)
                              or not 0 <= value <= LARGEST_VALUE):
        raise ArgumentError(f"value of a record must be a finite number of at least 0, not "
                            f"{value!r}")


def _require_time(text: str) -> None:
    try:
        if datetime.strptime(text, TIME).strftime(TIME) != text:    # without zeros in front
            raise ValueError
    except ValueError:
        raise ArgumentError(f"when of a record must be a time like 2026-01-31T23:59:59Z, not "
                            f"{text!r}") from None


def as_json(record: Record) -> dict[str, Any]:
    """The record as one flat object; details only where there are some."""
    task, result = record.task, record.result
    return {"fingerprint": task.fingerprint, "digest": task.digest, "title": task.title,
            "body": task.body, "plan": record.plan, "value": result.value, "unit": result.unit,
            "error": result.error, "where": record.where, "seed": record.seed,
            "trial": record.trial, "versions": record.versions, "when": record.when,
            **({"details": result.details} if result.details else {})}


def from_json(entry: Mapping[str, Any]) -> Record:
    """The record of an object. Raises ArgumentError where it has other fields or values."""
    rest = dict(entry)
    try:
        task = Task(*(rest.pop(name) for name in ("fingerprint", "digest", "title", "body")))
        plan = rest.pop("plan")
        result = Result(*(rest.pop(name) for name in ("value", "unit", "error")),
                        details=rest.pop("details", ""))
        others = [rest.pop(name) for name in ("where", "seed", "trial", "versions", "when")]
    except KeyError as error:
        raise ArgumentError(f"A record must have {error.args[0]!r}") from None
    if rest:
        raise ArgumentError(f"A record must not have {next(iter(rest))!r}")
    return Record(task, plan, result, *others)


def _line(record: Record) -> str:
    entry = as_json(record)
    if entry["value"] is not None:
        entry["value"] = float(entry["value"])
    return json.dumps({**entry, "hash": record.hash}, ensure_ascii=False)


def text_lines(records: Iterable[Record]) -> Iterator[str]:
    """The lines of a file, each with its end."""
    yield f"{HEADING}\n"
    for record in sorted(records, key=lambda record: record.order):
        yield f"{_line(record)}\n"


def read_lines(path: Path) -> list[Record]:
    """The records of a file. Raises RecordsError for one that is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RecordsError(f"{str(path)!r} must be a file of records: "
                           f"{getattr(error, 'strerror', None) or 'it is no text'}") from None
    return _parsed(text, repr(str(path)))


def _parsed(text: str, name: str) -> list[Record]:
    records: list[Record] = []
    form = 0
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line and number == len(lines) > 1:
            break
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict):
                raise ValueError
        except (ValueError, RecursionError):
            raise RecordsError(f"{name} must be a file of records; line {number} is no object in "
                               f"JSON") from None
        if "lockstep" in entry:
            form = _format_of(entry, name)
        elif not form:
            raise RecordsError(f"{name} must be a file of records, which begins with {HEADING}")
        else:
            try:
                records.append(_hashed(entry) if form >= FIRST_HASHED else from_json(entry))
            except ArgumentError as error:
                raise RecordsError(f"{name}, line {number}: {error}") from None
    return records


def _hashed(entry: Mapping[str, Any]) -> Record:
    """The record of an object that has its hash. Raises ArgumentError where it has another one."""
    rest = dict(entry)
    try:
        mark = rest.pop("hash")
    except KeyError:
        raise ArgumentError("A record must have 'hash'") from None
    record = from_json(rest)
    if mark != record.hash:
        raise ArgumentError("hash of a record must be that of what it says: it was altered")
    return record


def _format_of(entry: Mapping[str, Any], name: str) -> int:
    kind, number = entry["lockstep"], entry.get("format")
    if kind != "records" or type(number) is not int or number < 1:
        raise RecordsError(f"{name} must be a file of records, which begins with {HEADING}")
    if number > FORMAT:
        raise RecordsError(f"{name} has records of format {number}, which a newer Lockstep wrote; "
                           f"this one reads formats up to {FORMAT}")
    return number
