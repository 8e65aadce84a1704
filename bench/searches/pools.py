"""Do pools of trials, and searches on them, lose nothing when they are killed, and stay busy?

``kills``    ``--trials`` of ``--milliseconds`` each (they sleep) on four workers of one's own,
             while every ``--every`` seconds a worker is killed (SIGKILL), and twice the search
             itself: then another one goes on with what no record tells. Records are lines of
             JSON, which the search appends as results come. Prints the trials, the records that
             are lost or there twice, and the kills.
``busy``     measurements of ``--milliseconds`` each on 64 workers: threads of one process, since
             64 processes would measure this computer's memory. A measurement sleeps. Prints the
             share of the time from the first measurement to the last in which workers measure.
``tls``      a scheduler and two workers, commands with certificates, and trials on them over TLS;
             then a worker without a certificate and one with a certificate of others, which must be
             refused. Prints trials a second, and both refusals.
``tune``     the same kills of `lockstep tune` with a scheduler and four workers of the CPU, which
             keeps its records in a database; the same search follows undisturbed, with a database
             of its own. Whenever a record has been added, the search notes its key in a file.
             Prints the records, those ``lost`` (added, and not there in the end) and those there
             ``twice`` (plans of a task with more measurements than a search makes of one), and the
             ``ratio`` of the time of all tasks with the best plans of the disturbed search to that
             with those of the other, each measured again, side by side.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.frame import Bench, Sheet
from bench.support.timing import best_times
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.errors import Error
from compiler.plans import Task
from compiler.tune.record import Record
from compiler.tune.records import Records
from compiler.tune.space import Result
from lockstep.testing.models import DIGITS
from runtime.tuning import Certificates, Trial, WorkerPool
from runtime.tuning.certificates import make_certificates
from runtime.tuning.servers import serve_worker
from runtime.tuning.tuning import CONFIRMED
from tests.support.sleeping_target import COUNTING as KIND, TASK

HOUSE = Path(__file__).parents[2]
WORKERS, KILLED_SEARCHES = 4, 2
MODULE = "tests.support.sleepers"
LIMIT_SECONDS = 10.0
FLOOR_BUSY = 0.8

PATIENCE_SECONDS = 3600.0
DATABASE = "records.sqlite"
ROUNDS = 20

BENCH = Bench(__file__, __doc__)
BENCH.option("--trials", type=int, default=1000, help="in all")
BENCH.option("--milliseconds", type=float, default=20.0, help="of each that sleeps")
BENCH.option("--every", type=float, default=20.0, metavar="SECONDS", help="a worker is killed")
BENCH.option("--workers", type=int, default=64, help="of busy")
BENCH.option("--model", type=Path, default=DIGITS.with_name("digits-float.onnx"), help="of tune")


def trials(count: int, milliseconds: float) -> list[Trial]:
    return [Trial(KIND, TASK, f"sleep {milliseconds / 1e3!r}", seed) for seed in range(count)]


# ---- searches that are killed ------------------------------------------------------------------

class Searches:
    """A search that is run again until it ends by itself.

    Parameters
    ----------
    call : the Python text that searches, in a process of its own.
    trials : how many it makes; `added` tells what is recorded so far.
    """

    def __init__(self, call: str, trials: int, added: Callable[[], list[str]]):
        self.counts: Counter[str] = Counter(killed_searches=0)
        self.command = [sys.executable, "-c", f"from {__name__} import *; {call}"]
        self.trials, self.added = trials, added

    def run(self, disturb: Callable[[int], None], kills: int) -> None:
        """Kills the search so many times, after equal parts of its trials; `disturb` is given the
        search's process now and then.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            part = self.trials * (self.counts["killed_searches"] + 1) // (kills + 1)
            with subprocess.Popen(self.command, cwd=HOUSE, stdout=subprocess.DEVNULL,
                                  env={**os.environ, "PYTHONPATH": str(HOUSE)}) as process:
                while process.poll() is None:
                    time.sleep(0.05)
                    disturb(process.pid)
                    if self.counts["killed_searches"] < kills and len(self.added()) >= part:
                        process.kill()
                        self.counts["killed_searches"] += 1
                        break
                    if time.monotonic() > end:
                        process.kill()
                        raise SystemExit(f"the search has not ended: {len(self.added())} records")
            if process.returncode == 0:
                return
            if process.returncode != -signal.SIGKILL:
                raise SystemExit(f"the search ended with status {process.returncode}")


