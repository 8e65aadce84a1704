"""``lockstep quantize MODEL``: int8 from a float network and samples of its input."""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lockstep.errors import RequestError, input_file, output_file
from lockstep.files import require_writable, whole_file

__all__ = ["add_parser", "run"]

OBSERVERS = ("minmax", "percentile", "mse")


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
    add("model", metavar="MODEL", type=Path,
        help="ONNX network, or .pt2 file of torch.export.save, parts of which torch evaluates: "
             "trust it like a program")
    add("--calibration", type=input_file, nargs="+", required=True, metavar="FILE",
        help="samples: .npz with an array [N, ...] for each input, or .npy for the only input; "
             "several files are joined")
    add("--observer", default="minmax", choices=OBSERVERS,
        help="how ranges are chosen: extremes, percentiles, or the least mean squared error "
             "(default minmax)")
    add("--percentile", type=float, default=99.99, metavar="P",
        help="of --observer percentile: from the (100 - P)th to the Pth (default 99.99)")
    add("--equalize", action="store_true",
        help="first bring channels of layers in a row to like ranges (cross-layer equalization)")
    add("--bias-correction", action="store_true",
        help="correct biases so that the samples' means stay")
    add("--keep-float", action="append", default=[], metavar="LAYER",
        help="leave this layer in float (repeatable)")
    add("--budget", metavar="POINTS|NdB",
        help="percentage points of samples whose largest output may change, or the least SQNR of "
             "the outputs, such as 30dB: the layers that hurt most fall back to float until it "
             "is met")
    add("--report", type=output_file, metavar="FILE.html", help="write one page with the picture")
    add("--json", type=output_file, metavar="R.json", help="write the report as JSON")
    add("-o", "--output", type=output_file, required=True, metavar="OUT.onnx",
        help="the int8 network")
    return parser


def run(args: argparse.Namespace) -> int:
    if args.report:
        from lockstep.report import require_plotly

        require_plotly()
        require_writable(args.report)
    from compiler.quantize import quantize

    made = quantize(
        args.model, _samples(args.calibration), observer=args.observer,
        percentile=args.percentile, equalize=args.equalize, bias_correction=args.bias_correction,
        keep_float=args.keep_float, budget=args.budget, watch=_watch(args.model.name))
    data = made.model.SerializeToString(deterministic=True)
    figures = _figures(args, made) | {"sha256": hashlib.sha256(data).hexdigest()}
    with whole_file(args.output) as file:
        file.write(data)
    if args.json:
        with whole_file(args.json) as file:
            file.write(f"{json.dumps(figures, indent=1)}\n".encode())
    if args.report:
        from lockstep.report.quantization import write_quantization_page

        with whole_file(args.report) as file:
            write_quantization_page(file, figures)
    _show(figures)
    return 0


def _samples(paths: Sequence[Path]):
    """One array, or arrays by name, from all files."""
    import numpy as np

    loaded = [_loaded(path) for path in paths]
    archives = [one for one in loaded if isinstance(one, dict)]
    arrays = [one for one in loaded if not isinstance(one, dict)]
    if archives and arrays:
        raise RequestError("--calibration must be .npz archives or .npy arrays, not both")
    try:
        if arrays:
            return np.concatenate(arrays)
        names = dict.fromkeys(name for one in archives for name in one)
        return {name: np.concatenate([one[name] for one in archives]) for name in names}
    except KeyError as missing:
        raise RequestError(f"--calibration: every archive must hold {missing}") from None
    except ValueError as error:
        raise RequestError(f"--calibration: the files do not fit together: {error}") from None


def _loaded(path: Path):
    import zipfile
    import zlib

    import numpy as np

    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.lib.npyio.NpzFile):
                return {name: found[name] for name in found.files}
            return found
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        pass
    raise RequestError(f"{str(path)!r} must be an .npz archive or an .npy array of numbers")


def _watch(model: str):
    from lockstep.commands._progress import progress_bar

    @contextmanager
    def watch(stage: str, steps: int) -> Iterator[Callable[[int], None]]:
        done: list[int] = []
        with progress_bar(f"{model}: {stage}", steps, lambda: sum(done)):
            yield done.append

    return watch


def _figures(args: argparse.Namespace, made) -> dict[str, Any]:
    return {
        "model": str(args.model), "output": str(args.output), "observer": args.observer,
        "percentile": args.percentile if args.observer == "percentile" else None,
        "equalize": args.equalize, "equalized_pairs": made.equalized,
        "bias_correction": args.bias_correction, "budget": args.budget,
        "keep_float": args.keep_float, "fell_back": list(made.fell_back),
        "samples": made.samples, "agreement": made.agreement, "sqnr_db": made.decibels,
        "layers": [asdict(layer) for layer in made.layers]}


def _show(figures: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False)        # names are printed as they are
    table = Table(title=f"{figures['model']}: signal to quantization noise, dB", box=None,
                  header_style="bold", pad_edge=False)
    for heading in ("layer", "operator", "numbers"):
        table.add_column(heading, overflow="fold")
    numbers = ["alone", "accumulated"] + ["at output"] * any(
        layer["effect_db"] is not None for layer in figures["layers"])
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    keys = ("alone_db", "accumulated_db", "effect_db")[:len(numbers)]
    for layer in figures["layers"]:
        table.add_row(layer["name"], layer["op"], "int8" if layer["quantized"] else "float",
                      *(_decibels(layer[key]) for key in keys))
    console.print(table)
    for layer in figures["layers"]:
        if layer["reason"]:
            console.print(f"in float: {layer['name']} ({layer['reason']})", highlight=False)
    for line in _summary(figures):
        console.print(line, highlight=False)


def _decibels(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _summary(figures: Mapping[str, Any]) -> Iterator[str]:
    layers = figures["layers"]
    yield (f"{sum(layer['quantized'] for layer in layers)} of {len(layers)} layers in int8, "
           f"observer {figures['observer']}, {figures['samples']} samples, no random numbers")
    if figures["equalize"]:
        yield f"{figures['equalized_pairs']} pairs of layers equalized"
    if figures["fell_back"]:
        yield f"{len(figures['fell_back'])} layers fell back to float for the budget"
    noise = figures["sqnr_db"]
    yield ("output: " + ("no quantization noise" if noise is None else f"{noise:.1f} dB")
           + ("" if figures["agreement"] is None
              else f", {figures['agreement']:.2%} of the largest outputs as in float"))
    yield f"{figures['output']}: sha256 {figures['sha256'][:16]}"
