"""The main job: a trained network on the accelerator, in the functional simulator and in RTL.

Runs the held-out digits through the int8 network twice, compares the two bit by bit, and prints
accuracy, cycles and where the time went. ``python -m examples.digits.demo --help`` has the options.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from accel.machine.config import UNITS
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.status import ACTIVITIES, Run
from accel.mapping.target import AccelTarget
from accel.sim.rtl import verilated
from compiler import processes
from compiler.frontend.onnx.importing import load as load_model
from compiler.graph.passes.pipeline import optimize
from examples.digits.data import held_out
from runtime import Module, SimulatedDevice, compile, compile_graph, report, simulator

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="examples.digits.demo")
    parser.add_argument("--machine", "--config", default="pynq-1x16x16", help="preset or file")
    parser.add_argument("--images", type=int, default=360, help="how many (at most 360)")
    parser.add_argument("--dram-latency", type=int, default=64, help="cycles (default 64)")
    args = parser.parse_args()
    console = Console()
    images, labels = (part[:args.images] for part in held_out())
    machine = load_machine(args.machine)
    building = ThreadPoolExecutor(1).submit(verilated.build, machine)   # meanwhile others compute

    right = {"float, on the host": np.mean(_float_classes(images) == labels)}
    outputs, times = {}, {}
    modules = {"functional": _module(machine, "functional"),
               "RTL": _module(machine, "verilator", latency=args.dram_latency)}
    cycles: list[int] = []
    figures: dict = {}
    for name, module in modules.items():
        if name == "RTL":
            building.result()
        begin = time.perf_counter()
        results, runs = _classify(module, images, name)
        times[name] = time.perf_counter() - begin
        outputs[name] = results
        right[f"int8, {name}"] = np.mean(results.argmax(1) == labels)
        if name == "RTL":
            cycles = [run.cycles for run in runs]
            figures = report(module, runs[-1:], machine, times[name])
            _show_layers(console, figures, machine)
            _show_units(console, runs[-1])
    equal = int(sum(np.array_equal(a, b) for a, b in zip(*outputs.values(), strict=True)))
    _show_result(console, machine, right, times, cycles, equal, len(images))
    return 0 if equal == len(images) else 1


def _module(machine: Machine, sim: str, **options) -> Module:
    graph = optimize(load_model(HERE / "digits-int8.onnx"))
    device = SimulatedDevice(machine, simulator(sim, **options))
    return compile_graph(graph, AccelTarget(machine), device)


def _infer(module: Module, image: np.ndarray) -> tuple[np.ndarray, tuple[Run, ...]]:
    module.set_input("image", image[None])
    runs = module.run()
    return module.get_output("logits")[0], runs


def _float_classes(images: np.ndarray) -> np.ndarray:
    module = compile(HERE / "digits-float.onnx", "cpu")
    return np.array([_infer(module, image)[0].argmax() for image in images])


def _classify(module: Module, images: np.ndarray, name: str) -> tuple[np.ndarray, list[Run]]:
    results, runs = [], []
    for image in _progress(images, name):
        logits, made = _infer(module, image)
        results.append(logits)
        runs += made
    return np.array(results), runs


def _progress(images: np.ndarray, name: str) -> Iterator[np.ndarray]:
    console = Console(stderr=True)
    yield from track(images, f"{len(images)} images, {name}", console=console, transient=True,
                     disable=not console.is_terminal)


def _show_layers(console: Console, figures: dict, machine: Machine) -> None:
    table = Table(title=f"Where the time went: one image on {machine.config.name}, RTL")
    for heading in ("layer", "operator"):
        table.add_column(heading)
    for heading in ("cycles", "ideal", "array busy", "DRAM"):
        table.add_column(heading, justify="right")
    for layer in figures["layers"]:
        busy = f"{layer['utilization']:.1%}" if layer["macs"] else "-"
        table.add_row(layer["name"], layer["op"], f"{layer['cycles']:,}",
                      f"{layer['ideal_cycles']:,}", busy, f"{layer['dram_bytes']:,} B")
    console.print(table)


def _show_units(console: Console, run: Run) -> None:
    """Every unit is in exactly one activity in every cycle; activities that never are stay out."""
    table = Table(title="What each unit did, in cycles")
    table.add_column("unit")
    seen = [kind for kind in ACTIVITIES
            if any(activity.get(kind) for activity in run.counters.activity.values())]
    for kind in seen:
        table.add_column(f"wait {kind}" if kind in UNITS else kind, justify="right")
    for unit, activity in run.counters.activity.items():
        table.add_row(unit, *(f"{activity.get(kind, 0):,}" for kind in seen))
    console.print(table)


def _show_result(console: Console, machine: Machine, right: dict, times: dict, cycles: list[int],
                 equal: int, count: int) -> None:
    table = Table(title=f"{count} held-out digits, machine {machine.config.name} "
                  f"({machine.hash[:12]})", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, share in right.items():
        table.add_row(f"accuracy, {name}", f"{share:.2%}")
    table.add_row("functional and RTL outputs equal to the bit", f"{equal} of {count} images")
    table.add_row("cycles per image (RTL)", f"{np.mean(cycles):,.0f}")
    table.add_row("time per image at the machine's clock",
                  f"{np.mean(cycles) / machine.config.clock_mhz:,.1f} µs")
    for name, seconds in times.items():
        table.add_row(f"wall time, {name}", f"{seconds:.1f} s")
    console.print(table)


if __name__ == "__main__":
    processes.end_by_signals()      # at once, with the compilers that a thread has started
    sys.exit(main())
