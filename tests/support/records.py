"""Records of made-up trials, and processes that write them while they are killed.

``python -m tests.support.records FILE SEED``: four processes write `EACH` records each into a
database. One of them is killed by SIGKILL again and again, at random moments and between writing a
record and remembering that it did. It starts again with the first record that it does not remember.
Prints how often it was killed.
"""

import os
import signal
import sys
import time
from pathlib import Path
from random import Random

from compiler.plans import Task
from compiler.tune.record import Record
from compiler.tune.records import Records
from compiler.tune.space import Result

EACH, WRITERS = 200, 4
KILLS = 40
WHEN = "2026-03-01T12:00:00Z"
RELU = Task("f0f0", "d1d1", "relu of float32[16]", "relu float32 16")
TANH = Task("f0f0", "d2d2", "tanh of float32[16]", "tanh float32 16")
ELSEWHERE = Task("e0e0", "d1d1", "relu of float32[16]", "relu float32 16")


def record(task: Task = RELU, plan: str = "split(y_i, 4)", value: float | None = 1.5,
           trial: str = "0", unit: str = "s", when: str = WHEN, versions: str = "compiler 1",
           where: str = "a processor") -> Record:
    """A record; without a value its trial failed."""
    return Record(task, plan, Result(value, unit, "" if value is not None else "it ran too long"),
                  where, 7, trial, versions, when)


def written(writer: int, number: int) -> Record:
    """What a writer writes as its record of this number."""
    return record(Task("f0f0", f"d{number % 10}", f"task {number % 10}", "b" * 500),
                  f"plan {number}", 1.0 + number, f"{writer}: {number}")


def _write(path: Path, writer: int) -> None:
    """Goes on with the first record that is not remembered."""
    memory = path.with_name(f"memory-{writer}")
    remembered = len(memory.read_bytes()) if memory.exists() else 0
    with Records(path) as records, open(memory, "ab", buffering=0) as file:
        for number in range(remembered, EACH):
            records.add(written(writer, number))
            once = memory.with_suffix(f".{number}")
            if writer == 0 and number % 20 == 10 and not once.exists():
                once.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            file.write(b"x")


def _started(path: Path, writer: int) -> int:
    process = os.fork()
    if not process:
        try:
            _write(path, writer)
            os._exit(0)
        finally:
            os._exit(1)
    return process


def _survived(path: Path, random: Random) -> int:
    """Writes what the first writer has to, and kills it meanwhile; gives how often."""
    for kills in range(10_000):
        process = _started(path, 0)
        if kills < KILLS:
            time.sleep(random.uniform(0, 0.05))
            os.kill(process, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status == 0:
            return kills
        if status != -signal.SIGKILL:
            raise SystemExit(f"a writer ended with status {status}")
    raise SystemExit("the writer does not get on")


def main(path: Path, seed: int) -> None:
    others = [_started(path, writer) for writer in range(1, WRITERS)]
    print(_survived(path, Random(seed)))
    for process in others:
        if os.waitpid(process, 0)[1]:
            raise SystemExit("a writer failed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
