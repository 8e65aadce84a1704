"""``lockstep run MODEL.onnx``: compile a network, run one inference, say what each layer cost."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lockstep.errors import RequestError, input_file, output_file

__all__ = ["add_parser", "run"]

DEFAULT_TARGET = "accel:pynq-1x16x16"
SIMULATORS = ("functional", "verilator")


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "run", help="run a network on the accelerator (or the host) and report each layer",
        description="Compile an ONNX network, run one inference and report each layer. Without "
                    "--input the input is seeded random. Exit status: 0 done, 1 the run failed, "
                    "2 the request was wrong.")
    add = parser.add_argument
    add("model", metavar="MODEL.onnx", type=Path)
    add("--target", default=DEFAULT_TARGET, metavar="T",
        help=f"accel:PRESET, accel:FILE.toml or cpu (default {DEFAULT_TARGET})")
    add("--sim", default="functional", choices=SIMULATORS,
        help="values only, or the RTL with cycles (default functional)")
    add("--dram-latency", type=_at_least(0), default=64, metavar="N", help="cycles (default 64)")
    add("--dram-outstanding", type=_at_least(1), default=64, metavar="N",
        help="bursts in flight (default 64)")
    add("--bus-bytes", type=_at_least(1), metavar="N", help="override the machine's bus width")
    add("--threads", type=int, choices=(1, 2), default=2,
        help="virtual threads of the schedules (default 2; 1 hides no latency)")
    add("--shape", action="append", type=_shape, default=[], metavar="NAME=N",
        help="value of a symbolic dimension")
    add("--input", type=input_file, metavar="X.npz", help="inputs, by name")
    add("--output", type=output_file, metavar="Y.npz", help="write the outputs, by name")
    add("--json", type=output_file, metavar="R.json", help="write the report as JSON")
    add("--seed", type=_at_least(0), default=0, metavar="N", help="of the random input (default 0)")
    add("--no-integerize", action="store_true", help="keep ONNX's float semantics on the host")
    return parser


def _at_least(low: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {low}, not {text!r}")
        return int(text)
    return parse


def _shape(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not (name and equals and value.isdigit() and int(value)):
        raise argparse.ArgumentTypeError(f"must be NAME=N with N at least 1, not {text!r}")
    return name, int(value)


def run(args: argparse.Namespace) -> int:
    from accel.status import Run
    from lockstep.commands._layers import show
    from runtime import DeviceError, report

    given = _arrays(args.input) if args.input else None
    module, machine = _compiled(args)
    seed = _set_inputs(module, given, args.seed)
    begin = time.perf_counter()
    runs: tuple[Run, ...]
    try:
        runs = _watched(module.run, args)
    except DeviceError as error:
        print(f"lockstep: {error}", file=sys.stderr)
        return 1
    figures = report(module, runs, machine, time.perf_counter() - begin)
    figures |= {"model": str(args.model), "target": args.target, "simulator": args.sim,
                "seed": seed}
    if args.output:
        _write_outputs(module, args.output)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    show(figures)
    return 0


def _compiled(args: argparse.Namespace):
    from accel.config import load
    from accel.machine import Machine
    from accel.target import AccelTarget
    from compiler.frontend.onnx_import import load as load_model
    from compiler.graph.pipeline import optimize, standard_passes
    from runtime import SimulatedDevice, TargetError, compile_graph, simulator

    kind, _, where = args.target.partition(":")
    if args.target != "cpu" and (kind != "accel" or not where):
        raise TargetError(f"Target must be accel:PRESET, accel:FILE.toml or cpu, "
                          f"not {args.target!r}")
    config = None if kind == "cpu" else load(where)
    if config and args.bus_bytes:
        config = replace(config, bus_bytes=args.bus_bytes)
    graph = load_model(args.model, dict(args.shape) or None)
    graph = optimize(graph, standard_passes(integerize=not args.no_integerize))
    if config is None:
        return compile_graph(graph, None), None
    machine = Machine(config)
    options = {"latency": args.dram_latency, "outstanding": args.dram_outstanding}
    device = SimulatedDevice(machine, simulator(args.sim, **options))
    return compile_graph(graph, AccelTarget(machine, args.threads), device), machine


def _set_inputs(module, given: dict | None, seed: int) -> int | None:
    """The seed when the inputs are random, else None."""
    import numpy as np

    if given is not None:
        for name, array in given.items():
            module.set_input(name, array)
        return None
    rng = np.random.default_rng(seed)
    for name in module.graph.inputs:
        kind = module.graph.values[name]
        if kind.dtype == "float32":
            array = rng.random(kind.shape, np.float32)
        else:
            bounds = np.iinfo(kind.dtype)
            array = rng.integers(bounds.min, bounds.max, kind.shape, kind.dtype, endpoint=True)
        module.set_input(name, array)
    return seed


def _arrays(path: Path) -> dict:
    import zipfile
    import zlib

    import numpy as np

    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.lib.npyio.NpzFile):
                return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        pass
    raise RequestError(f"{str(path)!r} must be an .npz archive of named arrays")


def _write_outputs(module, path: Path) -> None:
    """As np.savez does, which cannot take every name."""
    import zipfile

    import numpy as np

    with zipfile.ZipFile(path, "w") as archive:
        for name in module.graph.outputs:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, module.get_output(name), allow_pickle=False)


def _watched(call, args: argparse.Namespace):
    """A spinner with the elapsed time on a terminal, for what may take more than two seconds."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
                  console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(f"{args.model.name} on {args.target} ({args.sim})", total=None)
        return call()
