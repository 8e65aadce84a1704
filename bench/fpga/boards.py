"""Do emulated boards compute networks, in the cycles that are simulated, over a right AXI4 master?

The whole gateware in Verilator with the unmodified driver, and a model of the SDRAM chip that
checks the chip's rules (docs/fpga.md). Exit status 1 if an output differs, a rule is broken, or a
simulated time is off by more than ``--most`` per cent.

`networks` compares the board with the functional simulator: held-out digits through the int8
network, one after another, and the first residual block of the zoo's int8 ResNet-18, 56x56x64, one
image. With ``--spoil`` bytes of the line are lost or flipped, both ways. `reset` resets the board
in the middle of a run of the digits, which must be reported, and the next run must be right.

`memory` compares the cycles of the digits, of the zoo's keyword network (49 frames) and of that
block for images of 64x64 with the cycle simulator's, with the memory that follows from the board
(`fpga.memory`), and with the memory that a machine has by default. Block RAM is emulated with 1
MiB, since the keywords' program is larger than a board's; no cycle depends on that.

`axi4` is of the core for a Zynq (`pynq-1x16x16`), against the memory of cocotbext-axi, in RTL
(Verilator), with random pauses on every channel; every cycle is checked against the rules of the
specification that a master can break. `transfers`: reads and writes of 1 to 32 beats with random
masks, a third of them near a boundary of 4 KiB. `digits`: the core, started over AXI4-Lite,
computes the network for ``--images``; after each run all bytes of its memory must be those of the
functional simulator.
"""

import json
import sys
import time
from argparse import ArgumentTypeError
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from onnx import ModelProto, shape_inference
from onnx.utils import Extractor

from accel.machine.dram import DRAM
from accel.machine.isa import BASES
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.sim.meaning import functional
from accel.sim.timed import cycle
from bench.frame import Bench, Sheet, positive
from compiler.errors import RequestError
from compiler.frontend.models import Model
from examples.digits.data import held_out
from fpga.boards import BlockRam, board
from fpga.device import BoardDevice
from fpga.emulation.emulated import EmulatedBoard
from fpga.gateware.axi4 import Axi4Master
from fpga.gateware.zynq import ZynqAccelerator
from fpga.link.host import HostLink, LinkError
from fpga.link.serial_port import SerialLine
from fpga.memory import on_board
from lockstep.options.arguments import memory as memory_of
from lockstep.printing.progress import progress_bar
from lockstep.printing.table import show_columns
from lockstep.testing.models import DIGITS
from lockstep.testing.zoo import build
from runtime import Module, SimulatedDevice, compile_for, simulator
from tests.support.cocotb_verilator import run_bench

NETWORKS = ("digits", "resnet18_block")
TIMED = ("digits", "keywords", "resnet18_block")
BOARDS = ("ulx3s-85f", "ulx3s-85f@50", "ecpix5-85f")
IMAGE = 64              # of the block, so that it takes seconds
BLOCK_BYTES = 1 << 20
BLOCK = "maxpool.out", "layer1.0.relu_1.out_DequantizeLinear_Output"
"""The values at the ends of the block."""
RESET_CYCLES = 1000         # after the start of a run; every run is longer
REPORT_SECONDS = 5.0        # until a reset must be reported

BENCH = Bench(__file__, __doc__, "ecp5-1x8x8", seed=1)
BENCH.option("--images", type=int, default=20, choices=range(1, 361), metavar="N",
             help="digits, at most 360")
BENCH.option("--spoil", type=float, default=0.0, metavar="SHARE",
             help="of the bytes on the line; 0.001 is one in a thousand")
BENCH.option("--board", action="append", metavar="NAME[@MHZ]",
             help=f"of memory, repeatable ({', '.join(BOARDS)})")
BENCH.option("--most", type=float, default=2.0, metavar="PERCENT",
             help="by which the cycle simulator may be off")
BENCH.option("--transfers", type=positive, default=10_000, help="of axi4")


@BENCH.part(NETWORKS)
def networks(sheet: Sheet) -> None:
    if not 0 <= sheet.spoil <= 0.05:
        raise RequestError(f"--spoil must be 0 to 0.05, not {sheet.spoil:g}: a line that is worse "
                           "carries nothing")
    for name in sheet.cases:
        _tell(sheet, name, measure(name, sheet.machine, sheet.images, sheet.spoil))


