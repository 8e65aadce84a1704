"""Is the AXI4 master right? Transfers, or a network, against the memory of cocotbext-axi.

Without ``--network``: reads and writes of 1 to 32 beats with random masks, a third of them near a
boundary of 4 KiB. With it: the core for a Zynq, started over AXI4-Lite, computes the network for
that many images; after each run all bytes of its memory must be those of the functional simulator.

Both in RTL (Verilator), with random pauses on every channel. Every cycle is checked against the
rules of the specification that a master can break. Prints ``name value`` lines or JSON; exit status
1 if a rule was broken or a byte is wrong.
"""

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console

from accel.machine.config import ConfigError
from accel.machine.isa import BASES
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.sim import functional
from examples.digits.data import held_out
from fpga.gateware.axi4 import Axi4Master
from fpga.gateware.zynq import ZynqAccelerator
from runtime import SimulatedDevice, compile_for
from tests.support.cocotb_verilator import run_bench

NETWORKS = {"digits": Path(__file__).parents[1] / "examples" / "digits" / "digits-int8.onnx"}


def transfers(machine: Machine, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Checks random transfers. Raises AssertionError."""
    config = machine.config
    run_bench(Axi4Master(config), "tests.fpga.gateware.axi4_transfers", folder, "-Os",
              TRANSFERS=count, BUS_BYTES=config.bus_bytes, SEED=seed)
    return {"axi4_transfers": count}


def network(machine: Machine, name: str, images: int, seed: int, folder: Path) -> dict[str, Any]:
    """Checks the programs of a network. Raises AssertionError."""
    stored: dict[str, np.ndarray] = {}

    def simulate(machine: Machine, program: AccelProgram, memory: np.ndarray) -> Run:
        run, number = functional.simulate(machine, program, memory), len(stored) // 4
        assert run.ok, run.describe()
        stored.update({f"count{number}": np.array(program.count), f"before{number}": memory.copy(),
                       f"bases{number}": np.array([program.bases[base] for base in BASES]),
                       f"after{number}": run.memory})
        return run

    module = compile_for(NETWORKS[name], SimulatedDevice(machine, simulate))
    for image in held_out()[0][:images]:
        module({"image": image[None]})
    np.savez(folder / "programs.npz", **stored)     # pyright: ignore[reportArgumentType]
    run_bench(ZynqAccelerator(machine, 1 << 26, machine.config.clock_mhz * 1_000_000),
              "tests.fpga.gateware.zynq_programs", folder, "-Os", PROGRAMS=folder / "programs.npz",
              BUS_BYTES=machine.config.bus_bytes, SEED=seed, FIGURES=folder / "figures.json")
    found = json.loads((folder / "figures.json").read_text())
    return {f"axi4_{name}_runs": len(found["cycles"]), f"axi4_{name}_cycles": sum(found["cycles"]),
            f"axi4_{name}_bursts": found["bursts"]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.axi4", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", "--config", default="pynq-1x16x16", help="preset or file")
    parser.add_argument("--transfers", type=_positive, default=10_000)
    parser.add_argument("--network", choices=list(NETWORKS))
    parser.add_argument("--images", type=_positive, default=1, help="of the network (default 1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    try:
        machine = load_machine(args.machine)
    except ConfigError as error:
        print(f"bench.axi4: {error}", file=sys.stderr)
        return 2
    console, found = Console(stderr=True), {}
    with TemporaryDirectory() as name, console.status("Building and running (a few minutes)"):
        try:
            found = (network(machine, args.network, args.images, args.seed, Path(name))
                     if args.network else transfers(machine, args.transfers, args.seed, Path(name)))
        except AssertionError as error:
            print(error, file=sys.stderr)
    figures = {"seed": args.seed, **found, "axi4_failures": int(not found)}
    if args.json:
        print(json.dumps({"config": machine.config.name, "machine": machine.hash, **figures},
                         indent=2))
    else:
        for name, value in figures.items():
            print(name, value)
    return int(not found)


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
