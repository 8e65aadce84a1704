"""Does the emulated board compute networks as the functional simulator does?

The unmodified driver on the whole gateware in Verilator, with a model of the SDRAM chip that checks
the chip's rules (docs/fpga.md):

    digits           held-out digits through the int8 network, one after another
    resnet18_block   the first residual block of the zoo's int8 ResNet-18, 56x56x64, one image

With ``--spoil`` bytes of the line are lost or flipped, both ways; with ``--reset`` the board is
reset in the middle of a run, which must be reported, and the next run must be right. Prints
``name value`` lines or JSON; exit status 1 if an output differs, a rule of the chip is broken or a
reset goes unseen.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, shape_inference
from onnx.utils import Extractor

from accel.machine.config import ConfigError
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from compiler.frontend.models import Model
from compiler.native import BuildError
from examples.digits.data import held_out
from lockstep.testing.zoo import build
from fpga.device import BoardDevice
from fpga.emulation.emulated import EmulatedBoard
from fpga.link.host import HostLink, LinkError
from fpga.link.serial_port import SerialLine
from lockstep.commands._progress import progress_bar
from runtime import Module, SimulatedDevice, compile_for, simulator

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits-int8.onnx"
BLOCK = "maxpool.out", "layer1.0.relu_1.out_DequantizeLinear_Output"
"""The values at the ends of the block."""

RESET_CYCLES = 1000         # after the start of a run; every run is longer
REPORT_SECONDS = 5.0        # until a reset must be reported


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


def _model(name: str) -> Model:
    return DIGITS if name == "digits" else resnet18_block()


def _same(there: Module, here: Module, values: dict[str, np.ndarray]) -> bool:
    got, wanted = there(values), here(values)
    return all(np.array_equal(got[name], wanted[name]) for name in wanted)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.board_networks", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK",
                        help="digits, resnet18_block (default both)")
    parser.add_argument("--machine", "--config", default="ecp5-1x8x8", help="preset or file")
    parser.add_argument("--images", type=int, default=20, choices=range(1, 361), metavar="N",
                        help="digits, at most 360 (default 20)")
    parser.add_argument("--spoil", type=float, default=0.0, metavar="SHARE",
                        help="of the bytes on the line; 0.001 is one in a thousand")
    parser.add_argument("--reset", action="store_true", help="reset the board in the middle of a "
                        "run of the digits, too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    known = ["digits", "resnet18_block"]
    if wrong := [name for name in args.networks if name not in known]:
        parser.error(f"NETWORK must be one of {', '.join(known)}, not {wrong[0]!r}")
    if not 0 <= args.spoil <= 0.05:
        parser.error(f"--spoil must be 0 to 0.05, not {args.spoil:g}: a line that is worse "
                     "carries nothing")
    try:
        machine = load_machine(args.machine)
        found = {name: measure(name, machine, args.images, args.spoil)
                 for name in args.networks or known}
        if args.reset:
            found["reset"] = measure_reset(machine)
    except (BuildError, ConfigError, LinkError) as error:
        print(f"bench.board_networks: {error}", file=sys.stderr)
        return 1 if isinstance(error, LinkError) else 2
    _show(machine, found, args.json)
    return 0 if all(map(_right, found.values())) else 1


def _right(found: dict[str, Any]) -> bool:
    if "reported" in found:
        return bool(found["reported"] and found["equal"]) and found["seconds"] <= REPORT_SECONDS
    return found["equal"] == found["inputs"] and not found["broken_rules"]


def _show(machine: Machine, found: dict[str, dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"config": machine.config.name, "machine": machine.hash,
                          "networks": found}, indent=2))
        return
    for name, figures in found.items():
        for figure, value in figures.items():
            print(f"board_{name}_{figure} {value}")


if __name__ == "__main__":
    sys.exit(main())
