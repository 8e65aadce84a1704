"""What becomes of spoiled ONNX files: ``python -m bench.mutated_onnx [--count N] [--seed S]``.

Mutates small models (`bench.onnx_mutations`: bytes, nodes, cycles, shapes, sizes, types, external
data) and gives each to ``lockstep run`` for the host, ``lockstep run`` for an accelerator on its
functional simulator, or ``lockstep compile``, in a process of its own with at most `MEMORY` bytes
of address space and `SECONDS` of processor time. Right is

- exit status 2 with one line on standard error and nothing on standard output, or
- exit status 0 and outputs that equal those of ONNX Runtime (the extra `bench`) for the mutated
  file, or of ONNX's reference implementation where ONNX Runtime refuses it. A file that both
  refuse and that we run is counted as ``mutated_without_peer`` and listed by ``--json``.

The process is a copy of one that has imported the command already; otherwise importing it would
take most of the time. Prints ``mutated_wrong``, which should be 0, and what was right how often;
exit status 1 when something was wrong.
"""

import argparse
import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx

from bench.onnx_mutations import MODELS, MUTATIONS, write

__all__ = ["Verdict", "judge", "main", "run"]

MEMORY = 4 << 30
SECONDS = 30
WALL_SECONDS = 300          # for a process that waits and takes no time; machines may be busy
LONGEST_LINE = 2000
LARGEST_INPUT = 1 << 20     # elements that are made for a model; beyond that the command makes them
COMMAND = ("lockstep.commands.run", "lockstep.commands.compile", "lockstep.commands._compilation",
           "lockstep.commands._layers", "runtime.artifact")
TARGETS = ("cpu", "cpu", "accel:tiny-1x4x4")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: `outcome` is ``refused``, ``equal``, ``no peer`` or ``wrong``;
    `detail` the line that was said, or what is wrong.
    """

    number: int
    model: str
    mutation: str
    command: str
    outcome: str
    detail: str
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class _Ended:
    """A process: its status (negative: the signal), what it said, processor time, memory."""

    status: int
    out: str
    err: str
    seconds: float
    bytes: int


def judge(number: int, seed: int, folder: Path) -> Verdict:
    """Makes mutant `number` in the folder, gives it to a command and judges."""
    rng = np.random.default_rng([seed, number])
    model = list(MODELS)[number % len(MODELS)]
    mutation = MUTATIONS[number // len(MODELS) % len(MUTATIONS)]
    if mutation.__name__ == "misplace" and model != "external" and rng.random() < 0.5:
        model = "external"
    path = write(model, folder)
    mutation(rng, folder)
    target = TARGETS[int(rng.integers(len(TARGETS)))]
    inputs = _inputs(path, rng)
    result = folder / "result.npz"
    arguments = ["run", str(path), "--target", target, "--sim", "functional", "--no-cache",
                 "--output", str(result)]
    if inputs:
        _save(folder / "inputs.npz", inputs)
        arguments += ["--input", str(folder / "inputs.npz")]
    elif rng.random() < 0.5:
        arguments = ["compile", str(path), "--target", target, "--no-cache", "-o",
                     str(folder / "made.lockstep")]
    ended = _isolated(lambda: _command(arguments), folder)
    outcome, detail = _judged(ended, path, inputs, result, model)
    return Verdict(number, model, mutation.__name__, " ".join(arguments[:1] + arguments[2:4]),
                   outcome, detail, ended.seconds, ended.bytes)


def _inputs(path: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Arrays that fit the model's inputs; none where nobody can tell."""
    try:
        graph = onnx.load(path, load_external_data=False).graph
        constant = {one.name for one in graph.initializer}
        made = {}
        for value in graph.input:
            tensor = value.type.tensor_type
            shape = [dim.dim_value for dim in tensor.shape.dim]
            if value.name in constant:
                continue
            if min(shape, default=1) < 1 or np.prod([float(one) for one in shape]) > LARGEST_INPUT:
                return {}
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            made[value.name] = rng.random(shape).astype(dtype)
        return made
    except Exception:       # noqa: BLE001 - a spoiled file: whatever onnx makes of it
        return {}


def _judged(ended: _Ended, path: Path, inputs: dict[str, np.ndarray], result: Path,
            model: str) -> tuple[str, str]:
    if ended.bytes > MEMORY:
        return "wrong", f"took {ended.bytes:,} bytes"
    if ended.status == 2:
        lines = ended.err.splitlines()
        fine = (len(lines) == 1 and lines[0].startswith("lockstep: error: ")
                and len(lines[0]) <= LONGEST_LINE and not ended.out)
        return ("refused", lines[0]) if fine else ("wrong", f"status 2 with {ended.err[-1500:]!r}")
    if ended.status:
        name = signal.Signals(-ended.status).name if ended.status < 0 else str(ended.status)
        return "wrong", f"ended with {name}: {ended.err[-1500:]}"
    if not inputs or not result.exists():
        return "no peer", "nothing to compare"
    return _compared(path, inputs, result, model)


