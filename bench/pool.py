"""Pools of trials: ``python -m bench.pool kills|busy|tls [--trials N] [--every SECONDS] ...``.

``kills``    `--trials` trials of `--milliseconds` each (they sleep) on four workers of one's own,
             while every `--every` seconds a worker is killed (SIGKILL), and twice the search
             itself: then another one goes on with what no record tells. Records are lines of
             JSON, which the search appends as results come. Prints the trials, the records that
             are lost or there twice, and the kills.
``busy``     measurements of `--milliseconds` each on 64 workers: threads of one process, since 64
             processes would measure this computer's memory. A measurement sleeps. Prints the share
             of the time from the first measurement to the last in which workers measure.
``tls``      a scheduler and two workers, commands with certificates, and trials on them over TLS;
             then a worker without a certificate and one with a certificate of others, which must be
             refused. Prints trials a second, and both refusals.

Exit status 1 where something was wrong.
"""

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.support.pauses import KIND, TASK
from compiler.errors import Error
from compiler.tune.space import Result
from runtime.tuning import Certificates, Trial, WorkerPool
from runtime.tuning.certificates import make_certificates
from runtime.tuning.servers import serve_worker

HOUSE = Path(__file__).parents[1]
WORKERS, KILLED_SEARCHES = 4, 2
MODULE = "bench.support.pool_target"
LIMIT_SECONDS = 10.0
FLOOR_BUSY = 0.8
PATIENCE_SECONDS = 600.0


def trials(count: int, milliseconds: float) -> list[Trial]:
    return [Trial(KIND, TASK, repr(milliseconds / 1e3), seed) for seed in range(count)]


# ---- kills -------------------------------------------------------------------------------------

def recorded(records: Path) -> list[str]:
    """The ids of the records whose lines are whole: a search may be killed while it writes one."""
    if not records.exists():
        return []
    return [json.loads(line)["id"] for line in records.read_text().split("\n")[:-1]]


def search(records: Path, count: int, milliseconds: float) -> None:
    """Runs what no record tells, and records it. Its first line are its workers' processes."""
    text = records.read_text() if records.exists() else ""
    records.write_text(text[:text.rfind("\n") + 1])     # without a record that is not whole
    done = set(recorded(records))
    wanted = [trial for trial in trials(count, milliseconds) if trial.id not in done]
    own = {"devices": [KIND], "measurers": WORKERS, "builders": 0,
           "limit_seconds": LIMIT_SECONDS, "imports": [MODULE]}
    with records.open("a") as file, WorkerPool(**own) as pool:
        print(*pool.processes.values(), flush=True)
        for trial, result in pool.results(wanted):
            if result.error:
                raise SystemExit(f"{trial.plan}: {result.error}")
            file.write(f"{json.dumps({'id': trial.id, 'value': result.value})}\n")
            file.flush()


def kills(args: argparse.Namespace) -> int:
    counts: Counter[str] = Counter(trials=args.trials, killed_workers=0, killed_searches=0)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.jsonl"
        while True:
            left = args.trials * (counts["killed_searches"] + 1) // (KILLED_SEARCHES + 1)
            last = counts["killed_searches"] == KILLED_SEARCHES
            if _searched(args, records, counts, None if last else left, begin):
                break
        found = Counter(recorded(records))
    wanted = {trial.id for trial in trials(args.trials, args.milliseconds)}
    counts["lost"] = len(wanted - found.keys())
    counts["twice"] = sum(number > 1 for number in found.values())
    counts["foreign"] = len(found.keys() - wanted)
    for name, count in counts.items():
        print(name, count)
    print("seconds", f"{time.monotonic() - begin:.1f}")
    return int(bool(counts["lost"] or counts["twice"] or counts["foreign"]))


def _searched(args: argparse.Namespace, records: Path, counts: Counter[str], until: int | None,
              begin: float) -> bool:
    """A search, whose workers are killed; it is killed itself after so many records. Returns
    whether it has ended by itself.
    """
    command = [sys.executable, "-m", "bench.pool", "search", str(records), "--trials",
               str(args.trials), "--milliseconds", str(args.milliseconds)]
    with subprocess.Popen(command, cwd=HOUSE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(HOUSE)}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        kill_at = time.monotonic() + args.every
        while process.poll() is None:
            time.sleep(0.05)
            if until is not None and len(recorded(records)) >= until:
                process.kill()
                counts["killed_searches"] += 1
            elif time.monotonic() > kill_at:
                kill_at = time.monotonic() + args.every
                if workers := workers_of(process.pid):
                    os.kill(workers[counts["killed_workers"] % len(workers)], signal.SIGKILL)
                    counts["killed_workers"] += 1
            if time.monotonic() > begin + PATIENCE_SECONDS:
                process.kill()
                raise SystemExit(f"the search has not ended: {len(recorded(records))} records")
    if process.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"the search ended with status {process.returncode}")
    return process.returncode == 0


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


# ---- busy --------------------------------------------------------------------------------------

class PausingChild:
    """Measures without a process: it sleeps, and notes when."""

    def __init__(self, limit_seconds: float, imports: Sequence[str] = ()):
        pass

    def run(self, trial: str) -> Result:
        begin = time.perf_counter()
        time.sleep(float(Trial.of(trial).plan))
        SPANS.append((begin, time.perf_counter()))
        return Result(SPANS[-1][1] - begin, "s")

    def close(self) -> None:
        pass


SPANS: list[tuple[float, float]] = []


def busy(args: argparse.Namespace) -> int:
    with pool_of_threads(args.workers) as pool:
        begin = time.perf_counter()
        done = sum(not result.error for _, result in
                   pool.results(trials(args.trials, args.milliseconds)))
        seconds = time.perf_counter() - begin
    first, last = min(begin for begin, _ in SPANS), max(end for _, end in SPANS)
    share = sum(end - begin for begin, end in SPANS) / (args.workers * (last - first))
    print("workers", args.workers)
    print("measurements", done)
    print("milliseconds_each", args.milliseconds)
    print("seconds", f"{seconds:.2f}")
    print("busy", f"{share:.3f}")
    return int(done != args.trials or share < FLOOR_BUSY)


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


def tls(args: argparse.Namespace) -> int:
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
                       pool.results(trials(args.trials, args.milliseconds)))
            print("workers", len(pool.workers))
            print("trials", done)
            print("trials_a_second", f"{done / (time.perf_counter() - begin):.0f}")
        refused = [_refusal(f"tcp://127.0.0.1:{urlsplit(address).port}", None),
                   _refusal(address, Certificates.of(of(others, "worker")))]
    for who, reason in zip(("without_certificate", "with_one_of_others"), refused):
        print(who, reason)
    return int(done != args.trials or "got in" in refused)


def _refusal(address: str, certificates: Certificates | None) -> str:
    try:
        serve_worker(address, KIND, certificates, print, imports=[MODULE])
        return "got in"
    except Error as error:
        return str(error)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("what", choices=("kills", "busy", "tls", "search"))
    parser.add_argument("records", type=Path, nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--milliseconds", type=float, default=20.0, help="of each (default 20)")
    parser.add_argument("--every", type=float, default=20.0, metavar="SECONDS",
                        help="a worker is killed (default 20)")
    parser.add_argument("--workers", type=int, default=64, help="of busy (default 64)")
    args = parser.parse_args(argv)
    if args.what == "search":
        search(args.records, args.trials, args.milliseconds)
        return 0
    return {"kills": kills, "busy": busy, "tls": tls}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
