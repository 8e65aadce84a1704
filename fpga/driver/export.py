"""Writes a compiled network as C that drives a board. docs/driver.md says how it is used."""

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from compiler.files import write_bytes
from fpga.driver.board import board_files
from fpga.driver.network import BoardNetwork
from runtime.exporting.segments import (CInterface, ExportError, header, is_identifier,
                                        is_of_the_processor, segment_code)
from runtime.module import Module

INSIDE = 1 << 20
"""Bytes of instructions and constants that the text holds itself unless the caller decides."""


@dataclass(frozen=True, slots=True)
class ExportedBoard:
    """The files that were written, in order, and the text of the header."""

    files: tuple[Path, ...]
    interface: CInterface


def export_accelerated(module: Module, folder: str | PathLike[str], name: str, *,
                       machine: str | None = None, apart: bool | None = None) -> ExportedBoard:
    """Writes a network of the accelerator, or of accelerator and processor, into a folder, which is
    created if it does not exist: ``NAME.h`` and ``NAME.c``, the same of ``NAME_hostN`` for each
    segment of the processor, and the files of `fpga.driver.board`.

    Parameters
    ----------
    machine : the processor, one of `compiler.cpu_gpu_backends.llvm.MACHINES`, for which its
        segments become objects, ``NAME_hostN.o``; by default they are C for any.
    apart : whether instructions and constants are a file of their own, ``NAME.bin``; by default
        they are where those of the accelerator take more than `INSIDE`.

    Raises ExportError for a name that C does not take and for a module that no board runs,
    ArgumentError for an unknown machine, CError for a segment that C cannot say, FileError where
    the files cannot be written.
    """
    _check(module, name)
    if apart is None:
        apart = sum(segment.program.words.size + segment.program.weights.size
                    for segment in module.accelerated) > INSIDE
    parts = {place: segment_code(module, step, f"{name}_host{place}", machine, apart)
             for place, step in enumerate(module.steps) if is_of_the_processor(step)}
    network = BoardNetwork(module, name, parts, apart)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for file, data in _files(network):
        write_bytes(folder / file, data)
        written.append(folder / file)
    return ExportedBoard(tuple(written), network.interface)


def _files(network: BoardNetwork) -> Iterator[tuple[str, bytes]]:
    yield f"{network.name}.h", header(network.interface).encode()
    yield f"{network.name}.c", network.source().encode()
    if network.apart:
        yield f"{network.name}.bin", network.weights()
    for part in network.parts.values():
        yield from part.files.items()
    yield from ((file, text.encode()) for file, text in board_files().items())


def _check(module: Module, name: str) -> None:
    if not is_identifier(name):
        raise ExportError(f"Name of a network must be an identifier of C, not {name!r}")
    if name.startswith("lockstep"):
        raise ExportError(f"Name of a network on a board must not begin with lockstep, as {name} "
                          f"does")
    for step in module.steps:
        if step.execute.program is None and not is_of_the_processor(step):
            raise ExportError(f"Segments of a network on a board must be of the accelerator or the "
                              f"processor, not of {step.segment.target}")
    machines = {segment.device.machine.hash for segment in module.accelerated}
    if len(machines) != 1:
        raise ExportError(f"Network on a board must have segments of one accelerator, not of "
                          f"{len(machines) or 'none'}")
    for value in module.graph.outputs:
        if value in module.graph.constants:
            raise ExportError(f"Output of a network on a board must be computed, and {value} is a "
                              f"constant")