def _compared(path: Path, inputs: dict[str, np.ndarray], result: Path,
              model: str) -> tuple[str, str]:
    """Our outputs with those of whoever accepts the file."""
    ours = dict(np.load(result))
    said = []
    for peer in (_onnx_runtime, _reference):
        answer = path.parent / "peer.npz"
        answer.unlink(missing_ok=True)
        ended = _isolated(lambda peer=peer, answer=answer: peer(path, inputs, answer), path.parent)
        if ended.status or not answer.exists():
            said.append(ended.err.strip().splitlines()[-1][:300] if ended.err.strip() else "?")
            continue
        found = _difference(ours, dict(np.load(answer)), model == "quantized")
        if not found:
            return "equal", peer.__name__.strip("_")
        said.append(f"{peer.__name__.strip('_')}: {found}")
        if peer is _reference or len(said) == 2:
            break
    differing = [one for one in said if one.startswith(("onnx_runtime:", "reference:"))]
    return ("wrong", "; ".join(said)) if differing else ("no peer", "; ".join(said))


def _difference(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray],
                quantized: bool) -> str:
    """What is different, if anything. An int8 network may be off by rounding in several layers."""
    share = 0.05 if quantized else 1e-4
    for name, wanted in theirs.items():
        found = ours.get(name)
        if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            return (f"{name} is {None if found is None else (found.dtype, found.shape)}, not "
                    f"{(wanted.dtype, wanted.shape)}")
        finite = wanted[np.isfinite(wanted)]
        most = float(np.abs(finite.astype(float)).max(initial=0))
        if not np.allclose(found, wanted, share, share * most + 1e-30, equal_nan=True):
            worst = np.abs(found.astype(float) - wanted.astype(float)).max()
            return f"{name} is off by {worst:g} of {most:g}"
    return ""


def _isolated(work: Callable[[], int], folder: Path) -> _Ended:
    """Does the work in a copy of this process, with limits, its output in files."""
    begin = time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        _become(work, folder)
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - begin > WALL_SECONDS:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    out, err = ((folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    return _Ended(os.waitstatus_to_exitcode(status), out, err,
                  usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10)


def _become(work: Callable[[], int], folder: Path) -> None:
    """The child: what the interpreter would do with the work as its program."""
    status = 70
    try:
        for number, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(file, number)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        status = work()
    except BaseException:       # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        status = 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _command(arguments: Sequence[str]) -> int:
    from lockstep.cli import main

    return main(arguments)


def _onnx_runtime(path: Path, inputs: dict[str, np.ndarray], answer: Path) -> int:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options,
                                           providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return _answer(answer, names, session.run(names, inputs))


def _reference(path: Path, inputs: dict[str, np.ndarray], answer: Path) -> int:
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(str(path))
    return _answer(answer, [str(name) for name in session.output_names],
                   list(session.run(None, inputs)))


def _answer(path: Path, names: Sequence[str], arrays: Sequence) -> int:
    _save(path, dict(zip(names, map(np.asarray, arrays), strict=True)))
    return 0


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """As np.savez does, which cannot take every name."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def run(count: int, seed: int, progress: Callable[[Verdict], None] = lambda found: None,
        numbers: Sequence[int] | None = None) -> list[Verdict]:
    """Judges so many mutants, or those of these numbers."""
    _import()
    verdicts = []
    for number in range(count) if numbers is None else numbers:
        folder = Path(tempfile.mkdtemp(prefix="lockstep-"))
        try:
            verdicts.append(judge(number, seed, folder))
        finally:
            shutil.rmtree(folder)
        progress(verdicts[-1])
    return verdicts


def _import() -> None:
    """What the command imports when it works, so that every copy has it."""
    for name in COMMAND:
        importlib.import_module(name)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.mutated_onnx", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="mutants (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--only", type=int, action="append", metavar="N",
                        help="the mutant of this number (repeatable)")
    parser.add_argument("--json", type=Path, metavar="R.json", help="write every verdict")
    args = parser.parse_args(argv)
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("mutants", total=len(args.only or range(args.count)))

        def show(found: Verdict) -> None:
            progress.advance(task)
            if found.outcome == "wrong" or args.only:
                print(f"{found.outcome}: mutant {found.number} ({found.model}, {found.mutation}, "
                      f"{found.command}): {found.detail}", flush=True)

        verdicts = run(args.count, args.seed, show, args.only)
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in verdicts], indent=1) + "\n")
    counted = Counter(one.outcome for one in verdicts)
    print("mutated_refused", counted["refused"])
    print("mutated_equal", counted["equal"])
    print("mutated_without_peer", counted["no peer"])
    print("mutated_longest_seconds", f"{max(one.seconds for one in verdicts):.1f}")
    print("mutated_largest_mib", max(one.bytes for one in verdicts) >> 20)
    print("mutated_wrong", counted["wrong"])
    return int(counted["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
