"""How far are other simulators of accelerators from exact cycles, layer by layer?

ResNet-18 of ``--size`` pixels (64), int8, on `pynq-1x16x16`: sixteen by sixteen products a cycle.
Its layers with products go to SCALE-Sim, weight stationary (`ws`) and output stationary (`os`), and
to ZigZag, which searches the best loops; both are installed into the environment ``--venv`` if it
does not have them, else into a temporary one. `scalesim` and `zigzag` print a line for each layer
with the exact cycles, what the peer says, and the difference; then for each peer

``PEER_percent``         all these layers: how much more than the exact cycles, %
``PEER_rest_percent``    the same without the first layer
``PEER_least_percent``, ``PEER_most_percent``    of single layers

The exact cycles are those of the RTL, as everywhere; a residual addition that is computed beside a
layer counts as a part of it. docs/peers.md tells what the peers leave out.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accel.machine.loading import load_machine
from bench.frame import Bench, Sheet, positive
from bench.inputs.peer_drivers import (SCALESIM, SCALESIM_CONFIG, ZIGZAG, accelerator, mapping,
                                       workload)
from compiler.errors import RequestError
from lockstep.options.network_files import network_file
from runtime import compile, report
from runtime.exporting.peers import ProductLayer, product_layers, scalesim
from runtime.exporting.ports import random_inputs

PINS = ("scalesim==3.0.0", "zigzag-dse==3.9.1", "six==1.17.0",
        "numpy==2.2.6")         # SCALE-Sim fails with 2.4
MACHINE = "pynq-1x16x16"
DATAFLOWS = ("ws", "os")

BENCH = Bench(__file__, __doc__)
BENCH.option("--size", type=positive, default=64, help="pixels")
BENCH.option("--venv", type=Path, metavar="FOLDER", help="the peers' environment, made if absent")


class Exact:
    """The network's layers with products, and the cycles that each takes."""

    def __init__(self, size: int):
        self.module = compile(str(network_file("resnet18", size)), f"accel:{MACHINE}", sim="cycle",
                              values=False, timeline=True)
        self.layers = product_layers(self.module.graph)
        cycles = self._cycles()
        self.cycles = [cycles[layer.name] for layer in self.layers]

    def _cycles(self) -> dict[str, int]:
        for name, array in random_inputs(self.module.graph, 0).items():
            self.module.set_input(name, array)              # cycles do not depend on values
        figures = report(self.module, self.module.run(), load_machine(MACHINE), 0.0)
        return {row["name"].split(" + ")[0]: row["cycles"] for row in figures["layers"]}


@contextmanager
def environment(folder: Path | None) -> Iterator[Path]:
    """The Python of an environment that has the peers."""
    with TemporaryDirectory() as scratch:
        place = folder or Path(scratch) / "peers"
        python = place / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", *PINS], check=True)
        yield python


def asked(python: Path, program: str, folder: Path, given: dict[str, Any]) -> list[float]:
    """Runs a program of the peers' environment; its answer, cycles of each layer."""
    driver, question, answer = (folder / name for name in ("driver.py", "in.json", "out.json"))
    driver.write_text(program)
    question.write_text(json.dumps({**given, "folder": str(folder)}))
    done = subprocess.run([str(python), driver.name, question.name, answer.name], cwd=folder,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise RequestError(f"the peer must end with status 0, not {done.returncode}: {last}")
    return json.loads(answer.read_text())


def shown(sheet: Sheet, peer: str, exact: Exact, theirs: Sequence[float]) -> None:
    """Prints each layer, and the figures of the peer."""
    off = [100 * (cycles / mine - 1) for mine, cycles in zip(exact.cycles, theirs, strict=True)]
    for layer, mine, cycles, percent in zip(exact.layers, exact.cycles, theirs, off):
        print(f"  {layer.name:24} {mine:>10,} {peer} {cycles:>12,.0f} {percent:+7.1f} %")
        sheet.row({"layer": layer.name, "peer": peer, "exact": mine, "cycles": cycles})
    for name, first in (("percent", 0), ("rest_percent", 1)):
        sheet.figure(f"{peer}_{name}",
                     100 * (sum(theirs[first:]) / sum(exact.cycles[first:]) - 1), ".1f")
    sheet.figure(f"{peer}_least_percent", min(off), ".1f")
    sheet.figure(f"{peer}_most_percent", max(off), ".1f")


@BENCH.part(DATAFLOWS)
def _scalesim(sheet: Sheet) -> None:
    exact = Exact(sheet.size)
    with environment(sheet.venv) as python:
        for dataflow in sheet.cases:
            with TemporaryDirectory() as scratch:
                shown(sheet, dataflow, exact, _by_scalesim(python, Path(scratch), exact, dataflow))


def _by_scalesim(python: Path, folder: Path, exact: Exact, dataflow: str) -> list[float]:
    files = {name: folder / name for name in ("config", "topology", "layout")}
    files["config"].write_text(SCALESIM_CONFIG.format(dataflow=dataflow))
    files["topology"].write_text(scalesim(exact.module.graph))
    rows = "".join(f"{layer.name}{',1' * 20},\n" for layer in exact.layers)
    files["layout"].write_text(f"Layer{',x' * 20},\n{rows}")       # required, and not used
    return asked(python, SCALESIM, folder, {name: str(path) for name, path in files.items()})


@BENCH.part()
def _zigzag(sheet: Sheet) -> None:
    exact = Exact(sheet.size)
    with environment(sheet.venv) as python, TemporaryDirectory() as scratch:
        shown(sheet, "zigzag", exact, _by_zigzag(python, Path(scratch), exact.layers))


def _by_zigzag(python: Path, folder: Path, layers: Sequence[ProductLayer]) -> list[float]:
    files = {"accelerator": accelerator(), "mapping": mapping()}
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(json.dumps(content))          # JSON is YAML
    return asked(python, ZIGZAG, folder, {
        "layers": [*map(workload, layers)],
        **{name: str(folder / f"{name}.yaml") for name in files}})
