"""Options of commands that measure whole inferences: samples, accuracy, and the host."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.errors import RequestError
from lockstep.options.arguments import (CALIBRATION, QUANTIZER, add_bind, add_quantizer, add_shape,
                                        quantizer_options)
from lockstep.options.paths import FunctionName, input_file, known_name

if TYPE_CHECKING:
    from runtime.driver.calibrated import Calibration


def add_calibration(parser: argparse.ArgumentParser, budget: str = "--budget") -> None:
    """Adds the options by which networks in float are quantized for each machine; `budget` as in
    `add_quantizer`.
    """
    group = parser.add_argument_group(
        "quantization", "Of networks in float, for each machine with the same samples and "
                        "options: see lockstep quantize. Networks in int8 are taken as they are.")
    group.add_argument("--calibration", type=input_file, nargs="+", metavar="FILE",
                       help=f"quantize networks in float by these {CALIBRATION}")
    add_accuracy(group)
    add_quantizer(group, budget)
    add_bind(group)
    add_shape(parser)


ACCURACY = ("held_out", "metric")
"""Options that `add_accuracy` adds."""


def add_accuracy(group: argparse._ActionsContainer) -> None:
    """Adds what accuracy is measured with."""
    group.add_argument("--held-out", type=input_file, nargs="+", default=[], metavar="FILE",
                       help="tell accuracy by these samples (default: those of --calibration); "
                            "arrays that are no inputs are labels")
    group.add_argument("--metric", type=FunctionName, default="", metavar="FILE.py:NAME",
                       help="accuracy by a function of outputs and of what they should be (outputs "
                            "in float, and labels), by name, that gives a number, the greatest is "
                            "best; the file is run (default: signal to noise in dB)")


def add_host(parser: argparse.ArgumentParser) -> None:
    """Adds the host that computes what the accelerator does not."""
    parser.add_argument("--host", type=known_name, default="table", metavar="H",
                        help="what computes the rest of a network: table, an in-order core at "
                             "1 GHz by counts; FILE.toml, counts of your own; this, this "
                             "processor, measured (default table)")


def calibration_of(args: argparse.Namespace, others: Sequence[str] = ("bind",)
                   ) -> "Calibration | None":
    """The samples of --calibration with their options; None without. Raises RequestError for
    options that mean nothing without samples, `others` of the command among them.
    """
    if args.calibration is None:
        for name in (*QUANTIZER, *ACCURACY, *others):
            if getattr(args, name) not in (None, False, [], ""):
                raise RequestError(f"--{name.replace('_', '-')} must come with --calibration FILE, "
                                   f"which quantizes the network")
        return None
    from runtime.driver.calibrated import Calibration

    bind = {"bind": dict(args.bind)} if args.bind else {}
    found = Calibration(tuple(args.calibration), quantizer_options(args) | bind,
                        tuple(args.held_out), args.metric)
    if args.metric:
        found.require_metric()
    return found
