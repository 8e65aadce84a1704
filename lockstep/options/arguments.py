"""Types of arguments beyond plain numbers and names."""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from accel.estimates.technology_files import DEFAULT, technologies
from accel.machine.config import MACHINE
from accel.machine.dram import DRAM
from compiler.target_names import ACCEL, HOST
from lockstep.options.choices import OneOf
from lockstep.options.paths import (FileName, MachineName, OutputFile, input_file, known_name,
                                    machine_name, output_file)

AddKind = Callable[[Any], argparse.ArgumentParser]

NETWORK = ("a network: a file (ONNX, .pt2 of torch.export.save, or another of docs/frontends.md), "
           "or a name such as digits, resnet18 or resnet18@64 (docs/commands.md)")
DEFAULT_THREADS = 2
LONGEST = 1e6           # that a time may be, in its unit
WAVES = ".fst"
CACHED_PLANS, OWN_PLANS = "db", "own"

EFFORT = OneOf("accel.mapping.plans.search:EFFORTS", names=lambda efforts: range(len(efforts)),
               convert=int)
"""A place in the list of efforts."""

CALIBRATION = ("samples: .npz with an array [N, ...] for each input, or .npy for the only input; "
               "several files are joined")


def add_compilation(parser: argparse.ArgumentParser) -> argparse._ActionsContainer:
    """Adds the options of compilation; returns the group of those of quantization. An option that
    is not given is None, False or empty.
    """
    add = parser.add_argument
    add("--target", type=MachineName, metavar="T",
        help="accel:MACHINE, cpu, cpu:THREADS, cpu:plain, cuda, opencl or metal; a list of them in "
             "order of preference, such as accel:MACHINE,cpu; or auto:MACHINE, or auto: before a "
             "list, which gives each part of the network to the target where it costs least "
             "(default accel)")
    add_machine(parser, f"that a target means by accel alone (default {MACHINE})", None)
    add("--pin", action="append", type=pin, default=[], metavar=f"NAME={HOST}|{ACCEL}",
        help="where a layer, or all layers of an operator, must be computed")
    add("--link", type=link, default={}, metavar="BYTES[,LATENCY[,START]]",
        help="what auto assumes of the way to the accelerator: bytes a second (default 400e6), "
             "seconds of each copy (default 5e-6), seconds of each start (default 20e-6)")
    add("--objective", type=OneOf("runtime.driver.auto:OBJECTIVES"),
        help="what auto makes least: the time of one inference, or of one of many that are "
             "pipelined (default latency)")
    add("--arch", metavar="SM[,SM]", default="",
        help="with a target cuda: compile kernels for these architectures, such as sm_80,sm_90a, "
             "by NVRTC; a file then needs no compiler there")
    add("--precision", type=OneOf("compiler.cpu_gpu_backends.gpu.target:PRECISIONS"),
        help="with a target cuda: multiply float32 by tensor cores, factors rounded to 10 bits of "
             "mantissa or stored as halves, sums in float32 (default: factors in float32)")
    add("--bus-bytes", type=at_least(1), metavar="N", help="override the machine's bus width")
    add_memory(parser)
    add("--threads", type=OneOf("runtime.arguments:THREADS", convert=int),
        help=f"virtual threads of the schedules (default {DEFAULT_THREADS}; 1 hides no latency)")
    add("--effort", type=EFFORT, default=0,
        help="how the accelerator's tiles are chosen: 0, by a closed formula (default); 1 and 2, "
             "by simulating some ways, or a few dozen, of every layer that loses cycles")
    add("--plans", type=plans_file, metavar="FILE|db|own",
        help="schedules and tiles: a database that lockstep tune has made, db for the one in the "
             "cache, records or plans that were written to a file; own: targets choose (default: "
             "those that come with Lockstep, else targets choose)")
    add_shape(parser)
    add_bind(parser)
    add("--no-integerize", action="store_true", help="keep ONNX's float semantics on the host")
    add("--strict", action="store_true",
        help="end with exit status 3 where the accelerator fails to map a layer, which is a defect "
             "of Lockstep; else the host computes it, and a line says so")
    add("--no-cache", action="store_true",
        help="compile even if the cache has the network, and keep nothing there")
    add_verbose(parser)
    quantizer = parser.add_argument_group(
        "quantization", "Of a float network, before it is compiled: see lockstep quantize.")
    quantizer.add_argument("--calibration", type=input_file, nargs="+", metavar="FILE",
                           help=f"quantize the network by these {CALIBRATION}")
    add_quantizer(quantizer)
    return quantizer


def plans_file(text: str) -> str:
    """``db``, ``own``, or a file that is there."""
    return text if text in (CACHED_PLANS, OWN_PLANS) else FileName(input_file(text))


