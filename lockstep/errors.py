"""Requests that are wrong: what a user can mend, told apart from what the program got wrong.

The parts of the house raise exceptions of their own and know nothing of the command line. Those
that mean "the request was wrong" are named in `USER_ERRORS`; the command line prints them as one
line. Everything else is a defect and keeps its traceback.
"""

import os
import sys
from pathlib import Path

__all__ = ["USER_ERRORS", "RequestError", "input_file", "output_file", "user_errors"]

USER_ERRORS: tuple[str, ...] = (
    "lockstep.errors.RequestError",
    "accel.config.ConfigError",
    "accel.lowering.nest.LoweringError",
    "accel.program.ProgramError",
    "accel.sim.dram.DramError",
    "accel.sim.trace.TraceError",
    "compiler.cpu_gpu_backends.llvm.export.ExportError",
    "compiler.cpu_gpu_backends.llvm.machine.MachineError",
    "compiler.frontend.onnx_import.ImportRefused",
    "compiler.graph.placement.PinRefused",
    "compiler.graph.room.RoomRefused",
    "compiler.native.BuildError",
    "compiler.quantize.refusal.QuantizeRefused",
    "fpga.boards.board.BoardError",
    "fpga.build.BitstreamError",
    "fpga.device.BoardRefused",
    "fpga.link.host.LinkError",
    "runtime.artifact.container.ArtifactError",
    "runtime.compilation.TargetError",
    "runtime.device.DeviceMissing",
    "runtime.module.InputError",
)
"""Dotted names, so that ``lockstep --help`` need not import every part to catch its errors."""


class RequestError(Exception):
    """The request was wrong. The message is one sentence: what, where, and what to do.

    Not a ValueError, because argparse would replace the message of one.
    """


def user_errors() -> tuple[type[Exception], ...]:
    """The classes of `USER_ERRORS` whose modules are loaded: no other can have been raised."""
    split = (name.rpartition(".") for name in USER_ERRORS)
    return tuple(getattr(sys.modules[module], name)
                 for module, _, name in split if module in sys.modules)


def input_file(text: str) -> Path:
    """An argument that names a file to read. Raises RequestError if there is none."""
    path = Path(text)
    if not path.is_file():
        raise RequestError(f"{text!r} must be a file that exists")
    return path


def output_file(text: str) -> Path:
    """An argument that names a file to write. Raises RequestError if its folder is missing."""
    path = Path(text)
    if os.path.isdir(path) or not os.path.isdir(path.parent):   # pathlib's raise for some names
        raise RequestError(f"{text!r} must name a file in a folder that exists")
    return path
