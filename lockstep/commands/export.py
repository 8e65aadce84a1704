"""``lockstep export MODEL -o DIR``: a network as a library for C, without Python or a compiler."""

import argparse
from pathlib import Path
from typing import Any

from compiler.errors import RequestError
from lockstep.options.arguments import NETWORK, add_compilation
from lockstep.options.saved import saved_module
from lockstep.printing.lines import say
from lockstep.options.choices import OneOf
from lockstep.options.paths import model_file


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "export", help="write a network as a library for C and other languages",
        description="Write a network as code that needs neither Python nor a compiler of networks: "
                    "an object file or a library with two functions, its header, and a program "
                    "that tries it. With --target accel:MACHINE it is a driver in C, for boards "
                    "that have the accelerator in their memory map. --machine names the "
                    "processor: x86-64, x86-64-v3, x86-64-v4, aarch64, armv8-a, armv7, cortex-m7, "
                    "riscv32, riscv64 or wasm32; by default it is this computer's, and of a driver "
                    "any. Exit status: 0 done, 2 the request was wrong.")
    add = parser.add_argument
    add("model", metavar="MODEL", type=model_file,
        help=f"{NETWORK}; or what lockstep compile has made of one")
    add("-o", "--output", type=Path, required=True, metavar="DIR",
        help="the folder to write to; it is made where it is missing")
    add("--name", metavar="NAME",
        help="an identifier of C, with which all names begin (default: the network's)")
    add("--kind", type=OneOf("runtime.exporting.export:KINDS"),
        help="NAME.o (default), libNAME.a, libNAME.so, or NAME.wasm (default of wasm32)")
    add("--weights", choices=("inside", "apart"),
        help="constants in the code, or in a file NAME.bin (default: apart above 16 MiB)")
    add("--arrays", choices=("inside", "apart"),
        help="inputs and outputs have places in the arena, where a run overwrites them, or lie "
             "apart from it (default)")
    add("--bindings", metavar="LANGUAGES", default="",
        help="a list of cpp, java, rust and, with --kind shared, python and node: write what "
             "these languages need, too")
    add_compilation(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    from compiler.cpu_gpu_backends.cpu.target import CpuTarget
    from compiler.target_names import HOST
    from lockstep.options.compilation import compiled, plans_of
    from runtime.exporting.export import export
    from runtime.driver.loading import placed
    from runtime.driver.targets import request

    saved = saved_module(args, None)
    if saved and saved.machine:
        return _accelerated(args, saved)
    if saved:
        module, target = placed(saved, None), CpuTarget(plans=plans_of(args))
    else:
        args.target = args.target or "cpu"
        wanted = request(args.target)
        if wanted.machines:
            return _accelerated(args, None)
        if [name.partition(":")[0] for name in wanted.names] != ["cpu"]:
            raise RequestError(f"--target must be cpu, cpu:THREADS, cpu:plain or accel:MACHINE for "
                               f"an export, not {args.target}")
        module = compiled(args, None)
        target = wanted.placed(lambda machine: None, plans=plans_of(args))[HOST].target
    assert isinstance(target, CpuTarget)
    made = export(module, args.output, args.name, machine=args.machine, kind=args.kind,
                  apart=None if args.weights is None else args.weights == "apart",
                  threads=target.threads, plain=target.plain, plans=target.plans,
                  bindings=[one for one in args.bindings.split(",") if one],
                  inside=args.arrays == "inside")
    interface = made.exported.interface
    for file in made.files:
        say(f"{file}: {file.stat().st_size:,} bytes")
    say(f"{interface.name}: arena of {interface.arena_bytes:,} bytes, weights "
        + (f"apart, {interface.weights_bytes:,} bytes" if interface.weights_bytes else "inside"))
    return 0


def _accelerated(args: argparse.Namespace, saved: Any) -> int:
    """Exports a driver of boards; `saved` is the compiled module, where the file is one."""
    from compiler.exports.names import identifier_from
    from fpga.driver.export import export_accelerated
    from lockstep.options.compilation import compiled, machine_of
    from runtime import SimulatedDevice, simulator
    from runtime.driver.loading import placed

    if args.kind is not None:
        raise RequestError("--kind must be left out with an accelerator, whose export is text in C "
                           "and objects")
    if args.arrays is not None:
        raise RequestError("--arrays must be left out with an accelerator, whose driver copies "
                           "inputs and outputs")
    if args.bindings:
        raise RequestError("--bindings must be left out with an accelerator, whose driver takes a "
                           "board that only C describes")
    machine = saved.machine if saved else machine_of(args)
    assert machine is not None
    device = SimulatedDevice(machine, simulator("functional"))
    module = placed(saved, device) if saved else compiled(args, device)
    name = identifier_from(module.graph.name) if args.name is None else args.name
    made = export_accelerated(module, args.output, name, machine=args.machine,
                              apart=None if args.weights is None else args.weights == "apart")
    for file in made.files:
        say(f"{file}: {file.stat().st_size:,} bytes")
    sizes = dict(made.interface.sizes)
    say(f"{name}: {sizes['DMA_BYTES']:,} bytes of the board's memory, arena of "
        f"{made.interface.arena_bytes:,} bytes, for {machine.record}")
    return 0
