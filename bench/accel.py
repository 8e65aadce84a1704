"""How busy is the array? Whole networks on the accelerator, in cycles of the cycle simulator.

Int8 networks of `examples.zoo`, 224 x 224, on `pynq-1x16x16`: the network's input is plain NHWC,
and reformatting counts. Prints ``name value`` lines, for each NETWORK

``NETWORK_cycles``         first layer to logits
``NETWORK_utilization``    useful multiply-accumulates of those that the array could have done, %
``NETWORK_ratio``          geometric mean over the layers of cycles by ideal cycles
``NETWORK_compile_seconds``  legality included, processor time
``NETWORK_second_compile_s``  `lockstep compile` of what the cache has: the whole process, its
                             processor time
``NETWORK_second_call_s``  the same as a call of `runtime.compile_for`

and

``resnet18_conv_cycles``   the convolutions but for the stem and the last (dense) layer, with the
                           residual additions that are computed beside them
``resnet18_latency_cost``  share of cycles that latency 256 costs more than latency 0, %
``mobilenet_v1_depthwise_cycles``  its depthwise layers

``--effort`` says how tilings are chosen. With ``--latency-hiding`` also cycles of ResNet-18 with
one and with two virtual threads at several latencies, and ``--picture FILE.svg`` draws them.
``--layers`` prints every layer.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from accel.figures.layers import LayerRow, layer_rows
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.status import Run
from accel.mapping.target import AccelTarget, CompiledSegment
from accel.sim import cycle
from compiler.frontend.onnx_import import convert
from compiler.graph import Graph, optimize, partition
from compiler.graph.partition import ACCEL, subgraph
from compiler.target import Executable
from lockstep.testing import zoo
from runtime import SimulatedDevice, compile_for

NETWORKS = ("resnet18", "resnet50", "mobilenet_v1", "squeezenet")
LATENCIES = (0, 16, 64, 256)
Rows = list[LayerRow]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", "--config", default="pynq-1x16x16")
    parser.add_argument("--effort", type=int, choices=range(3), default=0)
    parser.add_argument("--layers", action="store_true")
    parser.add_argument("--latency-hiding", action="store_true")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=NETWORKS,
                        help=f"of examples/zoo.py (default {' '.join(NETWORKS)})")
    args = parser.parse_args()
    machine = load_machine(args.machine)
    for name in args.networks:
        segment, seconds = compiled_twice(machine, name, args.machine, args.effort)
        rows, run = timed(machine, segment)
        summary(name, machine, rows, run, args.layers)
        for figure, value in seconds.items():
            print(f"{name}_{figure}", f"{value:.2f}")
        if name == "resnet18":
            residual(machine, segment, rows)
        if name == "mobilenet_v1":
            print(f"{name}_depthwise_cycles", sum(
                row.cycles for row, group in zip(rows, segment.work, strict=False)
                if group[0].node.attrs.get("group", 1) > 1))
    if args.latency_hiding or args.picture:
        cycles = {threads: [timed(machine, segment, latency)[1].cycles for latency in LATENCIES]
                  for threads in (1, 2)
                  for target in (AccelTarget(machine, threads),)
                  for segment in (target.compile(accelerated("resnet18", target)),)}
        table(cycles)
        if args.picture:
            args.picture.write_text(picture(cycles))
    return 0


def accelerated(name: str, target: AccelTarget) -> Graph:
    """The accelerator's part of a network: all but its ends, which are float."""
    graph = optimize(convert(zoo.build(name, int8=True), name))
    parts = partition(graph, lambda node: target.refusal(graph, node))
    taken, = (one for one in parts.segments if one.target == ACCEL)
    return subgraph(graph, taken)