class WorkerKiller:
    """Kills a worker of one of the processes, else of the search, in turn, every so many seconds
    from when the search has workers.
    """

    def __init__(self, every: float, processes: Sequence[int] = ()):
        self.killed = self._search = 0
        self._every, self._next, self._processes = every, 0.0, processes

    def __call__(self, search: int) -> None:
        if search != self._search and (self._processes or workers_of(search)):
            self._search, self._next = search, time.monotonic() + self._every
        if search != self._search or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        parents = self._processes or [search]
        if workers := workers_of(parents[self.killed % len(parents)]):
            os.kill(workers[self.killed % len(workers)], signal.SIGKILL)
            self.killed += 1


@BENCH.part()
def kills(sheet: Sheet) -> None:
    begin, killer = time.monotonic(), WorkerKiller(sheet.every)
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.jsonl"
        searches = Searches(f"search({str(records)!r}, {sheet.trials}, {sheet.milliseconds})",
                            sheet.trials, lambda: recorded(records))
        searches.run(killer, KILLED_SEARCHES)
        found = Counter(recorded(records))
    wanted = {trial.id for trial in trials(sheet.trials, sheet.milliseconds)}
    wrong = {"lost": len(wanted - found.keys()), "foreign": len(found.keys() - wanted),
             "twice": sum(number > 1 for number in found.values())}
    for name, count in {"trials": sheet.trials, "killed_workers": killer.killed,
                        **searches.counts, **wrong}.items():
        sheet.figure(name, count)
    sheet.figure("seconds", time.monotonic() - begin, ".1f")
    sheet.require(not any(wrong.values()))


def recorded(records: Path) -> list[str]:
    """The ids of the records whose lines are whole: a search may be killed while it writes one."""
    if not records.exists():
        return []
    return [json.loads(line)["id"] for line in records.read_text().split("\n")[:-1]]


def search(path: str, count: int, milliseconds: float) -> None:
    """Runs what no record tells, and records it."""
    records = Path(path)
    text = records.read_text() if records.exists() else ""
    records.write_text(text[:text.rfind("\n") + 1])     # without a record that is not whole
    done = set(recorded(records))
    wanted = [trial for trial in trials(count, milliseconds) if trial.id not in done]
    own = {"devices": [KIND], "measurers": WORKERS, "builders": 0,
           "limit_seconds": LIMIT_SECONDS, "imports": [MODULE]}
    with records.open("a") as file, WorkerPool(**own) as pool:
        for trial, result in pool.results(wanted):
            if result.error:
                raise SystemExit(f"{trial.plan}: {result.error}")
            file.write(f"{json.dumps({'id': trial.id, 'value': result.value})}\n")
            file.flush()