@BENCH.part(extra=True)
def reset(sheet: Sheet) -> None:
    _tell(sheet, "reset", measure_reset(sheet.machine))


def _tell(sheet: Sheet, name: str, found: dict[str, Any]) -> None:
    for figure, value in found.items():
        sheet.figure(f"board_{name}_{figure}", value)
    sheet.require(_right(found))


def _right(found: dict[str, Any]) -> bool:
    if "reported" in found:
        return bool(found["reported"] and found["equal"]) and found["seconds"] <= REPORT_SECONDS
    return found["equal"] == found["inputs"] and not found["broken_rules"]


@BENCH.part(TIMED, extra=True)
def memory(sheet: Sheet) -> None:
    rows = []
    for name in sheet.board or BOARDS:
        try:
            which, mhz = memory_of(f"board:{name}")
        except ArgumentTypeError as error:
            raise RequestError(str(error)) from None
        machine = on_board(sheet.machine, which, mhz)
        rows += [{"board": name} | timed(network, machine, which) for network in sheet.cases]
    for row in rows:
        sheet.row(row)
        sheet.require(abs(row["error"]) <= sheet.most / 100 and not row["broken_rules"])
    show_columns(f"cycles of {', '.join(sheet.machines)} on emulated boards, and simulated",
                 ["board", "network", "cycles", "simulated", "off by", "default memory"],
                 [[row["board"], row["network"], f"{row['cycles']:,}", f"{row['simulated']:,}",
                   f"{row['error']:+.2%}", f"{row['error_of_default']:+.1%}"] for row in rows])


@BENCH.part(("transfers", "digits"), extra=True)
def axi4(sheet: Sheet) -> None:
    machine = sheet.machine_or("pynq-1x16x16")
    ways = {"transfers": lambda folder: transfers(machine, sheet.transfers, sheet.seed, folder),
            "digits": lambda folder: network(machine, sheet.images, sheet.seed, folder)}
    failures = 0
    for case in sheet.cases:
        found: dict[str, Any] = {}
        with TemporaryDirectory() as folder:
            try:
                found = ways[case](Path(folder))
            except AssertionError as error:
                print(error, file=sys.stderr)
                failures += 1
        for name, value in found.items():
            sheet.figure(name, value)
    sheet.figure("axi4_failures", failures)
    sheet.require(not failures)


class Watched(BoardDevice):
    """The driver, with a record of its runs; `launched` is when the last one began."""

    def __init__(self, machine: Machine, board: EmulatedBoard):
        self.wire = HostLink(SerialLine(board.port, board.baud))
        super().__init__(machine, self.wire)
        self.cycles, self.launched = 0, 0.0

    def launch(self, program: AccelProgram, address: int) -> None:
        super().launch(program, address)
        self.launched = time.monotonic()

    def wait(self) -> Run:
        run = super().wait()
        self.cycles += run.cycles
        return run


def resnet18_block(size: int = 224) -> ModelProto:
    """The first residual block of the zoo's int8 network for images of size x size."""
    whole = shape_inference.infer_shapes(build("resnet18", size, int8=True))
    return Extractor(whole).extract_model([BLOCK[0]], [BLOCK[1]])


def inputs_of(name: str, count: int) -> list[dict[str, np.ndarray]]:
    if name == "digits":
        return [{"image": image[None]} for image in held_out()[0][:count]]
    pooled = np.random.default_rng(0).standard_normal((1, 64, 56, 56), np.float32)
    return [{BLOCK[0]: np.maximum(pooled, 0)}]


def _model(name: str, size: int = 224) -> Model:
    match name:
        case "digits": return DIGITS
        case "keywords": return build("keywords", int8=True)
    return resnet18_block(size)


def measure(name: str, machine: Machine, count: int, spoil: float) -> dict[str, Any]:
    """Runs a network's inputs on the board; returns figures."""
    model, given = _model(name), inputs_of(name, count)
    here = compile_for(model, SimulatedDevice(machine, simulator("functional")))
    begin, done = time.monotonic(), [0]
    with EmulatedBoard(machine, spoil=spoil, seed=1) as board, \
            progress_bar(name, len(given), lambda: done[0]):
        device = Watched(machine, board)
        there, equal = compile_for(model, device), 0
        for values in given:
            equal += _same(there, here, values)
            done[0] += 1
        return {"inputs": len(given), "equal": equal, "cycles": device.cycles,
                "link_bytes": board.moved_bytes, "spoiled": board.spoiled,
                "repeated": device.wire.repeated, "broken_rules": len(board.broken_rules),
                "emulated_cycles": board.cycles, "seconds": round(time.monotonic() - begin, 1)}


