"""The code of a program: text of kernels, and how the host launches them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from compiler.ir import bindings, concrete, extent_value
from compiler.te import Buffer, Extent, Symbol

DIALECTS = ("cuda", "opencl", "metal")
MOST = (1 << 31) - (1 << 16)        # elements of a buffer, and of a parameter: 32 bits, and room
Extent3 = tuple[int, int, int]
"""Extents along x, y and z."""
Grid = tuple[Extent, Extent, Extent]
"""Extents along x, y and z; any may be an expression over parameters."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An array as the TMA sees it, and the box, of so many elements in each dimension, that it
    copies at a time; its rows have 128 bytes, whose chunks of 16 change places.
    """

    buffer: Buffer
    box: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel: blocks of the grid, threads of a block, the buffers that it takes, and after them
    which turn of each loop of the host it is, from 1, and the values of parameters, as integers of
    32 bits; last the maps of arrays. Beside what its text declares, a block shares so many bytes.
    """

    kernel: str
    grid: Grid
    block: Extent3
    arguments: tuple[Buffer, ...]
    numbers: tuple[int, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Code:
    """A program for a GPU: its launches, in order, of kernels in `text`.

    Programs that were generated together share one text, so that it is compiled once.
    `temporaries` are buffers that live from launch to launch, in the memory of the device. Code
    with `parameters` is launched `at` their values. `images` are machine code of the text by its
    architecture, say ``sm_90``; None where nobody has asked for any.
    """

    name: str
    dialect: str
    text: str
    launches: tuple[Launch, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...] = ()
    parameters: tuple[Symbol, ...] = ()
    images: Mapping[str, bytes] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self):
        if self.dialect not in DIALECTS:
            raise ValueError(f"Dialect of {self.name} must be one of {', '.join(DIALECTS)}, "
                             f"not {self.dialect!r}")

    def at(self, **values: int) -> "Code":
        """This code with buffers and grids for these values of all parameters. Kernels without
        a block are not launched. Raises ValueError for values that are wrong or too large.
        """
        bound = bindings(self.name, self.parameters, values)
        if large := [name for name, value in values.items() if value > MOST]:
            raise ValueError(f"Parameter {large[0]} of {self.name} must be at most {MOST}, not "
                             f"{values[large[0]]}")
        inputs, outputs, temporaries = (tuple(concrete(b, bound) for b in group) for group in (
            self.inputs, self.outputs, self.temporaries))
        for buffer in (*inputs, *outputs, *temporaries):
            if self.parameters and buffer.size > MOST:
                raise ValueError(f"Buffer {buffer.name} of {self.name} must have at most {MOST} "
                                 f"elements, not {buffer.size}")
        numbers = tuple(values[symbol.name] for symbol in self.parameters)
        launches = (replace(launch, grid=tuple(extent_value(e, bound) for e in launch.grid),
                            arguments=tuple(concrete(b, bound) for b in launch.arguments),
                            numbers=(*launch.numbers, *numbers)) for launch in self.launches)
        return replace(self, inputs=inputs, outputs=outputs, temporaries=temporaries, parameters=(),
                       launches=tuple(launch for launch in launches if min(launch.grid) > 0))

    def require(self, dialect: str) -> None:
        """Refuse, with a ValueError, what a device of the dialect cannot launch."""
        if self.dialect != dialect:
            raise ValueError(f"Text of {self.name} must be {dialect}, not {self.dialect}")
        if self.parameters:
            raise ValueError(f"Code of {self.name} must be launched at values of its parameters, "
                             f"{', '.join(parameter.name for parameter in self.parameters)}")