def add_machine(parser: argparse.ArgumentParser, which: str, default: str | None) -> None:
    """Adds the option that names a machine. ``--config`` is its older name."""
    parser.add_argument(
        "--machine", "--config", type=machine_name, default=default, metavar="M",
        help=f"the machine {which}: a preset, FILE.toml, or FILE.py (a folder, an installed "
             f"package's name), which is run: trust it like a program")


def add_memory(parser: argparse._ActionsContainer) -> None:
    """Adds the option that puts the memory of a board behind the machine."""
    parser.add_argument(
        "--memory", type=memory, metavar="board:NAME[@MHZ]",
        help="simulate with the memory of a board and at its clock, or at this one (default: the "
             "machine's)")


def add_technology(parser: argparse._ActionsContainer, default: str | None = DEFAULT) -> None:
    """Adds the option that names what the machine is built in."""
    parser.add_argument(
        "--technology", type=known_name, default=default, metavar="T",
        help=f"what the machine is built in, from which area, clock, energy and leakage follow as "
             f"far as it has them: {', '.join(technologies())}, or FILE.toml"
             + (f" (default {default})" if default else ""))


def certificates_of(text: str | None):
    """The certificates of ``CA,CERT,KEY``; None without the option."""
    from runtime.tuning.certificates import Certificates

    return None if text is None else Certificates.of(text)


def add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verbose", action="store_true",
                        help="list every layer where reasons are counted")


QUANTIZER = ("observer", "percentile", "equalize", "bias_correction", "keep_float", "budget",
             "weight_bits", "weight_groups", "scale_bits", "weight_rounding", "sparsity",
             "activation_bits")
"""Options of `compiler.quantize.quantize` that commands have."""


def add_quantizer(parser: argparse._ActionsContainer, budget: str = "--budget") -> None:
    """Adds the options of quantization; `budget` is the name of one that other commands have for
    something else. An option that is not given is None or empty.
    """
    add = parser.add_argument
    add("--observer", type=OneOf("compiler.quantize.ranges.observers:OBSERVERS"),
        help="how ranges are chosen: extremes, percentiles, or the least mean squared error "
             "(default minmax)")
    add("--percentile", type=float, metavar="P",
        help="of --observer percentile: from the (100 - P)th to the Pth (default 99.99)")
    add("--equalize", action="store_true", default=None,
        help="first bring channels of layers in a row to like ranges (cross-layer equalization)")
    add("--bias-correction", action=argparse.BooleanOptionalAction,
        help="correct biases so that the samples' means stay (default: yes)")
    add("--keep-float", action="append", default=[], metavar="LAYER",
        help="leave this layer in float (repeatable)")
    add(budget, dest="budget", metavar="POINTS|NdB",
        help="percentage points of samples whose largest output may change, or the least SQNR of "
             "the outputs, such as 30dB: the layers that hurt most fall back to float until it "
             "is met")
    add("--weight-bits", action="append", default=[], metavar="BITS|LAYER=BITS",
        help="bits of weights, 8, 4 or 2: of all layers but the first and the last, or of this "
             "layer (repeatable); with a budget, the layers that hurt most get 8 until it is met")
    add("--weight-groups", type=int, metavar="N",
        help="matrices of weights of 4 or 2 bits have a scale for each N inputs, 16 to 1,024, a "
             "power of two")
    add("--scale-bits", type=int, choices=(8, 16),
        help="bits of the scales of --weight-groups (default 8)")
    add("--weight-rounding", type=OneOf("compiler.quantize.improve.error_feedback:ROUNDINGS"),
        help="of weights of 4 or 2 bits: to the nearest, or with feedback: one input after "
             "another, each error taken from those behind it, so that sums over the samples stay "
             "(default nearest)")
    add("--sparsity", metavar="N:M",
        help="2:4 keeps the two largest weights of each four input channels in a row, in all "
             "layers but the first and the last; none keeps all, also for a machine that needs "
             "sparse weights")
    add("--activation-bits", type=int, choices=(16, 8, 4, 2),
        help="bits of activations (default those that the machine stores, else 8); of 4 and 2 "
             "inputs and outputs of the network have 8")


