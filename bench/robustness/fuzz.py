"""Is spoiled input of every kind refused in one line, or computed right?

Cases are command lines with files that are nearly right (`tests.support.spoiled`): ONNX models,
tiny models that ask for much, .npz archives, geometries in TOML, compiled modules, caches,
arguments. Each runs in a copy of this process that has everything imported, with a limit of
processor time and of memory. These results are right:

- exit status 2 with one line on standard error and nothing on standard output, or
- exit status 0, and outputs that equal those of ONNX Runtime or of ONNX's reference implementation,
  or those of the sound files where the damage must not change them.

Everything else is a find: ``traceback``, ``hang`` (more than 10 s of processor time, twice),
``memory`` (more than 1 GiB beyond what a network may take for its values, `NETWORK_BYTES` here),
``crash`` (a signal), ``message`` (a refusal of more than one line), ``wrong`` (other outputs). A
find's files and command line are kept in a folder; ``--replay FOLDER`` runs one again. The seed
decides every case. Prints the outcomes by kind; exit status 1 if there is a find.
"""

import importlib
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from bench.frame import Bench, Sheet
from bench.support.isolated import Ended, Limits, isolated
from bench.support.peers import compared, difference
from lockstep.testing.models import DIGITS
from tests.support.spoiled.kinds import (ANY, GEOMETRY, INPUTS, KINDS, RESULT, SAME, WANTED, Case,
                                         sound_files)
from tests.support.spoiled.onnx_mutations import MODEL

NETWORK_BYTES = 1 << 28
MEMORY = NETWORK_BYTES + (1 << 30)
LONGEST_LINE = 2000
OUTCOMES = ("refused", "equal", "ran", "traceback", "hang", "memory", "crash", "message", "wrong")
"""``ran``: the case ran, and no peer can compute its outputs."""
FINDS = OUTCOMES[3:]
TRIES = 3                   # for cases that take too long
MOST_KEPT = 10              # finds that look alike
CASE = "case.json"
COMMANDS = ("lockstep.commands.run", "lockstep.commands.compile", "lockstep.commands.quantize",
            "lockstep.options.compilation", "lockstep.printing.layers", "runtime.artifact",
            "compiler.quantize", "onnx.reference", "amaranth.lib.data")

BENCH = Bench(__file__, __doc__, seed=1)
BENCH.option("--minutes", type=float, default=10, help="how long")
BENCH.option("--cases", type=int, help="how many cases, however long they take")
BENCH.option("--finds", type=Path, default=Path("fuzz-finds"), metavar="FOLDER",
             help="where finds are kept")
BENCH.option("--replay", type=Path, metavar="FOLDER", help="judge this find once more")


