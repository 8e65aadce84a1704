"""``lockstep compile MODEL -o FILE``: a network as one file that runs without a compiler."""

import argparse
from pathlib import Path

from compiler.errors import RequestError
from compiler.files import is_stream, whole_file, write_bytes, write_text
from compiler.target_names import ACCEL, HOST
from lockstep.options.arguments import DEFAULT_THREADS, NETWORK, add_compilation
from lockstep.printing.lines import say
from lockstep.options.choices import OneOf
from lockstep.options.paths import MachineName, OutputFolder, model_file, output_file


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "compile", help="compile a network to one file, which `lockstep run` takes",
        description="Compile a network to one file: programs of the accelerator, machine code of "
                    "the host, weights, and what reports need. `lockstep run FILE` runs it. It "
                    "holds machine code: trust it like a program, and a .pt2 file too, parts "
                    "of which torch evaluates. Exit status: 0 done, 2 the request was wrong.")
    parser.add_argument("model", metavar="MODEL", type=model_file,
                        help=NETWORK)
    parser.add_argument("-o", "--output", type=output_file, metavar="FILE",
                        help="the file to write, say resnet18.lockstep; with --emit the text's, "
                             "by default standard output")
    add_compilation(parser)
    parser.add_argument("--emit", type=OneOf("runtime.driver.emitted:KINDS",
                                             "runtime.driver.emitted:NETWORKS"),
                        metavar="KIND",
                        help="write, instead of a module, a text of it. cuda, opencl, metal, "
                             "ptx, llvm, asm: its kernels, and what the "
                             "host does with them: buffers, launches with grid, block and "
                             "arguments (ptx: of the first --arch, by default sm_80); loops: the "
                             "accelerator's scheduled loop programs; program: its words with "
                             "assembly and origin; timeloop: problem and mapping of each of its "
                             "layers with products, as YAML for Timeloop; c: the whole network in "
                             "C99, to FILE.c with FILE.h beside it; scalesim: the layers with "
                             "products as topology CSV for SCALE-Sim")
    parser.add_argument("--weights", choices=("inside", "apart"),
                        help="with --emit c: constants in FILE.c, or in FILE.bin beside it "
                             "(default: apart above 16 MiB)")
    parser.add_argument("--dump", type=OutputFolder, metavar="DIR",
                        help="write the text of every stage of the compiler, of which lockstep "
                             "show prints one")
    return parser


def run(args: argparse.Namespace) -> int:
    from compiler.graph.passes.pipeline import dump_into
    from lockstep.options.compilation import compiled, machine_of, target_of
    from runtime import SimulatedDevice, simulator
    from runtime.artifact import write
    from runtime.driver.emitted import NetworkStages
    from runtime.driver.pipeline import is_about_float

    output: Path | None = args.output
    if output is None and not args.emit:
        raise RequestError("-o FILE must be given, or --emit, which writes to standard output")
    _require_c(args)
    args.target = target_of(args)
    args.threads = args.threads or DEFAULT_THREADS
    args.no_cache = args.no_cache or args.emit is not None      # files have no text of the host
    machine = machine_of(args)
    device = SimulatedDevice(machine, simulator("functional")) if machine else None
    after = _dump(args.dump, dump_into)
    if args.emit == "c":
        network = NetworkStages(after) if after else None
        return _emit_c(args, compiled(args, device, network), network)
    module = compiled(args, device, after)
    if args.emit or output is None:
        return _emit(args, module)
    with whole_file(output) as file:
        write(module, file)
    if not is_stream(output):
        for note in filter(is_about_float, module.graph.notes):
            say(note)
        say(_summary(args, module))
        if args.verbose:
            for name, reason in module.partition.stay.items():
                say(f"on the host: {name} ({reason})")
    return 0


def _require_c(args: argparse.Namespace) -> None:
    """C is the processor's, and its header and weights lie beside it."""
    if args.emit != "c":
        if args.weights:
            raise RequestError("--weights must come with --emit c")
        return
    if args.target is None and args.machine is None:
        args.target = MachineName("cpu")
    output: Path | None = args.output
    if output is not None and not is_stream(output) and output.suffix != ".c":
        raise RequestError(f"-o FILE must end in .c with --emit c, which writes a header of the "
                           f"same name beside it, not {str(output)!r}")
    if args.weights == "apart" and (output is None or is_stream(output)):
        raise RequestError("--weights apart must come with -o FILE.c, beside which they lie")


def _emit_c(args: argparse.Namespace, module, stages) -> int:
    from runtime.driver.emitted import network_in_c

    output: Path | None = args.output
    path = None if output is None or is_stream(output) else output
    apart = None if args.weights is None else args.weights == "apart"
    files = (network_in_c(module, args.model.stem) if path is None else
             network_in_c(module, path.stem, path.with_suffix(".h").name, apart))
    if stages:
        stages.show(files.stages)
    if path is None:
        print(files.alone, end="") if output is None else write_text(output, files.alone)
        return 0
    write_text(path.with_suffix(".h"), files.header)
    if files.weights is not None:
        write_bytes(path.with_suffix(".bin"), files.weights)
    write_text(path, files.source)
    return 0


def _emit(args: argparse.Namespace, module) -> int:
    from runtime.arguments import archs_of
    from runtime.driver.emitted import ARCH, emitted
    from runtime.exporting.peers import scalesim

    if args.emit == "scalesim":
        text = scalesim(module.graph)
    else:
        text = emitted(module, args.emit, next(iter(archs_of(args.arch)), ARCH))
    if args.output:
        write_text(args.output, text)
    else:
        print(text, end="")
    return 0


def _dump(folder: Path | None, dump_into):
    if folder is None:
        return None
    try:
        return dump_into(folder)
    except OSError as error:
        raise RequestError(f"{str(folder)!r} must be a folder that can be written: "
                           f"{error.strerror or error}") from None


def _summary(args: argparse.Namespace, module) -> str:
    programs = [segment.program for segment in module.accelerated]
    layers = sum(len(program.layers) for program in programs)
    words = sum(program.count for program in programs)
    on: dict[str, int] = {"the host": 0}
    for segment in module.partition.segments:
        if segment.target != ACCEL:
            name = "the host" if segment.target == HOST else segment.target
            on[name] = on.get(name, 0) + len(segment.nodes)
    others = ", ".join(f"{count} operators on {name}" for name, count in on.items())
    return (f"{args.output}: {args.model.name} for {args.target}, {layers} layers on the "
            f"accelerator ({words:,} instructions), {others} with weights of "
            f"{module.host_weight_bytes:,} bytes, {args.output.stat().st_size:,} bytes")
