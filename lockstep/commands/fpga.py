"""``lockstep fpga build|program|run|selftest``: the accelerator on a board."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compiler.errors import RequestError
from lockstep.options.arguments import NETWORK, add_compilation, add_kinds, add_machine, at_least
from lockstep.printing.lines import say
from lockstep.options.paths import input_file, model_file, output_file, require_files

DEFAULT = "tiny-1x4x4"
EMULATED = "ulx3s-85f"
"""The board whose memory and clock the emulated one has."""


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "fpga", help="build bitstreams, load them, run networks on boards and test boards",
        description="The accelerator on a board. Exit status: 0 done, 1 the board or the run was "
                    "found wrong, 2 the request was wrong.")
    add_kinds(parser, ((_add_build, _build), (_add_program, _program), (_add_run, _run),
                       (_add_selftest, _selftest)))
    return parser


def run(args: argparse.Namespace) -> int:
    return args.perform(args)


def _add_build(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "build", help="make a bitstream",
        description="Synthesize, place and route, and pack. BOARD-CONFIG.bit and a record of what "
                    "it is, BOARD-CONFIG.json, are written. yosys, nextpnr-ecp5 and ecppack are "
                    "the system's where they are new enough, else those of their wheels. Netlists "
                    "and placements are kept in the cache.")
    add = parser.add_argument
    add("--board", required=True, metavar="B", help="ulx3s-12f, -25f, -45f, -85f or ecpix5-85f")
    add_machine(parser, f"(default {DEFAULT})", DEFAULT)
    add("--mhz", type=_mhz, metavar="X", help="clock (default: the board's)")
    add("--seeds", type=at_least(1), default=1, metavar="N",
        help="placements, of which the fastest is taken (default 1)")
    add("--out", type=Path, default=Path("."), metavar="DIR", help="default: the current folder")
    add("--json", action="store_true", help="print the record")
    return parser


def _add_program(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser("program", help="load a bitstream into a board",
                              description="Load a bitstream by openFPGALoader.")
    parser.add_argument("bitstream", type=input_file, metavar="FILE.bit",
                        help="one that `lockstep fpga build` wrote, its record beside it")
    parser.add_argument("--flash", action="store_true",
                        help="into flash memory, so that it outlives the power")
    return parser


def _add_run(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "run", help="run a network on a board",
        description="Compile a network for the machine that a board holds, or take one that "
                    "`lockstep compile` has written, load it once and run all inputs.")
    add = parser.add_argument
    add("model", metavar="NETWORK", type=model_file,
        help=f"{NETWORK}; or what lockstep compile has made of one")
    _add_board(parser)
    add_compilation(parser)
    add("--input", type=input_file, metavar="X.npz",
        help="inputs, by name; of many inferences with one more axis in front. An array `labels` "
             "holds their classes. Without it the input is seeded random")
    add("--output", type=output_file, metavar="Y.npz", help="write the outputs, by name")
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the random input (default 0)")
    add("--json", type=output_file, metavar="R.json", help="write the report as JSON")
    return parser


def _add_selftest(kinds) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        "selftest", help="test a board's link and memory, and its machine by random programs",
        description="Test the link, the memory, and the machine: random programs on the board and "
                    "on the functional simulator, compared to the byte.")
    _add_board(parser)
    add = parser.add_argument
    add_machine(parser, f"(default: the board's own, or {DEFAULT} for --emulated)", None)
    add("--count", type=at_least(1), default=50, metavar="N", help="random programs (default 50)")
    add("--seed", type=at_least(0), default=0, metavar="N", help="default 0")
    add("--json", type=output_file, metavar="R.json", help="write the report")
    return parser


def _add_board(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--port", metavar="DEVICE", help="serial port of the board: /dev/ttyUSB0")
    which.add_argument("--emulated", action="store_true",
                       help="the board's gateware in Verilator (built first, in a minute or two)")
    parser.add_argument("--baud", type=at_least(9600), metavar="N",
                        help="of the port (default: what the board answers to)")


def _mhz(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1000:
        raise argparse.ArgumentTypeError(f"must be a number of MHz, not {text!r}")
    return value


def _build(args: argparse.Namespace) -> int:
    import time

    from rich.console import Console

    from accel.machine.loading import load_machine
    from fpga.boards import board
    from fpga.building.build import build, written

    chosen, machine = board(args.board), load_machine(args.machine)
    if os.path.exists(args.out) and not os.path.isdir(args.out):    # pathlib's raise for some names
        raise RequestError(f"--out must name a folder, not {str(args.out)!r}")
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"{str(args.out)!r} cannot be made: {error.strerror}") from None
    paths = written(args.out, f"{chosen.name}-{machine.config.name}")
    require_files({**vars(args), "out": [output_file(str(path)) for path in paths]})
    console, begin = Console(stderr=True), time.monotonic()

    def tell(message: str) -> None:
        console.print(f"{time.monotonic() - begin:6.0f} s  {message}", highlight=False,
                      markup=False)

    bitstream = build(chosen, machine, args.mhz, args.seeds, tell)
    bits, record = bitstream.write(args.out)
    if args.json:
        print(json.dumps({**bitstream.record, "bitstream": str(bits)}, indent=1))
    else:
        _show_build(bitstream.record)
        say(f"wrote {bits} and {record}")
    return 0


def _show_build(record: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from fpga.building.build import NAMES

    console = Console(markup=False)
    table = Table("cells", box=None, pad_edge=False)
    for heading in ("used", "of", ""):
        table.add_column(heading, justify="right")
    for name, used in record["used"].items():
        of = record["available"][name]
        table.add_row(NAMES[name], f"{used:,}", f"{of:,}", f"{used / of:.0%}")
    console.print(table)
    path = ", ".join(f"{unit} {delay} ns" for unit, delay in record["critical_path"])
    for line in (f"critical path: {path}",
                 f"clock {record['clock_hz'] / 1e6:g} MHz of the {record['mhz']:g} that seed "
                 f"{record['seed']} reaches, {record['peak_gops']:g} GOP/s at most, "
                 f"{record['baud']:,} baud",
                 f"made by {', '.join(record['tools'])}"):
        say(line)


def _program(args: argparse.Namespace) -> int:
    from fpga.boards import board
    from fpga.building.build import Bitstream
    from fpga.loader import load
    from lockstep.printing.progress import progress_bar

    bitstream = Bitstream.read(args.bitstream)
    chosen = board(bitstream.record["board"])
    with progress_bar(f"loading {chosen.name}", 0, lambda: 0):
        load(chosen, args.bitstream, args.flash)
    say(f"{chosen.name} holds {bitstream.record['config']} "
        f"({bitstream.record['machine'][:12]}) at {bitstream.record['clock_hz'] / 1e6:g} MHz, "
        f"{bitstream.record['baud']:,} baud")
    return 0


@contextmanager
def _opened(args: argparse.Namespace, machine) -> Iterator[Any]:
    from fpga.opening import opened

    if args.baud and args.emulated:
        raise RequestError("--baud must be left out with --emulated: there is no line")
    rates = {"rates": [args.baud]} if args.baud else {}
    with opened(None if args.emulated else args.port, machine, **rates) as device:
        yield device


def _run(args: argparse.Namespace) -> int:
    import numpy as np

    from fpga.inference import classes, infer, inferences
    from lockstep.options.compilation import imported
    from lockstep.printing.layers import show
    from lockstep.printing.progress import progress_bar
    from lockstep.options.inputs import arrays, write_outputs
    from lockstep.options.saved import saved_module
    from runtime import DeviceError
    from runtime.exporting.ports import random_inputs

    saved = saved_module(args, args.machine)
    given = arrays(args.input) if args.input else None
    machine = _machine(args, saved)
    graph = saved.graph if saved else imported(args)
    samples, labels = inferences(graph, given) if given is not None else ([], None)
    with _opened(args, machine) as device:
        if args.target is None:
            args.target = f"accel:{device.machine.config.name}"
        module = _on(args, saved, device, graph)
        if given is None:
            samples = [random_inputs(module.graph, args.seed)]
        done = 0

        def heard(number: int) -> None:
            nonlocal done
            done = number

        try:
            with progress_bar(f"{args.model.name} on {device.link.line.name}", len(samples),
                              lambda: done):
                outputs, figures = infer(module, device, samples, heard)
        except DeviceError as error:
            print(f"lockstep: {error}", file=sys.stderr)
            return 1
    figures |= {"model": args.model.title, "target": args.target,
                "simulator": "emulated board" if args.emulated else args.port,
                "seed": args.seed if given is None else None}
    if labels is not None:
        figures["accuracy"] = float((classes(outputs) == labels).mean())
    show(figures, args.verbose)
    say(f"{len(samples)} inferences, {figures['seconds'] * 1e3:.3f} ms each at "
        f"{device.clock_hz / 1e6:g} MHz, {figures['wall_seconds'] / len(samples):.3f} s with the "
        f"link, {figures['link']['repeated']} requests repeated")
    if figures["link"]["faults"]:
        say(f"{device.link.line.name}: {figures['link']['faults']}")
    if labels is not None:
        print(f"accuracy {figures['accuracy']:.2%} of {len(labels)}")
    if args.output:
        write_outputs({name: np.concatenate([arrays[name] for arrays in outputs])
                       if len(outputs) > 1 else outputs[0][name] for name in outputs[0]},
                      args.output)
    _write_json(args.json, figures)
    return 0


def _write_json(path: Path | None, report: Mapping[str, Any]) -> None:
    from compiler.files import whole_file

    if path:
        with whole_file(path) as file:
            file.write(f"{json.dumps(report, indent=1)}\n".encode())


def _machine(args: argparse.Namespace, saved):
    """The machine that the network is for; None for the board's own."""
    from fpga.memory import on_board
    from lockstep.options.compilation import machine_of, target_of

    if saved is None and args.target is None and args.machine is None:
        if args.bus_bytes:
            raise RequestError("--bus-bytes must come with --machine M, and a board of that "
                               "machine")
        if args.memory:
            raise RequestError("--memory must come with --machine M: what it changes are costs "
                               "that auto weighs")
        return None
    if saved is None:
        args.target = target_of(args)
    machine = saved.machine if saved else machine_of(args)
    if machine is None:
        raise RequestError(f"{str(args.model)!r} must have layers for the accelerator: it is "
                           f"compiled for the host alone" if saved else
                           "--target must be accel:MACHINE or auto:MACHINE for a board, not cpu")
    if args.emulated and args.memory is None and saved is None:     # for the costs that auto weighs
        return on_board(machine, EMULATED)
    return machine