def quantizer_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of `QUANTIZER` that were given."""
    given = {name: getattr(args, name) for name in QUANTIZER}
    return {name: value for name, value in given.items()
            if value is not None and value != []}


def add_shape(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--shape", action="append", type=shape, default=[], metavar="NAME=N",
        help="extent of a dimension that the model leaves open, by its name or place (x.2: the "
             "third of input x)")


def add_bind(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--bind", action="append", type=binding, default=[], metavar="NAME=VALUE",
        help="make this input a constant: a number for all its elements, or a list such as [1,2]")


def add_kinds(parser: argparse.ArgumentParser, kinds: Sequence[tuple[AddKind, Any]]) -> None:
    """Adds commands of a command: what adds the parser of each, and its `perform`."""
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for add, perform in kinds:
        add(subparsers).set_defaults(perform=perform)


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--json", type=output_file, metavar="R.json", help=what)


def add_tls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tls", metavar="CA,CERT,KEY",
                        help="certificates in PEM for tls://, as lockstep pool certificates makes "
                             "them: the authority's, one's own, and its key")


def at_least(low: int) -> Callable[[str], int]:
    """A type for integers of at least this value, written in digits alone."""
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {low}, not {text!r}")
        return int(text)
    return parse


def seconds(text: str) -> float:
    """Parses a number of seconds."""
    return _time(text, "seconds")


def minutes(text: str) -> float:
    """Parses a number of minutes."""
    return _time(text, "minutes")


def _time(text: str, unit: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < LONGEST:
        raise argparse.ArgumentTypeError(f"must be a number of {unit} above 0, not {text!r}")
    return value


def shape(text: str) -> tuple[str, int]:
    """Parses ``NAME=N``."""
    name, equals, value = text.partition("=")
    if not (name and equals and value.isdigit() and int(value)):
        raise argparse.ArgumentTypeError(f"must be NAME=N with N at least 1, not {text!r}")
    return name, int(value)


def binding(text: str) -> tuple[str, Any]:
    """Parses ``NAME=VALUE``, the value a number, true, false, or a list of these in JSON."""
    name, equals, value = text.partition("=")
    try:
        elements = json.loads(value)
    except (ValueError, RecursionError):
        elements = None
    if not (name and equals and isinstance(elements, int | float | list)):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE with a number or a list of numbers, "
                                         f"not {text!r}")
    return name, elements


def rate(text: str) -> float:
    """Parses a number of bytes, not necessarily integral."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of bytes above 0, not {text!r}")
    return value


def memory(text: str) -> tuple[str, int | None]:
    """Parses ``board:NAME[@MHZ]``; the clock is None where it is left out."""
    found = re.fullmatch(r"board:([^@]+)(?:@([1-9][0-9]{0,3}))?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"must be board:NAME or board:NAME@MHZ, not {text!r}")
    return found[1], int(found[2]) if found[2] else None


def refresh(text: str) -> dict[str, int]:
    """Parses ``INTERVAL,CYCLES`` into options of `accel.machine.dram.Dram`."""
    numbers = text.split(",")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"must be INTERVAL,CYCLES, not {text!r}")
    return dict(zip(("refresh_interval", "refresh_cycles"), map(int, numbers)))


def row_buffer(text: str) -> dict[str, int | None]:
    """Parses ``BYTES[,MISS[,BANKS]]`` into options of `accel.machine.dram.Dram`; what is left out
    has its default.
    """
    numbers = text.split(",")
    if len(numbers) > 3 or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"must be BYTES[,MISS[,BANKS]], not {text!r}")
    given = dict(zip(("row_bytes", "row_miss", "banks"), map(int, numbers)))
    return {"row_miss": DRAM.row_miss, "banks": DRAM.banks, "row_closed": None, **given}


def waves(text: str) -> tuple[str, OutputFile]:
    """Layer and file of ``LAYER[,FILE.fst]``; without a file, it has the layer's name."""
    layer, comma, file = text.rpartition(",")
    if not (comma and file.endswith(WAVES)):
        layer, file = text, re.sub(r"[^\w.-]+", "_", text) + WAVES
    return layer, output_file(file)


def pin(text: str) -> tuple[str, str]:
    """Name and target of ``NAME=TARGET``; the name may have equals signs."""
    name, _, target = text.rpartition("=")
    if not name or target not in (HOST, ACCEL):
        raise argparse.ArgumentTypeError(f"must be NAME={HOST} or NAME={ACCEL}, not {text!r}")
    return name, target


def link(text: str) -> dict[str, float]:
    """Parses ``BYTES[,LATENCY[,START]]`` into options of `runtime.pricing.link.Link`."""
    try:
        numbers = list(map(float, text.split(",")))
    except ValueError:
        numbers = []
    fits = 1 <= len(numbers) <= 3 and all(0 <= number < float("inf") for number in numbers)
    if not fits or not numbers[0]:
        raise argparse.ArgumentTypeError(f"must be BYTES[,LATENCY[,START]], bytes a second above "
                                         f"0 and seconds, not {text!r}")
    return dict(zip(("bytes_per_second", "latency_seconds", "start_seconds"), numbers))