@BENCH.part(KINDS)
def kinds(sheet: Sheet) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):        # arguments may be bytes of no character set
        sys.stdout.reconfigure(errors="backslashreplace")
    if sheet.replay:
        verdict = replay(sheet.replay)
        print(f"{verdict.outcome}: {verdict.case.what}: {verdict.detail}")
        return sheet.require(verdict.outcome not in FINDS)
    end = time.monotonic() + 60 * sheet.minutes
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in sheet.cases}
    most = {"seconds": 0.0, "mebibytes": 0}

    def goes_on(number: int) -> bool:
        limit = sheet.options.cases
        return number < limit if limit else time.monotonic() < end

    for verdict in fuzz(sheet.cases, sheet.seed, goes_on, sheet.finds):
        counts[verdict.case.kind][verdict.outcome] += 1
        most["seconds"] = max(most["seconds"], verdict.seconds)
        most["mebibytes"] = max(most["mebibytes"], verdict.bytes >> 20)
        if verdict.outcome in FINDS:
            number = counts[verdict.case.kind].total() - 1
            print(f"{verdict.outcome}: {verdict.case.kind}-{sheet.seed}-{number}: "
                  f"{verdict.case.what}: {verdict.detail.strip().splitlines()[-1:]}", flush=True)
    _show(counts)
    sheet.figure("fuzz_longest_seconds", most["seconds"], ".1f")
    sheet.figure("fuzz_largest_mib", most["mebibytes"])
    found = sum(counted[outcome] for counted in counts.values() for outcome in FINDS)
    sheet.figure("fuzz_cases", sum(counted.total() for counted in counts.values()))
    sheet.figure("fuzz_finds", found)
    return sheet.require(not found)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a case: `outcome` is one of `OUTCOMES`, `detail` the message or the error."""

    case: Case
    outcome: str
    detail: str
    seconds: float
    bytes: int


def judge(case: Case, folder: Path) -> Verdict:
    """Runs the case in its folder, and changes the folder."""
    ended = isolated(lambda: _command(case.arguments), folder,
                     Limits(cpu_seconds=case.cpu_seconds))
    outcome, detail = _outcome(case, ended)
    if not outcome:
        outcome, detail = _compared(case, folder)
    return Verdict(case, outcome, detail, ended.seconds, ended.bytes)


def _command(arguments: Sequence[str]) -> int:
    from lockstep.cli import main

    os.environ["LOCKSTEP_MEMORY"] = str(NETWORK_BYTES / (1 << 30))
    os.environ["LOCKSTEP_CACHE"] = "cache"
    return main(arguments)


def _outcome(case: Case, ended: Ended) -> tuple[str, str]:
    """The outcome; empty where the command succeeded and its outputs are still to be judged."""
    last = ended.err[-1500:]
    if ended.waited or ended.status == -signal.SIGXCPU or ended.seconds > case.cpu_seconds:
        return "hang", f"{ended.seconds:.1f} s; {last}"
    if ended.bytes > MEMORY:
        return "memory", f"{ended.bytes >> 20:,} MiB; status {ended.status}; {last}"
    if ended.status < 0:
        return "crash", f"{signal.Signals(-ended.status).name}: {last}"
    if "Traceback (most recent call last)" in ended.err:
        return "traceback", last
    if ended.status == 2 and not ended.out:
        lines = ended.err.splitlines()
        fine = (len(lines) == 1 and lines[0].startswith("lockstep: error: ")
                and len(lines[0]) <= LONGEST_LINE)
        if fine:
            return "refused", lines[0]
        return "message", f"{len(ended.err)} characters: {last}"
    if ended.status == 1 and case.expect == ANY:
        return "ran", last
    if ended.status:
        return "message", f"status {ended.status}; {ended.out[-500:]}; {last}"
    return "", ""


def _compared(case: Case, folder: Path) -> tuple[str, str]:
    if case.expect == ANY or not (folder / RESULT).exists():
        return "ran", ""
    with np.load(folder / RESULT) as archive:
        ours = dict(archive)
    if case.expect == SAME:
        with np.load(folder / WANTED) as archive:
            found = difference(ours, dict(archive), case.share)
        return ("wrong", found) if found else ("equal", "")
    outcome, said = compared(folder, MODEL, INPUTS, ours, case.share)
    return ("ran" if outcome == "no peer" else outcome), said


def fuzz(kinds: Sequence[str], seed: int, goes_on: Callable[[int], bool],
         finds: Path | None = None, numbers: Sequence[int] | None = None) -> Iterator[Verdict]:
    """Judges case after case, the kinds in turn, while `goes_on(number of cases so far)`; keeps
    finds in the folder.
    """
    _import()
    alike: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="lockstep-") as place:
        sound = Path(place) / "sound"
        sound.mkdir()
        sound_files(sound, _required)
        number = 0
        while goes_on(number):
            kind = kinds[number % len(kinds)]
            verdict = _one(kind, seed, number // len(kinds), Path(place), alike, finds)
            number += 1
            yield verdict


def _one(kind: str, seed: int, number: int, place: Path, alike: Counter[str],
         finds: Path | None) -> Verdict:
    rng = np.random.default_rng([seed, list(KINDS).index(kind), number])
    made, folder = place / "made", place / "case"
    made.mkdir()
    try:
        case = KINDS[kind](rng, made, place / "sound")
        verdict = _judged(case, made, folder)
        if verdict.outcome in FINDS and finds is not None:
            alike[_signature(verdict)] += 1
            if alike[_signature(verdict)] <= MOST_KEPT:
                _keep(verdict, made, finds / f"{kind}-{seed}-{number}")
        return verdict
    finally:
        shutil.rmtree(made)


def _signature(verdict: Verdict) -> str:
    """The key that similar finds share."""
    lines = verdict.detail.strip().splitlines() or [""]
    where = [line.strip() for line in lines if line.startswith('  File "')][-1:]
    return re.sub(r"\d+", "N", " ".join([verdict.case.kind, verdict.outcome, *where,
                                         lines[-1][:60] if not where else ""]))


def _keep(verdict: Verdict, made: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made, folder, symlinks=True)
    about = {"case": asdict(verdict.case), "outcome": verdict.outcome, "detail": verdict.detail}
    (folder / CASE).write_text(json.dumps(about, indent=1))


def replay(folder: Path) -> Verdict:
    """Judges a find again."""
    _import()
    told = json.loads((folder / CASE).read_text())["case"]
    case = replace(Case(**told), arguments=tuple(told["arguments"]))
    with tempfile.TemporaryDirectory(prefix="lockstep-") as place:
        made = Path(place) / "made"
        shutil.copytree(folder, made, symlinks=True)
        (made / CASE).unlink()
        return _judged(case, made, Path(place) / "case")


def _judged(case: Case, made: Path, folder: Path, tries: int = TRIES) -> Verdict:
    """Judges the case in a copy of its files. Other load may slow a case down, so a `hang` must
    repeat.
    """
    shutil.copytree(made, folder, symlinks=True)
    try:
        verdict = judge(case, folder)
    finally:
        shutil.rmtree(folder)
    again = verdict.outcome == "hang" and tries > 1
    return _judged(case, made, folder, tries - 1) if again else verdict


def _required(arguments: Sequence[str], folder: Path) -> None:
    ended = isolated(lambda: _command(arguments), folder, Limits(cpu_seconds=300))
    if ended.status:
        raise RuntimeError(f"{' '.join(arguments)} must run: {ended.err}")


def _import() -> None:
    """Imports the modules that commands need, and builds and loads the simulators, so that every
    copy has them: building takes longer than a case may.
    """
    for name in COMMANDS:
        importlib.import_module(name)
    import lockstep

    module = lockstep.compile(DIGITS, f"accel:{GEOMETRY}", sim="cycle")
    module({name: np.zeros(module.graph.values[name].shape, np.float32)
            for name in module.graph.inputs})


def _show(counts: dict[str, Counter[str]]) -> None:
    print(f"{'kind':10}{'cases':>7}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES))
    for kind, counted in counts.items():
        print(f"{kind:10}{counted.total():>7}"
              + "".join(f"{counted[outcome]:>10}" for outcome in OUTCOMES))
