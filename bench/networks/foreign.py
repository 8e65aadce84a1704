"""Does any file that another tool has quantized run, right, and on the accelerator?

Tools make the files themselves, each in an environment of its own whose versions are pinned here:
small networks (`bench/inputs/foreign/networks.py`) in every spelling that a tool writes. Each file
is imported, compiled for the host and for the accelerator, run on the sample that the tool's own
runtime has run on, and compared with the file computed without integers, and with the tool. Printed
are differences in steps of the output, the one that a single element of the input makes there, the
share of the products between quantized values that the accelerator executes, and its segments; in
the end all of it as one table, a column for each network. Files with activations of 16 bits have a
machine of their own.

``--environments`` is a folder with the environments; ``--install`` makes those that are missing
there, which takes minutes and gigabytes. A tool without one says so in its row. ``--files`` judges
files, or folders of such, in place of what tools make: beside each may lie an .npz with its inputs
(x0, x1, ...) and the tool's outputs (y0, ...). ``--keep`` is a folder for what tools make. With
``--auto`` each row has the seconds of what the target `auto` chooses, by its own prices, as a part
of those of the host alone.
The exit status is 1 where a file is not taken, or is more than two steps off without integers.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.frame import Bench, Sheet
from bench.support.foreign_files import MOST_STEPS, Verdict, judged
from compiler.frontend.kinds import names_model

SCRIPTS = Path(__file__).parents[1] / "inputs" / "foreign"
TORCH = ("torch==2.13.0", "torchao==0.18.0", "onnx==1.23.2", "onnxruntime==1.31.1",
         "onnxscript==0.7.2", "brevitas==0.13.4", "qonnx==1.0.0", "onnxoptimizer==0.4.2",
         "nncf==3.4.0", "coremltools==9.0")
ENVIRONMENTS = {"torch": TORCH,
                "litert": ("ai-edge-quantizer==0.10.0", "ai-edge-litert==2.3.0",
                           "tensorflow-cpu==2.21.0")}
"""Packages of each environment."""

CNNS = ("resnet", "mobile", "unet")
NETWORKS = (*CNNS, "vit", "lstm", "gru")


@dataclass(frozen=True, slots=True)
class Tool:
    """A script with its environment; `cases` are its modes with the networks that they take."""

    script: str
    environment: str
    cases: dict[str, Sequence[str]]


_STATIC = ("qdq-s8s8-pc", "qdq-u8s8", "qdq-u8u8", "qdq-s8s8-wasym", "qdq-s16s8", "qdq-u16s8",
           "qdq-u8s4", "qop-u8s8", "qop-u8u8", "qop-s8s8-pc")
TOOLS = {
    "onnxruntime": Tool("onnx_runtime.py", "torch", {
        **dict.fromkeys(_STATIC, (*CNNS, "vit")),
        **dict.fromkeys(("dynamic-s8", "dynamic-u8"), NETWORKS),
        **dict.fromkeys(("nbits-op", "nbits-qdq"), ("vit",))}),
    "torch": Tool("pytorch.py", "torch", {
        **dict.fromkeys(("pt2e-x86", "pt2e-xnnpack"), (*CNNS, "vit")),
        **dict.fromkeys(("pt2e-x86-program", "pt2e-xnnpack-program"), ("resnet", "vit")),
        "fx-qat": ("resnet", "mobile"),
        **dict.fromkeys(("ao-int8", "ao-int8dyn"), ("vit",))}),
    "nncf": Tool("nncf_tool.py", "torch", dict.fromkeys(("mixed", "performance"), (*CNNS, "vit"))),
    "brevitas": Tool("brevitas_tool.py", "torch", dict.fromkeys(
        ("qonnx-w8a8", "qonnx-w4a4", "qcdq-w8a8", "qcdq-w4a4"), ("resnet",))),
    "coremltools": Tool("core_ml.py", "torch", dict.fromkeys(
        ("linear8", "linear4-blocks", "palette4", "sparse"), ("resnet", "vit"))),
    "litert": Tool("tensorflow_lite.py", "litert", {
        **dict.fromkeys(("int8", "16x8", "dynamic"), ("resnet", "vit", "lstm")),
        **dict.fromkeys(("edge-int8", "edge-dynamic", "edge-int4"), ("resnet", "vit"))}),
}

BENCH = Bench(__file__, __doc__, machine="pynq-1x16x16")
BENCH.option("--files", nargs="+", type=Path, metavar="PATH", help="files, or folders of such")
BENCH.option("--environments", type=Path, metavar="FOLDER",
             default=os.environ.get("LOCKSTEP_FOREIGN"), help="with a virtual environment each")
BENCH.option("--install", action="store_true", help="make the environments that are missing")
BENCH.option("--machine16", default=str(SCRIPTS.parents[2] / "examples/machines/int16_deep.py"),
             metavar="M", help="that takes files with activations of 16 bits")
BENCH.option("--auto", action="store_true", help="also the time of what `auto` chooses")
BENCH.option("--networks", nargs="+", choices=NETWORKS, default=[], help="these alone")
BENCH.option("--size", choices=("full", "small"), default="full", help="of the networks")
BENCH.option("--keep", type=Path, metavar="FOLDER", help="where the files stay")


@BENCH.part(cases=tuple(TOOLS))
def matrix(sheet: Sheet) -> None:
    name, = sheet.machines
    with TemporaryDirectory(prefix="lockstep-foreign-") as folder:
        paths = _given(sheet.files) if sheet.files else _made(sheet, sheet.keep or Path(folder))
        print(f"{'file':34}{'tool':>8}{'cpu':>7}{'accel':>7}{'one':>7}{'products':>10}{'segments':>10}"
              f"{'auto/cpu' if sheet.auto else '':>10}  spellings")
        verdicts = []
        for path in paths:
            verdicts.append(judged(path, f"accel:{name}", f"accel:{sheet.machine16}",
                                   sheet.auto))
            print(_line(verdicts[-1]), flush=True)
            sheet.row(asdict(verdicts[-1]) | {"percent": verdicts[-1].percent})
            sheet.require(verdicts[-1].is_right)
    for line in table(verdicts):
        print(line)
    _count(sheet, verdicts)


def _count(sheet: Sheet, verdicts: Sequence[Verdict]) -> None:
    shares = [one.percent for one in verdicts if one.percent is not None]
    sheet.figure("foreign_files", len(verdicts))
    sheet.figure("foreign_refused", sum(bool(one.failed) for one in verdicts))
    sheet.figure("foreign_wrong", sum(not one.failed and not one.is_right for one in verdicts))
    sheet.figure("foreign_apart", sum((one.tool or 0) > MOST_STEPS for one in verdicts))
    sheet.figure("foreign_below_90", sum(share < 90 for share in shares))
    if sheet.auto:
        sheet.figure("foreign_auto_most", max((one.auto or 0 for one in verdicts), default=0))


def _line(one: Verdict) -> str:
    if one.failed:
        return f"{one.file:34}  {one.failed[:160]}"
    steps = "".join("-".rjust(width) if value is None else f"{value:{width}.2f}"
                    for value, width in ((one.tool, 8), (one.cpu, 7), (one.accel, 7),
                                         (one.one, 7)))
    share = "-" if one.percent is None else f"{one.percent:.1f} %"
    auto = "" if one.auto is None else f"{one.auto:.2f}"
    return f"{one.file:34}{steps}{share:>10}{one.segments:>10}{auto:>10}  {one.spellings}"


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Lines of a table: of files NETWORK.TOOL-MODE a row for each tool and mode, with the share of
    products, segments, and steps on the host and on the accelerator."""
    cells: dict[str, dict[str, str]] = {}
    for one in verdicts:
        network, _, made = Path(one.file).stem.partition(".")
        if network in NETWORKS:
            suffix = "-program" if one.file.endswith(".pt2") else ""
            cells.setdefault(made.removesuffix(suffix) + suffix, {})[network] = _cell(one)
    columns = [name for name in NETWORKS if any(name in row for row in cells.values())]
    if columns:
        yield f"| file | {' | '.join(columns)} |"
        yield "|---" * (1 + len(columns)) + "|"
    for made, row in cells.items():
        yield f"| {made} | {' | '.join(row.get(name, '') for name in columns)} |"