def workers_of(search: int) -> list[int]:
    """The processes of workers that a search has started: those that have a child themselves."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit():
                parents[int(folder.name)] = int(
                    (folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass                                        # it has ended
    return sorted(process for process, parent in parents.items() if parent == search
                  and process in parents.values())


@BENCH.part(extra=True)
def tune(sheet: Sheet) -> None:
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        scheduler = stack.enter_context(command("scheduler", "--port", "0"))
        address = scheduler.stdout.readline().strip()
        commands = [stack.enter_context(command("worker", address, "--device", "cpu"))
                    for _ in range(WORKERS)]
        for worker in commands:
            worker.stdout.readline()
        folders = [Path(place) / name for name in ("disturbed", "undisturbed")]
        disturbed, undisturbed = (_tuning(sheet, address, folder) for folder in folders)
        begin = time.monotonic()
        killer = WorkerKiller(sheet.every, [worker.pid for worker in commands])
        disturbed.run(killer, KILLED_SEARCHES)
        sheet.figure("seconds", time.monotonic() - begin, ".0f")
        counts = _counted(folders[0], disturbed.added())
        for name, count in {"killed_workers": killer.killed, **disturbed.counts,
                            **counts}.items():
            sheet.figure(name, count)
        undisturbed.run(lambda search: None, 0)
        sheet.figure("ratio", compared(*(folder / DATABASE for folder in folders)), ".3f")
    sheet.require(not (counts["lost"] or counts["twice"]))


def _tuning(sheet: Sheet, address: str, folder: Path) -> Searches:
    folder.mkdir()
    told = folder / "told"
    call = f"tuning({str(sheet.model)!r}, {sheet.trials}, {address!r}, {str(folder)!r})"
    return Searches(call, sheet.trials,
                    lambda: told.read_text().splitlines() if told.exists() else [])


def tuning(model: str, trials: int, address: str, folder: str) -> None:
    """The command, with a note of each record that is added."""
    from lockstep.cli import main as lockstep

    add = Records.add
    told = os.open(f"{folder}/told", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def noted(self: Records, record: Record) -> bool:
        new = add(self, record)
        os.write(told, f"{record.key}\n".encode())
        return new

    Records.add = noted                                     # type: ignore[method-assign]
    raise SystemExit(lockstep([
        "tune", model, "--target", "cpu", "--trials", str(trials), "--patience", str(trials),
        "--db", f"{folder}/{DATABASE}", "--pool", address]))


def _counted(folder: Path, added: list[str]) -> dict[str, int]:
    with Records(folder / DATABASE) as records:
        kept = [*records]
    measurements = Counter((record.task.digest, record.plan) for record in kept)
    return {"records": len(kept), "lost": len({*added} - {one.key for one in kept}),
            "twice": sum(count > CONFIRMED for count in measurements.values())}


def compared(disturbed: Path, other: Path) -> float:
    """The time of all tasks by the best plans of one database over that by those of the other."""
    target, times = CpuTarget(), {"disturbed": 0.0, "other": 0.0}
    found: dict[str, dict[str, tuple[Task, str]]] = {}
    for name, path in zip(times, (disturbed, other)):
        with Records(path) as records:
            found[name] = {best.task.digest: (best.task, best.plan)
                           for best in records.every_best()}
    for digest in found["disturbed"].keys() & found["other"].keys():
        if target.decides_tasks(found["other"][digest][0]):
            continue                                        # its kernels are tasks, too
        runs = {name: target.measurable(*some[digest], 0) for name, some in found.items()}
        for name, seconds in best_times(runs, ROUNDS).items():
            times[name] += seconds
    return times["disturbed"] / times["other"]


# ---- busy --------------------------------------------------------------------------------------


class PausingChild:
    """Measures without a process: it sleeps, and notes when."""

    def __init__(self, limit_seconds: float, imports: Sequence[str] = ()):
        pass

    def run(self, trial: str) -> Result:
        begin = time.perf_counter()
        time.sleep(float(Trial.of(trial).plan.split()[1]))
        SPANS.append((begin, time.perf_counter()))
        return Result(SPANS[-1][1] - begin, "s")

    def close(self) -> None:
        pass


SPANS: list[tuple[float, float]] = []


@BENCH.part(extra=True)
def busy(sheet: Sheet) -> None:
    with pool_of_threads(sheet.workers) as pool:
        begin = time.perf_counter()
        done = sum(not result.error for _, result in
                   pool.results(trials(sheet.trials, sheet.milliseconds)))
        seconds = time.perf_counter() - begin
    first, last = min(begin for begin, _ in SPANS), max(end for _, end in SPANS)
    share = sum(end - begin for begin, end in SPANS) / (sheet.workers * (last - first))
    sheet.figure("workers", sheet.workers)
    sheet.figure("measurements", done)
    sheet.figure("milliseconds_each", sheet.milliseconds)
    sheet.figure("seconds", seconds, ".2f")
    sheet.figure("busy", share, ".3f")
    sheet.require(done == sheet.trials and share >= FLOOR_BUSY)


@contextmanager
def pool_of_threads(workers: int) -> Iterator[WorkerPool]:
    """A pool of workers in this process, behind a scheduler in another one."""
    import asyncio
    import threading

    import dask.config
    from runtime.tuning import worker as house
    from runtime.tuning.nodes import PoolWorker
    from runtime.tuning.pool import CONFIG, worker_options

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    house.Child = PausingChild                          # type: ignore[misc, assignment]
    with command("scheduler", "--port", "0") as scheduler, dask.config.set(CONFIG):
        address = scheduler.stdout.readline().strip()
        stop, ready = threading.Event(), threading.Event()

        async def serve() -> None:
            async with AsyncStack() as stack:
                for _ in range(workers):
                    options = worker_options(house.TrialRunner(LIMIT_SECONDS), {KIND: 1})
                    await stack.enter(PoolWorker(address, **options))
                ready.set()
                while not stop.is_set():
                    await asyncio.sleep(0.1)

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        try:
            ready.wait()
            with WorkerPool(address) as pool:
                yield pool
        finally:
            stop.set()
            thread.join()


class AsyncStack:
    """Closes servers of dask's at the end, all at once."""

    def __init__(self):
        self.servers: list[Any] = []

    async def __aenter__(self) -> "AsyncStack":
        return self

    async def enter(self, server: Any) -> None:
        self.servers.append(await server)

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.gather(*(server.close() for server in self.servers))


