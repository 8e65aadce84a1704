"""Does every geometry work? Machines at the edges: built, checked, and a network run on each.

    python -m bench.geometries [-o FILE.json] [--only N] [--count N]

Of 24 geometries (blocks of 4 to 32, rectangular ones, batches, parts of entries, buses, buffers
over a factor of 16, stage depths) each must be refused with its field and rule, or pass `lockstep
check` and run the digits network with the values that the host computes. FILE.json keeps what is
done: a second call goes on from there. Exit status 1: a geometry fails.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import lockstep
from accel.machine.config import AccelConfig, ConfigError, preset
from accel.machine.machine import Machine
from accel.sim.check import check
from compiler.files import write_text
from examples.digits.data import held_out

__all__ = ["GEOMETRIES", "configured", "judge", "main"]

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits-int8.onnx"
IMAGES = 4

GEOMETRIES: tuple[dict[str, int], ...] = (
    {}, {"block_in": 8}, {"block_out": 8}, {"block_in": 8, "block_out": 8},
    {"block_in": 16, "block_out": 4}, {"block_in": 4, "block_out": 16},
    {"block_in": 16, "block_out": 16}, {"block_in": 32, "block_out": 8},
    {"block_in": 8, "block_out": 32}, {"batch": 2}, {"batch": 4},
    {"batch": 2, "block_in": 8, "block_out": 8}, {"vector_beats": 2}, {"vector_beats": 4},
    {"batch": 2, "vector_beats": 4}, {"block_out": 16, "vector_beats": 8}, {"bus_bytes": 8},
    {"bus_bytes": 16}, {"bus_bytes": 64}, {"memory": 1}, {"memory": 16}, {"stage_depth": 1},
    {"stage_depth": 8}, {"vector_beats": 8})
"""Fields that differ from tiny-1x4x4; `memory` is how many quarters of its entries buffers have.
The last one has more parts than an entry has lanes, and is refused."""


def configured(changes: dict[str, int]) -> AccelConfig:
    """The geometry: with as many entries as tiny-1x4x4 unless told. Raises ConfigError."""
    base = preset("tiny-1x4x4")
    fields: dict[str, Any] = {"name": title(changes), **changes}
    quarters = fields.pop("memory", 4)
    rows, into, outof = (fields.get(name, getattr(base, name))
                         for name in ("batch", "block_in", "block_out"))
    entry = {"inp": rows * into, "wgt": outof * into, "res": rows * outof, "par": 8 * outof,
             "acc": 4 * rows * outof, "out": rows * outof}
    for name, size in entry.items():
        fields[f"{name}_bytes"] = size * base.buffers[name].depth * quarters // 4
    return replace(base, **fields)


def title(changes: dict[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in changes.items()) or "tiny-1x4x4"


def judge(changes: dict[str, int], count: int) -> dict[str, Any]:
    """What became of a geometry: refused, or programs that agree and cycles of the network."""
    begin = time.perf_counter()
    try:
        machine = Machine(configured(changes))
    except ConfigError as error:
        return {"refused": str(error), "ok": any(name in str(error) for name in changes)}
    report = check(machine, count)
    images = held_out()[0][:IMAGES]
    module = lockstep.compile(DIGITS, machine=machine, sim="cycle")
    wanted = lockstep.compile(DIGITS, "cpu")
    equal = True
    cycles = 0
    for image in images:
        values = []
        for one in (module, wanted):
            one.set_input("image", image[None])
            runs = one.run()
            values.append(one.get_output("logits").copy())
            cycles = sum(run.cycles for run in runs) or cycles
        equal &= np.array_equal(*values)
    return {"ok": report.difference is None and equal, "equal": equal, "cycles": cycles,
            "programs": report.programs, "difference": report.difference and
            report.difference.describe(), "seconds": round(time.perf_counter() - begin, 1)}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="geometries", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", type=Path, metavar="FILE.json", help="keep results there")
    parser.add_argument("--only", type=int, default=len(GEOMETRIES), metavar="N",
                        help="the first N that are not done yet")
    parser.add_argument("--count", type=int, default=50, metavar="N", help="random programs")
    args = parser.parse_args(argv)
    done: dict[str, Any] = json.loads(args.o.read_text()) if args.o and args.o.exists() else {}
    for changes in list(_missing(done))[:args.only]:
        result = done[title(changes)] = judge(changes, args.count)
        print(f"{title(changes):28} {_told(result)}", flush=True)
        if args.o:
            write_text(args.o, json.dumps(done, indent=1) + "\n")
    good = sum(result["ok"] for result in done.values())
    print(f"{good} of {len(done)} geometries work or are rightly refused, of {len(GEOMETRIES)}")
    return 0 if good == len(done) else 1


def _missing(done: dict[str, Any]) -> Iterator[dict[str, int]]:
    yield from (changes for changes in GEOMETRIES if title(changes) not in done)


def _told(result: dict[str, Any]) -> str:
    if "refused" in result:
        return f"refused: {result['refused']}"
    return (f"{'ok' if result['ok'] else 'FAILS'}, {result['programs']} programs, digits "
            f"{'equal' if result['equal'] else 'DIFFER'} in {result['cycles']:,} cycles, "
            f"{result['seconds']} s")


if __name__ == "__main__":
    sys.exit(main())