def _cell(one: Verdict) -> str:
    if one.failed or one.cpu is None or one.accel is None:
        return "refused"
    share = "float" if one.percent is None else f"{one.percent:.4g} %"
    return f"{share}, {one.segments}, {one.cpu:.1f}, {one.accel:.1f}"


def _given(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() and path.suffix != ".mlpackage" else [path]
        yield from (one for one in inside if _is_judged(one))


def _is_judged(path: Path) -> bool:
    """True for a model that a tool has quantized; those that it makes them of lie there, too."""
    return (path.suffix not in (".npz", ".failed") and names_model(str(path))
            and not {".float", ".ready"} & {*path.suffixes})


def _made(sheet: Sheet, folder: Path) -> Iterator[Path]:
    """The files of the tools, one after the other; a line for each tool or case that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sheet.cases:
        tool = TOOLS[name]
        python = _python(sheet, tool.environment)
        if python is None:
            print(f"{name}: absent: --environments has no {tool.environment!r} (--install)")
            continue
        cases = [f"{network}.{case}" for case, networks in tool.cases.items()
                 for network in networks if not sheet.networks or network in sheet.networks]
        before = {*folder.iterdir()}
        ended = subprocess.run([python, SCRIPTS / tool.script, folder, sheet.size, *cases],
                               capture_output=True, text=True, check=False)
        if ended.returncode:
            print(f"{name}: fails: {ended.stderr.strip().splitlines()[-1]}")
        new = sorted({*folder.iterdir()} - before)
        yield from _given(new)
        for path in new:
            if path.suffix == ".failed":
                print(f"{path.stem:34}  the tool fails: {path.read_text()}")


def _python(sheet: Sheet, environment: str) -> Path | None:
    """The Python of an environment, which is made where it is asked for."""
    if sheet.environments is None:
        return None
    folder = Path(sheet.environments) / environment
    if not folder.exists() and sheet.install:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", *ENVIRONMENTS[environment]], check=True)
    python = folder / "bin" / "python"
    return python if python.exists() else None
