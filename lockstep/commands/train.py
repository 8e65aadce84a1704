"""``lockstep train NETWORK``: learns the weights of a network from data."""

import argparse
import re

from lockstep.options.arguments import NETWORK, add_quantizer, add_shape, at_least
from lockstep.options.choices import OneOf
from lockstep.options.paths import float_model_file, output_file


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "train", help="learn the weights of a network from data",
        description="Train a float network: its weights, norms and biases become those that lower "
                    "a loss over batches of data. Batch norms keep running statistics, dropouts "
                    "drop by a counter; the same request gives the same bits, also when it was "
                    "killed and continues from a checkpoint. With --quantize the network is "
                    "trained as it is quantized, and written so. Exit status: 0 done, 2 the "
                    "request was wrong, the data failed, or the loss is no number any more.")
    add = parser.add_argument
    add("model", metavar="NETWORK", type=float_model_file,
        help=f"{NETWORK}; one that is or becomes ONNX, in float")
    add("--data", type=training_data, required=True, metavar="FILE.npz|MODULE:FUNCTION",
        help="arrays of all rows, named as the network's inputs, and labels or target; or a "
             "function without arguments that gives a dictionary of them for each batch, the same "
             "ones each time: trust it like a program")
    add("--loss", type=OneOf("lockstep.training.request:LOSSES"), default="cross_entropy",
        help="what is lowered: of logits and labels (a class for each row), or of a result and "
             "target (default cross_entropy)")
    add("--of", metavar="OUTPUT", help="the output that the loss is of (default: the only one)")
    add("--batch", type=at_least(1), metavar="N",
        help="rows of a batch (default: those of the network's inputs)")
    add("--epochs", type=at_least(1), default=1, metavar="N",
        help="how often all data are gone through (default 1)")
    add("--steps", type=at_least(1), metavar="N", help="the most steps (default: all of the data)")
    add("--seed", type=at_least(0), default=0, metavar="N",
        help="of the order of rows and of what dropouts drop (default 0)")
    add("--freeze", action="append", default=[], metavar="NAME",
        help="leave these weights as they are; * stands for any text (repeatable)")
    add_shape(parser)
    _add_optimizer(parser)
    _add_checkpoint(parser)
    _add_quantization(parser)
    add("--memory", type=byte_count, metavar="N|NkB|NMB|NGB",
        help="the most bytes that activations take: parts of the network are computed twice in a "
             "step, to the same bits (default: as many as it takes)")
    add("--target", default="cpu", metavar="T",
        help="cpu, cpu:THREADS, cuda or opencl (default cpu)")
    add("--page", type=output_file, metavar="FILE.html",
        help="write one page with the curves of loss and rate")
    add("--json", type=output_file, metavar="R.json",
        help="write loss and rate of each step as JSON")
    add("-o", "--output", type=output_file, required=True, metavar="OUT.onnx",
        help="the network with the weights that were learned, quantized with --quantize")
    return parser


def _add_optimizer(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("optimizer").add_argument
    add("--optimizer", type=OneOf("lockstep.training.request:OPTIMIZERS"), default="adam",
        help="(default adam)")
    add("--rate", type=float, metavar="X", help="(default 0.001, of sgd 0.01)")
    add("--momentum", type=float, metavar="X",
        help="the part that stays of the step before (default 0.9)")
    add("--decay", type=float, default=0.0, metavar="X",
        help="the part of each weight that is added to its gradient (default 0)")
    add("--schedule", type=OneOf("compiler.gradients.rates:SHAPES"), default="constant",
        help="of the rate; cosine ends at 0 after the last step (default constant)")
    add("--warm-up", type=at_least(0), default=0, metavar="N",
        help="steps in which the rate rises first (default 0)")
    add("--drop-every", type=at_least(1), metavar="N", help="of --schedule step: steps")
    add("--drop-to", type=float, default=0.1, metavar="X",
        help="of --schedule step: the part of the rate that stays (default 0.1)")


def _add_checkpoint(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("checkpoints").add_argument
    add("--checkpoint", type=output_file, metavar="FILE",
        help="write all that the training continues from, at the end and on the way")
    add("--every", type=at_least(1), default=100, metavar="N",
        help="steps between checkpoints (default 100)")
    add("--resume", action="store_true",
        help="continue from --checkpoint; the same request then gives the same bits as undisturbed")


def _add_quantization(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("quantization", "as lockstep quantize has it; all of it "
                                      "needs --quantize")
    group.add_argument("--quantize", action="store_true",
        help="train a trained network as it is quantized: all is rounded on the way, gradients go "
             "straight through, step sizes are learned; write the quantized network")
    group.add_argument("--calibrate", type=at_least(1), metavar="N",
        help="rows of the data that ranges are taken from, the first ones (default 256)")
    add_quantizer(group)


def training_data(text: str) -> str:
    """A file, or ``MODULE:FUNCTION``."""
    from lockstep.options.paths import FileName, input_file

    return text if ":" in text and not text.endswith(".npz") else FileName(input_file(text))


def byte_count(text: str) -> int:
    """Parses a number of bytes, ``200MB``; units are powers of 1,000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(|[kMG])B?", text)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"must be bytes above 0, such as 200MB, not {text!r}")
    return int(float(found[1]) * 1000 ** " kMG".index(found[2] or " "))


def run(args: argparse.Namespace) -> int:
    if args.page:
        from lockstep.report import require_plotly

        require_plotly()
    from lockstep.training.request import train

    return train(args)
