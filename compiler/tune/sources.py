"""Plans from files: databases of records, exported records, tables of plans."""

from pathlib import Path

from compiler.plans import PlanRefused, Plans, Table
from compiler.tune.best import BestPlans
from compiler.tune.records import MAGIC, Records, RecordsError, default_path, records_of

CACHED = "db"
"""Stands for the database in the cache."""


def plans_from(source: str) -> Plans:
    """The plans of a file: the best ones of a database or of what ``lockstep records export``
    wrote, or all that `compiler.plans.Recorder.write` wrote. ``db`` is the database in the cache.
    Raises RecordsError for a database that is not there, PlanRefused for any other file.
    """
    path = default_path() if source == CACHED else Path(source)
    if source == CACHED and not path.is_file():
        raise RecordsError(f"Plans must come from a database that exists, and {str(path)!r} does "
                           f"not: lockstep tune makes it")
    if _is_database(path):
        with Records(path) as records:
            return records.plans()
    try:
        return Table.read(path)
    except PlanRefused:
        if path.suffix != ".jsonl":
            raise
        return BestPlans.of(records_of(path))


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
