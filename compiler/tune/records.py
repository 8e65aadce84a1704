"""A database of trials: what was measured for which task, and the best plan of each.

It is a file of SQLite, in which any number of processes read and write at the same time. A record
that `add` has returned for is in the file, whatever ends the process afterwards. A record that is
added again, by a sender that does not know whether it arrived, stands there once. Nothing waits for
ever: after `PATIENCE_SECONDS` behind other writers an error says so. Locks end with their process.

With each row stands a hash of what it says. Who opens a file looks at all of it, so that nobody
reads what a disk or a hand has altered. Rows that were deleted leave no trace.

A connection belongs to the thread that made it. A process that is forked must make its own.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path
from time import monotonic, sleep

from compiler.errors import ArgumentError
from compiler.kept import cache_folder, in_the_way
from compiler.plans import Task
from compiler.tune.best import BestPlans
from compiler.tune.record import Record, RecordsError, content_hash, from_json, now, read_lines

__all__ = ["Record", "Records", "RecordsError", "default_path", "records_of"]

FORMAT = 3
APPLICATION = 0x4C73526B        # marks files of SQLite that are databases of records
PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.01
MAGIC = b"SQLite format 3\0"

SCHEMA = ("""
CREATE TABLE tasks (
    key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, digest TEXT NOT NULL, title TEXT NOT NULL,
    body TEXT NOT NULL)""", """
CREATE TABLE records (
    key TEXT PRIMARY KEY, task TEXT NOT NULL REFERENCES tasks, plan TEXT NOT NULL, value REAL,
    unit TEXT NOT NULL, error TEXT NOT NULL, "where" TEXT NOT NULL, seed INTEGER NOT NULL,
    trial TEXT NOT NULL, versions TEXT NOT NULL, "when" TEXT NOT NULL,
    details TEXT NOT NULL DEFAULT '', hash TEXT NOT NULL)""", """