# ---- tls ---------------------------------------------------------------------------------------


@contextmanager
def command(*arguments: str) -> Iterator[Any]:
    """A command of `lockstep pool`, which serves until the body ends."""
    with subprocess.Popen([sys.executable, "-m", "lockstep", "pool", *arguments], cwd=HOUSE,
                          stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(HOUSE)}) as process:
        try:
            yield process
        finally:
            process.terminate()


@BENCH.part(extra=True)
def tls(sheet: Sheet) -> None:
    def of(folder: Path, name: str) -> str:
        return ",".join(str(folder / file)
                        for file in ("ca.pem", f"{name}.pem", f"{name}.key.pem"))

    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        own, others = Path(place) / "own", Path(place) / "others"
        make_certificates(own)
        make_certificates(others)
        scheduler = stack.enter_context(command("scheduler", "--port", "0", "--tls",
                                                of(own, "scheduler")))
        address = scheduler.stdout.readline().strip()
        workers = [stack.enter_context(command(
            "worker", address, "--device", KIND, "--import", MODULE, "--tls",
            of(own, "worker"))) for _ in range(2)]
        for worker in workers:
            worker.stdout.readline()
        with WorkerPool(address, Certificates.of(of(own, "client"))) as pool:
            begin = time.perf_counter()
            done = sum(not result.error for _, result in
                       pool.results(trials(sheet.trials, sheet.milliseconds)))
            sheet.figure("workers", len(pool.workers))
            sheet.figure("trials", done)
            sheet.figure("trials_a_second", done / (time.perf_counter() - begin), ".0f")
        refused = {"without_certificate": _refusal(
                       f"tcp://127.0.0.1:{urlsplit(address).port}", None),
                   "with_one_of_others": _refusal(address, Certificates.of(of(others, "worker")))}
    for who, reason in refused.items():
        sheet.figure(who, reason)
    sheet.require(done == sheet.trials and "got in" not in refused.values())


def _refusal(address: str, certificates: Certificates | None) -> str:
    try:
        serve_worker(address, KIND, certificates, print, imports=[MODULE])
        return "got in"
    except Error as error:
        return str(error)
