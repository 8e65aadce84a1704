"""Are commands that are killed at random moments right the next time, and do they leave nothing?

`commands` (kernels of the CPU, a Verilated machine, a bitstream) begin with an empty cache of their
own and are interrupted at random moments, several times in a row: by SIGKILL (``--kills`` in all),
or by SIGINT or SIGTERM, sent to the process or to its group (``--ends``). After each row the
command runs once more, undisturbed. It must end with status 0 and with the result of a run that was
never interrupted, and leave nothing: no file beside its result, nothing half built in the cache, no
temporary file, no process. A command that SIGINT or SIGTERM ends must end with status 130 or 143
within `LIMIT_SECONDS`, with all its processes: before the command has begun by the signal itself,
or as Python ends that is interrupted while it starts, with status 1 and no line of ours.
A signal that comes while Python ends, with the result written, is one that came too late. A
bitstream takes tens of minutes, so its job is over when the design is synthesized; then it is ended
by SIGTERM, and the result is the netlist. ``--row`` says how many interruptions are in a row,
``--within`` in how many seconds at most, for slow machines.

`explorations` of a few dozen machines with one network, with effort for the mappings of their
front, are killed by SIGKILL, ``--row`` times in a row, and run to their end: what they print and
write must be what an undisturbed run does, byte for byte.

`trainings` of the digits network, which keep a checkpoint after each step, are killed by SIGKILL,
``--row`` times in a row, and continue from it each time: the weights must be those of an
undisturbed run, byte for byte.

Prints how many interruptions there were of each kind, ``killed_wrong`` and ``killed_leftovers``,
which should be 0, and ``ended_slowest_s``; exit status 1 where something was wrong.
"""

import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from secrets import token_hex

import numpy as np

from bench.frame import Bench, Sheet
from lockstep.provenance import unmeasured
from lockstep.testing.models import DIGITS

HOUSE = Path(__file__).parents[2]
WRONG = ("killed_wrong", "killed_leftovers", "ended_wrong")
LIMIT_SECONDS = 2.0
EXIT_SECONDS = 0.2          # for Python to end after a command's last line
PATIENCE_SECONDS = 20.0     # for processes of other tools, which end by themselves
MARK = "LOCKSTEP_KILLED"    # environment variable that marks our processes
SPACE = ("block_out=4,8,16", "bus_bytes=4,8", "wgt=same,double,quadruple", "memory.latency=16,64")
TRIALS = 24             # of a search
OUTPUT = "out.json"
EPOCHS = 40             # of a training, of 9 steps each


def _outputs(folder: Path) -> str:
    with np.load(folder / "out.npz") as arrays:
        return repr([(name, arrays[name].tolist()) for name in sorted(arrays)])


def _netlist(folder: Path) -> str:
    path, = (folder / "cache").glob("ecp5/*/top.json")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Job:
    """A command with its share of all interruptions, and its `result` in a folder, of which the
    command writes the file `output`. `until` is what it says when it is done; without it, the
    command runs to its end. It continues from `checkpoint` where that is there.
    """

    command: tuple[str, ...]
    share: float
    result: Callable[[Path], str]
    until: str = ""
    output: str = "out.npz"
    checkpoint: str = ""


RUN = ("run", str(DIGITS), "--output", "out.npz", "--target")
JOBS = {
    "kernels": Job((*RUN, "cpu"), 0.6, _outputs),
    "verilator": Job((*RUN, "accel:tiny-1x4x4", "--sim", "verilator"), 0.3, _outputs),
    "fpga": Job(("fpga", "build", "--board", "ulx3s-85f", "--config", "tiny-1x4x4"), 0.1, _netlist,
                "synthesized")}

BENCH = Bench(__file__, __doc__, seed=0)
BENCH.option("--kills", type=int, default=60, help="of commands by SIGKILL")
BENCH.option("--ends", type=int, default=30, help="of commands by SIGINT and SIGTERM")
BENCH.option("--row", type=int,
             help="interruptions in a row (4; of explorations and trainings 10)")
BENCH.option("--within", type=float, default=math.inf, metavar="SECONDS",
             help="of a command's beginning")


@BENCH.part(JOBS)
def commands(sheet: Sheet) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:      # a shell's background job has that, and
            signal.signal(number, signal.SIG_DFL)           # what it starts would ignore them too
    rng, record = Random(sheet.seed), Record()
    whole = sum(JOBS[name].share for name in sheet.cases)
    for name in sheet.cases:
        share = JOBS[name].share / whole
        numbers = [signal.SIGKILL] * round(sheet.kills * share)
        numbers += [rng.choice((signal.SIGINT, signal.SIGTERM))
                    for _ in range(round(sheet.ends * share))]
        rng.shuffle(numbers)
        measure(name, JOBS[name], numbers, rng, record, sheet.options.row or 4, sheet.within)
    _tell(sheet, record, "")
    sheet.figure("ended_slowest_s", record.slowest, ".2f")