CREATE INDEX records_of_tasks ON records (task)""", """
CREATE INDEX tasks_by_digest ON tasks (fingerprint, digest)""", """
CREATE TABLE checks (
    fingerprint TEXT NOT NULL, digest TEXT NOT NULL, plan TEXT NOT NULL, versions TEXT NOT NULL,
    "when" TEXT NOT NULL, reason TEXT NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (fingerprint, digest, plan))""",
    f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {FORMAT}")

HASHED = {
    "record": """SELECT key, task, plan, value, unit, error, "where", seed, trial, versions, "when",
        details, hash FROM records""",
    "task": "SELECT fingerprint, digest, title, body, key FROM tasks",
    "check": """SELECT fingerprint, digest, plan, versions, "when", reason, hash FROM checks"""}
"""The rows of each kind, the hash of the rest last."""

STEPS = {0: SCHEMA, 1: ("ALTER TABLE records ADD COLUMN details TEXT NOT NULL DEFAULT ''",
                        "PRAGMA user_version = 2"),
         2: ("ALTER TABLE records ADD COLUMN hash TEXT NOT NULL DEFAULT ''",
             """UPDATE records SET hash = content_hash(key, task, plan, value, unit, error, "where",
                seed, trial, versions, "when", details)""",
             "ALTER TABLE checks ADD COLUMN hash TEXT NOT NULL DEFAULT ''",
             """UPDATE checks SET hash = content_hash(fingerprint, digest, plan, versions, "when",
                reason)""",
             "PRAGMA user_version = 3")}
"""What makes the tables of a newer format of those of each older one; 0 are none."""

RECORDS = """
SELECT fingerprint, digest, title, body, plan, value, unit, error, "where", seed, trial, versions,
    "when", details FROM records JOIN tasks ON tasks.key = records.task"""

OF_KEY = f"{RECORDS} WHERE records.key = ?"

ORDER = ' ORDER BY fingerprint, digest, "when", records.key'

VALUES = """
SELECT fingerprint, digest, unit, plan, value, "when", records.key
    FROM records JOIN tasks ON tasks.key = records.task
    WHERE value IS NOT NULL AND details = '' AND NOT EXISTS (
        SELECT 1 FROM checks WHERE checks.fingerprint = tasks.fingerprint
        AND checks.digest = tasks.digest AND checks.plan = records.plan AND reason <> '')"""
"""Those of plans that were not refused by their last check. Records with details are of no
plans."""

REASONS = {
    "NOTADB": "must be a database of records, not another file",
    "READONLY": "cannot be written: the file or its folder is read-only",
    "CANTOPEN": "must be a file in a folder that exists and can be written",
    "FULL": "cannot be written: the disk is full",
    "CORRUPT": "is damaged ({}); a copy or an export must replace it",
}
"""What errors of SQLite mean here, by the second words of their names."""

OF_TASK = "fingerprint = ? AND digest = ?"


class _Busy(RecordsError):
    """Others held the file for too long."""


def default_path() -> Path:
    """The database in the cache (`compiler.kept.cache_folder`). Raises RecordsError where no cache
    can be.
    """
    if reason := in_the_way(cache_folder()):
        raise RecordsError(f"{reason}; LOCKSTEP_CACHE may name another one")
    return cache_folder() / "records.sqlite"


class Records:
    """The records in the file `path`, which is made where there is none; to be used as a context.

    Raises RecordsError for a file that is no such database, is damaged or of a newer format, cannot
    be written, or stays busy.
    """

    def __init__(self, path: str | PathLike[str], patience_seconds: float = PATIENCE_SECONDS):
        self.path, self.patience_seconds = Path(path), patience_seconds
        if self.path.exists() and not self.path.is_file():      # a pipe would never end
            raise self._error("must be a file")
        with self._told():
            self._connection = sqlite3.connect(self.path, timeout=patience_seconds,
                                               isolation_level=None)
            self._connection.create_function("content_hash", -1, content_hash)
        try:
            self._prepare_patiently()
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def in_cache(cls) -> "Records":
        """The records in the cache (`default_path`)."""
        path = default_path()
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise RecordsError(f"{str(path)!r} cannot be made: {error.strerror}") from None
        return cls(path)

    def __enter__(self) -> "Records":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        with self._told():
            self._connection.close()

    def add(self, record: Record) -> bool:
        """Keeps a record; False where it was there. It is on the disk on return."""
        return self.add_all([record]) == 1

    def add_all(self, records: Iterable[Record]) -> int:
        """Keeps all of these or, where this fails, none; gives how many are new."""
        with self._writing():
            return sum(self._add(record) for record in records)

    def __iter__(self) -> Iterator[Record]:
        """All records, in order."""
        return iter(self._found(RECORDS + ORDER))

    def of(self, task: Task) -> list[Record]:
        """The records of a task, by their times. Its title and body do not matter."""
        return self._found(f"{RECORDS} WHERE {OF_TASK}{ORDER}", task.fingerprint, task.digest)

    def tasks(self) -> list[Task]:
        """All tasks that have records. One digest stands there twice where titles or bodies differ.
        """
        with self._told():
            return [Task(*row) for row in self._connection.execute(
                "SELECT fingerprint, digest, title, body FROM tasks WHERE key IN (SELECT task "
                "FROM records) ORDER BY fingerprint, digest, title, body")]

    def best(self, task: Task) -> Record | None:
        """The record of the best plan of a task, on this target alone. What was refused when it was
        last checked does not count. Cycles, if there are any, count before seconds.
        """
        found = self._best(f"{VALUES} AND {OF_TASK}", task.fingerprint, task.digest)
        return found[0] if found else None

    def every_best(self) -> list[Record]:
        """The best record of each task, in order."""
        return self._best(VALUES)

    def plans(self) -> BestPlans:
        """The best plans of all tasks, as they are now: what is added later does not change them.
        """
        return BestPlans.of(self.every_best())

    def merge(self, others: Iterable[Record]) -> int:
        """Adds all records of another database, or any others; gives how many are new. Databases
        that are merged in whatever order have the same records.
        """
        return 0 if others is self else self.add_all(others)

    def note(self, task: Task, plan: str, versions: str, reason: str = "") -> None:
        """Notes that these versions of ours replay a plan, or the reason why they refuse it."""
        row = task.fingerprint, task.digest, plan, versions, now(), reason
        with self._writing():
            self._connection.execute("INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?, ?, ?, ?)",
                                     (*row, content_hash(*row)))

    def noted(self, task: Task, plan: str) -> tuple[str, str] | None:
        """The versions by which a plan was last checked, and their reason against it, if any."""
        with self._told():
            return self._connection.execute(
                f"SELECT versions, reason FROM checks WHERE {OF_TASK} AND plan = ?",
                (task.fingerprint, task.digest, plan)).fetchone()

    def _add(self, record: Record) -> bool:
        present = self._found(OF_KEY, record.key)
        if present and present[0].order <= record.order:
            return False
        row, task = record.row, record.task
        self._connection.execute("INSERT OR IGNORE INTO tasks VALUES (?, ?, ?, ?, ?)",
                                 (row[1], task.fingerprint, task.digest, task.title, task.body))
        self._connection.execute(f"INSERT OR REPLACE INTO records VALUES (?{', ?' * len(row)})",
                                 (*row, content_hash(*row)))
        return not present

    def _best(self, query: str, *values: str) -> list[Record]:
        with self._told():
            keys = best_keys(self._connection.execute(query, values))
        return [record for key in keys for record in self._found(OF_KEY, key)]

    def _found(self, query: str, *values: str) -> list[Record]:
        with self._told():
            cursor = self._connection.execute(query, values)
            names = [column for column, *_ in cursor.description]
            rows = cursor.fetchall()
        try:
            return [from_json(dict(zip(names, row))) for row in rows]
        except ArgumentError as error:
            raise self._damaged(error) from None

    def _prepare_patiently(self) -> None:
        """SQLite itself does not wait for others that make the file, clean up or recover it."""
        end = monotonic() + self.patience_seconds
        while True:
            try:
                return self._prepare()
            except _Busy:
                if monotonic() > end:
                    raise
                sleep(PAUSE_SECONDS)

    def _prepare(self) -> None:
        """Makes the tables in a new file, brings an older one up to this format, and refuses a file
        that is something else.
        """
        with self._transaction("DEFERRED"):
            number = self._format()
        if number != FORMAT:
            if not number:
                with self._told():
                    self._connection.execute("PRAGMA journal_mode = WAL")
            with self._writing():
                while (number := self._format()) != FORMAT:     # unless another process was first
                    for statement in STEPS[number]:
                        self._connection.execute(statement)
        self._connection.execute("PRAGMA synchronous = FULL")       # of this connection
        with self._transaction("DEFERRED"):
            self._require_unaltered()

    def _require_unaltered(self) -> None:
        """Refuses a file in which a row is not as it was added, or is without its task."""
        (said,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise self._damaged(" ".join(said.split()))
        for kind, query in HASHED.items():
            for *row, mark in self._connection.execute(query):
                if content_hash(*row) != mark:
                    raise self._damaged(f"a {kind} was altered after it was added")
        if self._connection.execute("PRAGMA foreign_key_check").fetchone():
            raise self._damaged("the task of a record is not there")

    def _format(self) -> int:
        """The format of the tables, 0 where there are none; to be asked in a transaction."""
        (application,), (number,), (tables,) = (
            self._connection.execute(query).fetchone() for query in (
                "PRAGMA application_id", "PRAGMA user_version",
                "SELECT COUNT(*) FROM sqlite_master"))
        if application == APPLICATION and number > FORMAT:
            raise self._error(f"is a database of format {number}, which a newer Lockstep wrote; "
                              f"this one reads formats up to {FORMAT}")
        if application != APPLICATION and (application or number or tables):
            raise self._error("must be a database of records, not of something else")
        return number if application == APPLICATION else 0

    def _writing(self) -> AbstractContextManager[None]:
        """A transaction of the only writer."""
        return self._transaction("IMMEDIATE")

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        """All of the body is kept, or nothing."""
        with self._told():
            self._connection.execute(f"BEGIN {kind}")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """The message of SQLite, in a line of ours."""
        try:
            yield
        except sqlite3.ProgrammingError:        # closed, or of another thread: a defect
            raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._refusal(error) from None

    def _refusal(self, error: Exception) -> RecordsError:
        name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")    # text that is no UTF-8
        kind = name.split("_")[1]
        if kind in ("BUSY", "LOCKED"):
            return _Busy(f"{str(self.path)!r} has been busy for {self.patience_seconds:g} s: "
                         f"another process writes into it")
        return self._error(REASONS.get(kind, "cannot be used: {}").format(error))

    def _damaged(self, reason: object) -> RecordsError:
        return self._error(REASONS["CORRUPT"].format(reason))

    def _error(self, reason: str) -> RecordsError:
        return RecordsError(f"{str(self.path)!r} {reason}")


def best_keys(rows: Iterable[tuple[str, str, str, str, float, str, str]]) -> list[str]:
    """The keys of the best records of all tasks, in order; rows are those of `VALUES`. Each plan
    counts with the median of its values, the lower of two. The least is the best, then the
    earliest.
    """
    plans: dict[tuple[str, str, str, str], list[tuple[float, str, str]]] = {}
    for target, task, unit, plan, value, when, key in rows:
        plans.setdefault((target, task, unit, plan), []).append((value, when, key))
    best: dict[tuple[str, str], tuple[str, float, str, str]] = {}
    for (target, task, unit, _), trials in plans.items():
        median = unit, *sorted(trials)[(len(trials) - 1) // 2]
        best[target, task] = min(best.get((target, task), median), median)
    return [key for _, (*_, key) in sorted(best.items())]


def records_of(path: Path) -> list[Record]:
    """The records of a file, a database or lines of JSON. Raises RecordsError for any other."""
    try:
        with open(path, "rb") as file:
            is_database = file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise RecordsError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if not is_database:
        return read_lines(path)
    with Records(path) as records:
        return [*records]