def _on(args: argparse.Namespace, saved, device, graph):
    """Places the module on the board, with its programs and weights loaded."""
    from lockstep.options.compilation import compiled
    from lockstep.printing.progress import progress_bar
    from runtime.driver.loading import placed

    with progress_bar(f"loading {args.model.name}", 0, lambda: 0):
        return placed(saved, device) if saved else compiled(args, device, graph=graph)


def _selftest(args: argparse.Namespace) -> int:
    from accel.machine.loading import load_machine
    from fpga.selftest import selftest

    machine = load_machine(args.machine) if args.machine else None
    with _opened(args, machine) as device, _bars() as progress:
        report = selftest(device, args.count, args.seed, progress)
    print(f"link: {report.frames} frames, {report.repeated} requests repeated, "
          f"{report.dropped} frames spoiled")
    print(f"memory: {report.memory_bytes:,} bytes compared")
    say(f"programs: {report.programs} as simulated"
        + (f", {report.skipped} left out: they leave their memory" if report.skipped else ""))
    for failure in report.failures:
        say(f"FAILED {failure}")
    print("the board works" if report.ok else "NOT OK")
    _write_json(args.json, report.as_json())
    return 0 if report.ok else 1


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    """Shows a bar on a terminal for each test; yields the function that moves them."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks: dict[str, Any] = {}

        def show(description: str, done: int, total: int) -> None:
            if description not in tasks:
                tasks[description] = progress.add_task(description)
            progress.update(tasks[description], completed=done, total=total)

        yield show