def measure_reset(machine: Machine) -> dict[str, Any]:
    """Resets the board in the middle of a run of the digits network, then runs it again."""
    values, = inputs_of("digits", 1)
    here = compile_for(DIGITS, SimulatedDevice(machine, simulator("functional")))
    with EmulatedBoard(machine, reset_within=RESET_CYCLES) as board:
        device = Watched(machine, board)
        try:
            compile_for(DIGITS, device)(values)
            return {"reported": 0, "seconds": 0.0, "equal": 0}
        except LinkError:
            seconds = time.monotonic() - device.launched    # the run ended before the reset
        equal = _same(compile_for(DIGITS, device), here, values)
        return {"reported": 1, "seconds": round(seconds, 2), "equal": int(equal)}


def _same(there: Module, here: Module, values: dict[str, np.ndarray]) -> bool:
    got, wanted = there(values), here(values)
    return all(np.array_equal(got[name], wanted[name]) for name in wanted)


def timed(network: str, machine: Machine, which: str) -> dict[str, Any]:
    """Figures of a network on an emulated board, and of the simulator."""
    chosen = board(which).memory
    if isinstance(chosen, BlockRam):
        chosen = BlockRam(BLOCK_BYTES)
    clock_hz = machine.config.clock_mhz * 1_000_000
    with EmulatedBoard(machine, chosen, clock_hz=clock_hz) as emulated:
        device = Watched(machine, emulated)
        module = compile_for(_model(network, IMAGE), device)
        rng = np.random.default_rng(0)
        module({value: rng.random(module.graph.values[value].shape, np.float32)
                for value in module.graph.inputs})
        broken = len(emulated.broken_rules)
    programs = [segment.program for segment in module.accelerated]
    simulated = _cycles(machine, programs)
    plain = replace(machine, config=replace(machine.config, memory=DRAM))
    return {"network": network, "cycles": device.cycles, "simulated": simulated,
            "error": simulated / device.cycles - 1, "broken_rules": broken,
            "error_of_default": _cycles(plain, programs) / device.cycles - 1}


def _cycles(machine: Machine, programs: list[AccelProgram]) -> int:
    return sum(cycle.simulate(machine, program, values=False).cycles for program in programs)


def transfers(machine: Machine, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Checks random transfers. Raises AssertionError."""
    config = machine.config
    run_bench(Axi4Master(config), "tests.fpga.gateware.axi4_transfers", folder, "-Os",
              TRANSFERS=count, BUS_BYTES=config.bus_bytes, SEED=seed)
    return {"axi4_transfers": count}


def network(machine: Machine, images: int, seed: int, folder: Path) -> dict[str, Any]:
    """Checks the programs of the digits network. Raises AssertionError."""
    stored: dict[str, np.ndarray] = {}

    def simulate(machine: Machine, program: AccelProgram, memory: np.ndarray) -> Run:
        run, number = functional.simulate(machine, program, memory), len(stored) // 4
        assert run.ok, run.describe()
        stored.update({f"count{number}": np.array(program.count), f"before{number}": memory.copy(),
                       f"bases{number}": np.array([program.bases[base] for base in BASES]),
                       f"after{number}": run.memory})
        return run

    module = compile_for(DIGITS, SimulatedDevice(machine, simulate))
    for image in held_out()[0][:images]:
        module({"image": image[None]})
    np.savez(folder / "programs.npz", **stored)     # pyright: ignore[reportArgumentType]
    run_bench(ZynqAccelerator(machine, 1 << 26, machine.config.clock_mhz * 1_000_000),
              "tests.fpga.gateware.zynq_programs", folder, "-Os", PROGRAMS=folder / "programs.npz",
              BUS_BYTES=machine.config.bus_bytes, SEED=seed, FIGURES=folder / "figures.json")
    found = json.loads((folder / "figures.json").read_text())
    return {"axi4_digits_runs": len(found["cycles"]), "axi4_digits_cycles": sum(found["cycles"]),
            "axi4_digits_bursts": found["bursts"]}