@BENCH.part(extra=True)
def explorations(sheet: Sheet) -> None:
    _killed(sheet, exploring(), "explore_")


@BENCH.part(extra=True)
def trainings(sheet: Sheet) -> None:
    _killed(sheet, training(), "train_")


def _killed(sheet: Sheet, jobs: dict[str, Job], prefix: str) -> None:
    record, seconds = killed(jobs, sheet.options.row or 10, sheet.seed)
    for name, value in seconds.items():
        sheet.figure(f"{prefix}{name}_seconds", value, ".4g")
    _tell(sheet, record, prefix)


def _tell(sheet: Sheet, record: "Record", prefix: str) -> None:
    for name, count in record.counts.items():
        sheet.figure(f"{prefix}{name}", count)
    sheet.require(not any(record.counts[name] for name in WRONG))


@dataclass
class Record:
    """The figures so far."""

    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(WRONG, 0)))
    slowest: float = 0.0

    def wrong(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        print(f"  {kind}: {text}", flush=True)


class Place:
    """The folders of a row of runs: `root` has the result and the folders ``cache`` and ``tmp``."""

    def __init__(self, root: Path, job: Job):
        self.root, self.job, self.mark = root, job, token_hex(8)
        (root / "tmp").mkdir(parents=True)

    def begin(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(HOUSE), MARK: self.mark,
                       "LOCKSTEP_CACHE": str(self.root / "cache"),
                       "TMPDIR": str(self.root / "tmp")}
        with (self.root / "said").open("wb") as said:
            more = ["--resume"] * (bool(self.job.checkpoint)
                                   and (self.root / self.job.checkpoint).exists())
            return subprocess.Popen([sys.executable, "-m", "lockstep", *self.job.command, *more],
                                    cwd=self.root, env=environment, stdout=said, stderr=said,
                                    start_new_session=True)

    def clear(self) -> None:
        """Removes what the next run would find done."""
        shutil.rmtree(self.root / "cache")
        if self.job.checkpoint:
            for name in (self.job.checkpoint, self.job.output):
                (self.root / name).unlink(missing_ok=True)

    def finish(self) -> tuple[int, str]:
        """Runs the command undisturbed; returns its status, and its result or its output."""
        process = self.begin()
        while process.poll() is None and not (self.job.until and self.job.until in self.said):
            time.sleep(0.05)
        if self.job.until and process.poll() is None:
            process.terminate()
            status = 0 if process.wait() == 143 else process.returncode
        else:
            status = process.returncode
        return status, self.said if status else self.job.result(self.root)

    @property
    def said(self) -> str:
        return (self.root / "said").read_text(errors="replace")

    def processes(self) -> list[str]:
        """The command lines of processes that are left."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and f"{MARK}={self.mark}".encode() in (
                        folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                pass                                        # it has ended
        return found

    def building(self) -> set[str]:
        return {path.name for path in (self.root / "cache").glob("builds/*")}

    def leftovers(self) -> list[str]:
        """The files that should not be there, and processes."""
        until = time.monotonic() + PATIENCE_SECONDS
        while (running := self.processes()) and time.monotonic() < until:
            time.sleep(0.1)
        known = {"cache", "tmp", "said", self.job.output, self.job.checkpoint}
        files = {path.name for path in self.root.iterdir()} - known
        return [*running, *files, *self.building(),
                *(path.name for path in (self.root / "tmp").iterdir())]


def interrupted(place: Place, number: int, rng: Random, seconds: float, wanted: str,
                record: Record) -> bool:
    """Starts the command and sends it the signal; returns False if the command ended before."""
    before = place.building()
    process = place.begin()
    try:
        process.wait(rng.uniform(0.0, seconds))
        return False
    except subprocess.TimeoutExpired:
        pass
    begin = time.monotonic()
    to_group = number != signal.SIGKILL and rng.random() < 0.5
    (os.killpg if to_group else os.kill)(process.pid, number)
    status = process.wait()
    if number != signal.SIGKILL:
        took = time.monotonic() - begin
        if status == 0 and took < EXIT_SECONDS and place.job.result(place.root) == wanted:
            return False
        record.slowest = max(record.slowest, took)
        known = status in (128 + number, -number) or status == 1 and _before_ours(place.said)
        if not known or took > LIMIT_SECONDS:
            record.wrong("ended_wrong", f"{signal.Signals(number).name}: status {status} after "
                                        f"{took:.2f} s: {place.said[-300:]}")
        until = begin + LIMIT_SECONDS
        while (left := place.processes()) and time.monotonic() < until:
            time.sleep(0.02)
        if status == 128 + number and (left or place.building() - before):
            record.wrong("killed_leftovers", f"after {signal.Signals(number).name}: "
                                             f"{left or place.building() - before}")
    return True


def _before_ours(said: str) -> bool:
    """True if Python says that it was interrupted, and no module of ours was being read or ran."""
    return said.rstrip().endswith("KeyboardInterrupt") and str(HOUSE) not in said


def row(name: str, numbers: Sequence[int], place: Place, rng: Random, seconds: float, wanted: str,
        record: Record) -> None:
    """Performs a row of interruptions, then an undisturbed run."""
    for number in numbers:
        while not interrupted(place, number, rng, seconds, wanted, record):
            place.clear()                                   # too late: start again from nothing
        record.counts[f"{'killed' if number == signal.SIGKILL else 'ended'}_{name}"] += 1
    status, result = place.finish()
    if status or result != wanted:
        record.wrong("killed_wrong", f"{name}: status {status}: {result[-300:]}")
    record.counts[f"later_runs_{name}"] += 1
    if found := place.leftovers():
        record.wrong("killed_leftovers", f"{name}: {found}")


def measure(name: str, job: Job, numbers: Sequence[int], rng: Random, record: Record,
            length: int, within: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = Place(Path(folder) / "first", job)
        begin = time.monotonic()
        status, wanted = first.finish()
        seconds = min(time.monotonic() - begin, within)
        if status:
            raise SystemExit(f"{name}: {wanted}")
        print(f"  {name}: {len(numbers)} interruptions, within {seconds:.1f} s", flush=True)
        for place in range(0, len(numbers), length):
            row(name, numbers[place:place + length], Place(Path(folder) / str(place), job), rng,
                seconds, wanted, record)


def exploring(varied: tuple[str, ...] = SPACE, trials: int = TRIALS, effort: int = 1
                 ) -> dict[str, Job]:
    """The commands: of the whole grid, and of a search."""
    vary = [word for one in varied for word in ("--vary", one)]
    command = ("explore", str(DIGITS), "--base", "tiny-1x4x4", *vary, "--effort", str(effort),
               "--processes", "2", "--json", OUTPUT)
    return {"grid": Job(command, 1, _told, output=OUTPUT),
            "search": Job((*command, "--strategy", "search", "--trials", str(trials)), 1, _told,
                          output=OUTPUT)}


def training(epochs: int = EPOCHS) -> dict[str, Job]:
    """The command: with a checkpoint after each step."""
    command = ("train", "digits", "--data", "bench.support.training_rows:batches", "--batch", "40",
               "--epochs", str(epochs), "--checkpoint", "kept", "--every", "1", "-o", "out.onnx")
    return {"digits": Job(command, 1, _weights, output="out.onnx", checkpoint="kept")}


def _weights(folder: Path) -> str:
    return hashlib.sha256((folder / "out.onnx").read_bytes()).hexdigest()


def _told(folder: Path) -> str:
    """What the command said, and its results but for what was measured."""
    results = json.loads((folder / OUTPUT).read_text())
    return (folder / "said").read_text() + json.dumps(unmeasured(results), indent=1)


def killed(jobs: dict[str, Job], kills: int, seed: int) -> tuple[Record, dict[str, float]]:
    """Kills each command so many times in a row; tells what was wrong, and how long it takes."""
    record, taken = Record(), {}
    for name, job in jobs.items():
        with tempfile.TemporaryDirectory() as folder:
            first = Place(Path(folder) / "first", job)
            seconds, wanted = list[float](), ""
            for _ in range(2):                  # the second time everything is known
                begin = time.monotonic()
                status, wanted = first.finish()
                seconds.append(time.monotonic() - begin)
                if status:
                    raise SystemExit(f"{name}: {wanted}")
            whole, known = seconds
            # So that on the average they lie side by side over all that is measured.
            within = known + 2 * (whole - known) / (kills + 1)
            row(name, [signal.SIGKILL] * kills, Place(Path(folder) / "killed", job),
                Random(f"{name} {seed}"), within, wanted, record)
        taken[name] = whole
    return record, taken
