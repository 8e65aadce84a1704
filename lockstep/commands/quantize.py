"""``lockstep quantize MODEL``: makes an int8 network of a float network and samples of its input.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from compiler.errors import RequestError
from compiler.files import whole_file
from lockstep.options.arguments import (CALIBRATION, NETWORK, add_bind, add_machine, add_quantizer,
                                        add_verbose, quantizer_options)
from lockstep.printing.lines import counted, say
from lockstep.printing.table import show_table
from lockstep.options.paths import input_file, model_file, output_file
from lockstep.options.results import PICTURES, add_pictures, add_rows

USUAL = {"observer": "minmax", "percentile": 99.99}

NAMED = 6
"""The most layers that a line names; it counts the others."""


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "quantize", help="make an int8 network from a float one and samples of its input",
        description="Quantize a float network after training: int8 weights with a scale for "
                    "each output channel, uint8 activations with ranges that the samples gave, in "
                    "the QDQ form that other tools run too. Print the signal to quantization "
                    "noise ratio (SQNR) of each layer's result: alone, the layer quantized by "
                    "itself; accumulated, in the quantized network. Nothing is random. Exit "
                    "status: 0 done, 2 the request was wrong.")
    add = parser.add_argument
    add("model", metavar="MODEL", type=model_file,
        help=f"{NETWORK}. Parts of a .pt2 are evaluated by torch: trust it like a program")
    add("--calibration", type=input_file, nargs="+", required=True, metavar="FILE",
        help=CALIBRATION)
    add_machine(parser, "that the network is quantized for: bits of activations, sparse weights, "
                        "and what its instructions match follow from it", None)
    add_quantizer(parser)
    add_bind(parser)
    add_verbose(parser)
    parser.set_defaults(**USUAL)
    add("--report", type=output_file, metavar="FILE.html", help="write one page with the picture")
    add_pictures(parser)
    add("--json", type=output_file, metavar="R.json", help="write the report as JSON")
    add_rows(parser, "the layers")
    add("-o", "--output", type=output_file, required=True, metavar="OUT.onnx",
        help="the int8 network")
    return parser


def run(args: argparse.Namespace) -> int:
    if args.report:
        from lockstep.report import require_plotly

        require_plotly()
    from compiler.quantize.quantizer import quantize
    from compiler.te import is_float
    from lockstep.printing.progress import watching
    from lockstep.printing.rows import layer_rows, put_rows
    from lockstep.provenance import Asked
    from lockstep.report.pictures import put_pictures, require_matplotlib
    from lockstep.report.pictures.others import quantization_pictures

    require_matplotlib(args)
    asked, options, machines = Asked.of(args), quantizer_options(args), {}
    if args.machine:
        from accel.machine.loading import load_machine
        from accel.mapping.quantizing import quantizer_options as options_for

        machine = machines[args.machine] = load_machine(args.machine)
        if is_float(machine.config.output):
            return _in_floats(args, asked, options, machine)
        options = options_for(machine, options)
    quantization = quantize(args.model, args.calibration, **options, bind=dict(args.bind),
                            watch=watching(args.model.name))
    figures = _written(args, quantization.model, _figures(args, options, quantization)
                       | {"provenance": asked.provenance(machines)})
    if args.report:
        from lockstep.report.quantization import write_quantization_page

        with whole_file(args.report) as file:
            write_quantization_page(file, figures)
    put_rows(args, layer_rows(figures))
    put_pictures(args, quantization_pictures(figures), figures["provenance"])
    if not args.tsv:
        _show(figures, args.verbose)
    return 0


def _written(args: argparse.Namespace, model: Any, figures: dict[str, Any]) -> dict[str, Any]:
    """Writes the network, and the figures where they are asked for: these, with its hash."""
    data = model.SerializeToString(deterministic=True)
    figures = figures | {"sha256": hashlib.sha256(data).hexdigest()}
    with whole_file(args.output) as file:
        file.write(data)
    if args.json:
        with whole_file(args.json) as file:
            file.write(f"{json.dumps(figures, indent=1)}\n".encode())
    return figures


def _in_floats(args: argparse.Namespace, asked: Any, options: Mapping[str, Any], machine: Any
               ) -> int:
    """The network in floats of few bits, for a machine that stores these."""
    from accel.mapping.quantizing import float_options
    from compiler.quantize.in_floats import in_floats
    from lockstep.printing.progress import watching
    from lockstep.printing.rows import layer_rows, put_rows

    for name in ("report", *PICTURES):
        if getattr(args, name):
            raise RequestError(f"--{name} must be left out: there is no page of networks in floats")
    given = {name: value for name, value in options.items() if value != USUAL.get(name)}
    types = float_options(machine, {**given, "bind": dict(args.bind)})
    made = in_floats(args.model, args.calibration, **types, watch=watching(args.model.name))
    figures = _written(args, made.model, {
        "machine": str(args.machine), "model": str(args.model), "output": args.output.title,
        "keep_float": args.keep_float, "activations": types["activations"],
        "weights": types["weights"], "hindrance": made.hindrance, "samples": made.samples,
        "sqnr_db": made.decibels,
        "layers": [asdict(layer) for layer in made.layers],
        "provenance": asked.provenance({args.machine: machine})})
    put_rows(args, layer_rows(figures))
    if not args.tsv:
        _show_floats(figures, args.verbose)
    return 0


def _show_floats(figures: Mapping[str, Any], verbose: bool) -> None:
    layers = figures["layers"]
    names = " and ".join(dict.fromkeys((figures["activations"], figures["weights"])))
    show_table(f"{figures['model']}: layers that multiply {names}",
               ("layer", "operator", "numbers"),
               [(layer["name"], layer["op"], names if layer["quantized"] else "float32")
                for layer in layers], left=3)
    for line in counted("in float32", [(layer["name"], layer["op"], layer["reason"])
                                       for layer in layers if layer["reason"]], verbose):
        say(line)
    if figures["hindrance"]:
        say(figures["hindrance"])
    say(f"{sum(layer['quantized'] for layer in layers)} of {len(layers)} layers in {names}, "
        f"{figures['samples']} samples, no random numbers")
    say(_noise(figures))
    say(f"{figures['output']}: sha256 {figures['sha256'][:16]}")


def _figures(args: argparse.Namespace, options: Mapping[str, Any], quantized) -> dict[str, Any]:
    return {
        "machine": args.machine and str(args.machine),
        "model": str(args.model), "output": args.output.title, "observer": args.observer,
        "percentile": args.percentile if args.observer == "percentile" else None,
        "equalize": bool(args.equalize), "equalized_pairs": quantized.equalized,
        "bias_correction": args.bias_correction is not False, "budget": args.budget,
        "keep_float": args.keep_float, "weight_bits": args.weight_bits,
        "weight_groups": args.weight_groups,
        "scale_bits": args.scale_bits or (8 if args.weight_groups else None),
        "weight_rounding": args.weight_rounding or "nearest",
        "sparsity": options.get("sparsity"), "sparse": list(quantized.sparse),
        "activation_bits": options.get("activation_bits", 8),
        "fell_back": list(quantized.fell_back),
        "fixed": quantized.fixed, "hindrance": quantized.hindrance, "samples": quantized.samples,
        "agreement": quantized.agreement,
        "sqnr_db": quantized.decibels, "needed": list(quantized.needed),
        "unused": dict(quantized.unused),
        "layers": [asdict(layer) for layer in quantized.layers]}


def _show(figures: Mapping[str, Any], verbose: bool) -> None:
    numbers = ["alone", "accumulated"] + ["at output"] * any(
        layer["effect_db"] is not None for layer in figures["layers"])
    keys = ("alone_db", "accumulated_db", "effect_db")[:len(numbers)]
    rows = [(layer["name"], layer["op"], _numbers(layer, figures["activation_bits"]),
             *(_decibels(layer[key]) for key in keys)) for layer in figures["layers"]]
    show_table(f"{figures['model']}: signal to quantization noise, dB",
               ("layer", "operator", "numbers", *numbers), rows, left=3)
    in_float = [(layer["name"], layer["op"], layer["reason"]) for layer in figures["layers"]
                if layer["reason"]]
    declined = [(layer["name"], layer["op"], layer["declined"]) for layer in figures["layers"]
                if layer["declined"]]
    for line in (*counted("in float", in_float, verbose),
                 *counted("without the machine's instruction", declined, verbose),
                 *_summary(figures)):
        say(line)


def _numbers(layer: Mapping[str, Any], activation_bits: int) -> str:
    """The numbers that a layer computes with."""
    if not layer["quantized"]:
        return "float"
    bits = layer["weight_bits"] or activation_bits
    return f"int{activation_bits}" + (f", weights int{bits}" if bits != activation_bits else "")


def _noise(figures: Mapping[str, Any]) -> str:
    noise = figures["sqnr_db"]
    return "output: " + ("no quantization noise" if noise is None else f"{noise:.1f} dB")


def _decibels(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _summary(figures: Mapping[str, Any]) -> Iterator[str]:
    from compiler.quantize.quantizer import USABLE_DECIBELS

    layers = figures["layers"]
    if figures["hindrance"]:
        yield figures["hindrance"]
    yield (f"{sum(layer['quantized'] for layer in layers)} of {len(layers)} layers in "
           f"int{figures['activation_bits']}, observer {figures['observer']}, "
           f"{figures['samples']} samples, no random numbers")
    if narrow := [layer for layer in layers if (layer["weight_bits"] or 8) < 8]:
        yield (f"{len(narrow)} of {len(layers)} layers with weights of fewer than 8 bits"
               + (f"; matrices have scales of {figures['scale_bits']} bits for groups of "
                  f"{figures['weight_groups']}" if figures["weight_groups"] else "")
               + ("; rounded with feedback" if figures["weight_rounding"] == "feedback" else ""))
    if figures["sparse"]:
        yield f"{len(figures['sparse'])} of {len(layers)} layers with {figures['sparsity']} weights"
    for name in dict.fromkeys(layer["by"] for layer in layers if layer["by"]):
        own = [layer for layer in layers if layer["by"] == name]
        worst = max(layer["steps_off"] for layer in own)
        yield (f"{len(own)} of {len(layers)} layers by {name}: at most {worst} "
               f"{'step' if worst == 1 else 'steps'} from what it matches")
    for name, reason in figures["unused"].items():
        yield f"no layer by {name}: {reason}"
    if figures["equalize"]:
        yield f"{figures['equalized_pairs']} pairs of layers equalized"
    if figures["fell_back"]:
        yield f"{len(figures['fell_back'])} layers fell back to float for the budget"
    for name, extent in figures["fixed"].items():
        yield f"{name} is {extent} in {figures['output']}: the network depends on it"
    yield _noise(figures) + ("" if figures["agreement"] is None else
                             f", {figures['agreement']:.2%} of the largest outputs as in float")
    if needed := figures["needed"]:
        more = f" and {len(needed) - NAMED} more" if len(needed) > NAMED else ""
        yield (f"below {USABLE_DECIBELS} dB outputs are of little use; --budget "
               f"{USABLE_DECIBELS}dB keeps {len(needed)} of {len(layers)} layers in float, those "
               f"that hurt most: {', '.join(needed[:NAMED])}{more}")
    yield f"{figures['output']}: sha256 {figures['sha256'][:16]}"
