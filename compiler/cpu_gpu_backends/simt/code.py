"""What a program becomes: text of kernels, and how the host launches them."""

from dataclasses import dataclass

from compiler.te import Buffer

__all__ = ["DIALECTS", "Code", "Extent3", "Launch"]

DIALECTS = ("cuda", "opencl")
Extent3 = tuple[int, int, int]
"""Extents along x, y and z."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel: blocks of the grid, threads of a block, and the buffers that it takes."""

    kernel: str
    grid: Extent3
    block: Extent3
    arguments: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """A program for a GPU: its launches, in order, of kernels in `text`.

    Programs that were generated together share one text, so that it is compiled once.
    `temporaries` are buffers that live from launch to launch, in the memory of the device.
    """

    name: str
    dialect: str
    text: str
    launches: tuple[Launch, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...] = ()

    def __post_init__(self):
        if self.dialect not in DIALECTS:
            raise ValueError(f"Dialect of {self.name} must be one of {', '.join(DIALECTS)}, "
                             f"not {self.dialect!r}")
