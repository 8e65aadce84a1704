"""``lockstep tune`` while its workers and itself are killed: ``python -m bench.killed_search
[MODEL] [--trials N] [--every SECONDS] [--json FILE]``.

A scheduler and four workers of the CPU (`lockstep pool`) serve a search of `--trials` trials, which
keeps its records in a database. Every `--every` seconds a worker is killed (SIGKILL), and twice the
search itself; then the same command goes on. The same search follows undisturbed, with a database
of its own. Whenever a record has been added, the search notes its key in a file. Prints

    records     of the disturbed search
    lost        records that were added and are not there in the end
    twice       plans of a task with more measurements than a search makes of one
    ratio       the time of all tasks with the best plans of the disturbed search over that with
                those of the other, each measured again, side by side

Exit status 1 where a record is lost, or there twice, or a search does not end.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.pool import HOUSE, KILLED_SEARCHES, WORKERS, command, workers_of
from bench.support.timing import best_times
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.plans import Task
from compiler.tune.record import Record
from compiler.tune.records import Records
from runtime.tuning.tuning import CONFIRMED

MODEL = HOUSE / "examples" / "digits" / "digits-float.onnx"
PATIENCE_SECONDS = 3600.0
ROUNDS = 20


def search(args: argparse.Namespace) -> int:
    """The command, with a note of each record that is added."""
    from lockstep.cli import main as lockstep

    add = Records.add
    told = os.open(args.told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def noted(self: Records, record: Record) -> bool:
        new = add(self, record)
        os.write(told, f"{record.key}\n".encode())
        return new

    Records.add = noted                                     # type: ignore[method-assign]
    return lockstep(["tune", str(args.model), "--target", "cpu", "--trials", str(args.trials),
                     "--patience", str(args.trials), "--db", str(args.db), "--pool", args.address])


class Searches:
    """Runs the search again until it ends by itself."""

    def __init__(self, args: argparse.Namespace, address: str, folder: Path):
        self.db, self.told = folder / "records.sqlite", folder / "told"
        self.counts: Counter[str] = Counter()
        self._command = [sys.executable, "-m", "bench.killed_search", str(args.model), "--trials",
                         str(args.trials), "--address", address, "--db", str(self.db), "--told",
                         str(self.told)]
        self._trials = args.trials

    @property
    def added(self) -> list[str]:
        return self.told.read_text().splitlines() if self.told.exists() else []

    def run(self, disturb: Callable[[], None], kills: int) -> None:
        """Kills the search so many times, after equal parts of its trials."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            part = self._trials * (self.counts["killed_searches"] + 1) // (kills + 1)
            with subprocess.Popen(self._command, cwd=HOUSE, stdout=subprocess.DEVNULL,
                                  env={**os.environ, "PYTHONPATH": str(HOUSE)}) as process:
                while process.poll() is None:
                    time.sleep(0.2)
                    disturb()
                    if self.counts["killed_searches"] < kills and len(self.added) >= part:
                        process.kill()
                        self.counts["killed_searches"] += 1
                        break
                    if time.monotonic() > end:
                        process.kill()
                        raise SystemExit(f"the search has not ended: {len(self.added)} records")
            if process.returncode == 0:
                return
            if process.returncode != -signal.SIGKILL:
                raise SystemExit(f"the search ended with status {process.returncode}")


class WorkerKiller:
    """Kills a worker of one of the commands, in turn, every so many seconds."""

    def __init__(self, commands: Sequence[Any], every: float):
        self.killed = 0
        self._commands, self._every = commands, every
        self._next = time.monotonic() + every

    def __call__(self) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        for process in workers_of(self._commands[self.killed % len(self._commands)].pid)[:1]:
            os.kill(process, signal.SIGKILL)
            self.killed += 1


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


def measured(args: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {"trials": args.trials, "workers": WORKERS}
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        scheduler = stack.enter_context(command("scheduler", "--port", "0"))
        address = scheduler.stdout.readline().strip()
        commands = [stack.enter_context(command("worker", address, "--device", "cpu"))
                    for _ in range(WORKERS)]
        for worker in commands:
            worker.stdout.readline()
        folders = [Path(place) / name for name in ("disturbed", "undisturbed")]
        for folder in folders:
            folder.mkdir()
        disturbed, undisturbed = (Searches(args, address, folder) for folder in folders)
        begin, killer = time.monotonic(), WorkerKiller(commands, args.every)
        disturbed.run(killer, KILLED_SEARCHES)
        figures |= {"seconds": round(time.monotonic() - begin), "killed_workers": killer.killed,
                    **disturbed.counts, **_counted(disturbed)}
        print(*(f"{name} {count}" for name, count in figures.items()), sep="\n", flush=True)
        undisturbed.run(lambda: None, 0)
        figures["ratio"] = compared(disturbed.db, undisturbed.db)
        print(f"ratio {figures['ratio']:.3f}", flush=True)
    return figures


def _counted(searches: Searches) -> dict[str, int]:
    with Records(searches.db) as records:
        kept = [*records]
    measurements = Counter((record.task.digest, record.plan) for record in kept)
    return {"records": len(kept), "lost": len({*searches.added} - {one.key for one in kept}),
            "twice": sum(count > CONFIRMED for count in measurements.values())}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("model", type=Path, nargs="?", default=MODEL, help="default digits-float")
    parser.add_argument("--trials", type=int, default=1000, help="default 1000")
    parser.add_argument("--every", type=float, default=20.0, metavar="SECONDS",
                        help="a worker is killed (default 20)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    for name in ("--address", "--db", "--told"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.address:
        return search(args)
    figures = measured(args)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    return int(bool(figures["lost"] or figures["twice"]))


if __name__ == "__main__":
    sys.exit(main())