def compiled_twice(machine: Machine, name: str, config: str, effort: int = 0
                   ) -> tuple[Executable, dict[str, float]]:
    """The compiled network, and the seconds of compiling it and of loading it from its own cache.
    """
    with TemporaryDirectory() as folder, cache_in(folder):
        path = Path(folder) / f"{name}.onnx"
        onnx.save(zoo.build(name, int8=True), path)
        device = SimulatedDevice(machine, cycle.simulate)
        begin = time.process_time()
        segment, = compile_for(path, device, effort=effort).accelerated
        first = time.process_time() - begin
        begin = time.process_time()
        compile_for(path, device, effort=effort)
        call = time.process_time() - begin
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "lockstep", "compile", path, "-o", f"{path}.lockstep",
                        "--target", f"accel:{config}", "--effort", str(effort), "--plans", "own"],
                       check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert len(list(Path(folder).glob("networks/*/"))) == 1, "the cache must have had it"
    return segment, {"compile_seconds": first, "second_compile_s": process, "second_call_s": call}


@contextmanager
def cache_in(folder: str) -> Iterator[None]:
    before = os.environ.get("LOCKSTEP_CACHE")
    os.environ["LOCKSTEP_CACHE"] = folder
    try:
        yield
    finally:
        del os.environ["LOCKSTEP_CACHE"]
        os.environ |= {"LOCKSTEP_CACHE": before} if before else {}


def residual(machine: Machine, segment: Executable, rows: Rows) -> None:
    convolutions = [row for row in rows if "qconv2d" in row.op.split(" + ")]
    print("resnet18_conv_cycles", sum(row.cycles for row in convolutions[1:]))
    near, far = (timed(machine, segment, latency)[1].cycles for latency in (0, 256))
    print("resnet18_latency_cost", f"{far / near - 1:.2%}".rstrip("%"))


def timed(machine: Machine, segment: CompiledSegment | Executable,
          latency: int = 64) -> tuple[Rows, Run]:
    run = cycle.simulate(machine, segment.program, values=False, latency=latency)
    return layer_rows(machine, segment.program, segment.work, run), run


def summary(name: str, machine: Machine, rows: Rows, run: Run, layers: bool) -> None:
    if layers:
        for row in rows:
            print(f"  {row.name:24} {row.op:20} {row.cycles:9} {row.ideal_cycles:9} "
                  f"{row.cycles / max(1, row.ideal_cycles):5.2f}")
    print(f"{name}_cycles", run.cycles)
    macs = sum(row.macs for row in rows)
    print(f"{name}_utilization", f"{100 * macs / (run.cycles * machine.config.macs_per_cycle):.2f}")
    ratios = [row.cycles / row.ideal_cycles for row in rows if row.ideal_cycles]
    print(f"{name}_ratio", f"{exp(sum(map(log, ratios)) / len(ratios)):.3f}")


def table(cycles: dict[int, list[int]]) -> None:
    print("latency | one virtual thread | two | saved")
    for latency, one, two in zip(LATENCIES, *cycles.values(), strict=True):
        print(f"{latency:7} | {one:18,} | {two:,} | {1 - two / one:.1%}")


def picture(cycles: Mapping[int, Sequence[int]]) -> str:
    """Draws both cycle counts for each latency as bars, in SVG."""
    width, height, left, top = 640, 320, 60, 40
    most = max(map(max, cycles.values()))
    scale = (height - top - 40) / most
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             f'font-family="sans-serif" font-size="13">',
             f'<text x="{left}" y="20">ResNet-18: million cycles by memory latency, with one and '
             f'with two virtual threads</text>']
    step = (width - left) / len(LATENCIES)
    for place, latency in enumerate(LATENCIES):
        middle = left + step * (place + 0.5)
        parts.append(f'<text x="{middle:.0f}" y="{height - 12}" text-anchor="middle">'
                     f'{latency} cycles</text>')
        for side, (threads, colour) in enumerate(((1, "#b8c4d6"), (2, "#2f5d9b"))):
            value = cycles[threads][place]
            x, tall = middle - 44 + 46 * side, value * scale
            parts += [f'<rect x="{x:.0f}" y="{height - 32 - tall:.1f}" width="42" '
                      f'height="{tall:.1f}" fill="{colour}"/>',
                      f'<text x="{x + 21:.0f}" y="{height - 36 - tall:.1f}" text-anchor="middle">'
                      f'{value / 1e6:.2f}</text>']
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(main())
