"""How busy is the array? Whole networks on the accelerator, in cycles of the cycle simulator.

ResNet-18 and ResNet-50 (int8, 224 x 224, random weights) on `pynq-1x16x16`: the network's input is
plain NHWC, and reformatting counts. Prints ``name value`` lines:

``resnet18_cycles``        stem to logits
``resnet18_conv_cycles``   of these, the convolutions but for the stem and the last (dense) one,
                           with the residual additions that are computed beside them
``resnet50_utilization``   useful multiply-accumulates by those that the array could have done, %
``NETWORK_ratio``          geometric mean over the layers of cycles by ideal cycles
``latency_cost``           share of cycles that latency 256 costs ResNet-18 more than latency 0, %
``compile_seconds``        of ResNet-18, legality included, processor time

and with ``--latency-hiding`` cycles of ResNet-18 with one and with two virtual threads at several
latencies; ``--picture FILE.svg`` draws them. ``--layers`` prints every layer.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

from accel.config import load
from accel.machine import Machine
from accel.sim import cycle
from accel.status import Run
from accel.target import AccelTarget, CompiledSegment
from bench.networks import resnet18_graph, resnet50_graph
from runtime.report import layer_rows

LATENCIES = (0, 16, 64, 256)
Rows = list[dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="pynq-1x16x16")
    parser.add_argument("--layers", action="store_true")
    parser.add_argument("--latency-hiding", action="store_true")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    args = parser.parse_args()
    machine = Machine(load(args.config))
    begin = time.process_time()
    resnet18 = AccelTarget(machine).compile(resnet18_graph())
    seconds = time.process_time() - begin
    rows, run = timed(machine, resnet18)
    print("resnet18_cycles", run.cycles)
    print("resnet18_conv_cycles", sum(row["cycles"] for row in convolutions(rows)[1:-1]))
    summary("resnet18", machine, rows, run, args.layers)
    resnet50 = AccelTarget(machine).compile(resnet50_graph())
    summary("resnet50", machine, *timed(machine, resnet50), args.layers)
    near, far = (timed(machine, resnet18, latency)[1].cycles for latency in (0, 256))
    print("latency_cost", f"{far / near - 1:.2%}".rstrip("%"))
    print("compile_seconds", f"{seconds:.1f}")
    if args.latency_hiding or args.picture:
        alone = AccelTarget(machine, threads=1).compile(resnet18_graph())
        cycles = {threads: [timed(machine, segment, latency)[1].cycles for latency in LATENCIES]
                  for threads, segment in ((1, alone), (2, resnet18))}
        table(cycles)
        if args.picture:
            args.picture.write_text(picture(cycles))
    return 0


def timed(machine: Machine, segment: CompiledSegment, latency: int = 64) -> tuple[Rows, Run]:
    run = cycle.simulate(machine, segment.program, values=False, latency=latency)
    return layer_rows(machine, segment.program, segment.groups, run), run


def convolutions(rows: Rows) -> Rows:
    return [row for row in rows if "qconv2d" in row["op"].split(" + ")]


def summary(name: str, machine: Machine, rows: Rows, run: Run, layers: bool) -> None:
    if layers:
        for row in rows:
            print(f"  {row['name']:24} {row['op']:20} {row['cycles']:9} {row['ideal_cycles']:9} "
                  f"{row['cycles'] / max(1, row['ideal_cycles']):5.2f}")
    macs = sum(row["macs"] for row in rows)
    print(f"{name}_utilization", f"{100 * macs / (run.cycles * machine.config.macs_per_cycle):.2f}")
    ratios = [row["cycles"] / row["ideal_cycles"] for row in rows if row["ideal_cycles"]]
    print(f"{name}_ratio", f"{exp(sum(map(log, ratios)) / len(ratios)):.3f}")


def table(cycles: dict[int, list[int]]) -> None:
    print("latency | one virtual thread | two | saved")
    for latency, one, two in zip(LATENCIES, *cycles.values(), strict=True):
        print(f"{latency:7} | {one:18,} | {two:,} | {1 - two / one:.1%}")


def picture(cycles: Mapping[int, Sequence[int]]) -> str:
    """Bars of both for each latency, as SVG."""
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
