"""Programs that can be called with arrays of NumPy, or of others through DLPack."""

import ctypes
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from compiler.dlpack import shared
from compiler.ir import Program, Tensorized, simplify, walk_stmts
from compiler.te import (INDEX, Buffer, Const, Expr, Symbol, Var, as_expr, numpy_dtype,
                         substitute)

from compiler.cpu_gpu_backends.llvm.emitting.amx import REFUSED
from compiler.cpu_gpu_backends.llvm.emitting.emit import FUNCTION, OUT_OF_MEMORY, LlvmFunction, emit
from compiler.cpu_gpu_backends.llvm.machine import WITHOUT, MachineError, Processor, host
from .jit import Library, library, object_code


class Kernel:
    """A compiled program, for this computer.

    Calling it takes an array for each input and each output of the program, in that order, and
    fills the outputs; no output may overlap another array, except that the first may be an
    `in_place` input (see `emit`). Arrays of other libraries, such as tensors of torch, are used
    where they are, through DLPack; what cannot be taken is refused, never copied. `compute` is like
    `compiler.ir.interpret`: arrays by name in, new arrays by name out. `text` is its LLVM IR,
    `function` what that was written from; a kernel that was restored has neither. Several threads
    may call it at once.

    Parameters of the program take their values from the shapes of the arrays, where a dimension is
    a parameter by itself; others are given by name.
    """

    def __init__(self, program: Program, machine: Processor | None = None, contract: bool = False,
                 strict: bool = False, in_place: Collection[str] = (), link: bool = True):
        machine = machine or host()
        if strict:
            require(program, machine)
        self.text = emit(program, machine, contract, in_place)
        self.function = LlvmFunction(program, contract, tuple(in_place))
        self._machine = machine
        self._code, self.program = b"", program
        if link:
            self._link(program, library(self.text, machine))

    @classmethod
    def restored(cls, interface: Program, code: bytes) -> "Kernel":
        """A kernel from its `code`, on a computer like the one that it was compiled for. It has
        only the `interface` of its program, and no `text`.
        """
        kernel = cls.__new__(cls)
        kernel.text, kernel._machine, kernel._code = "", host(), code
        kernel.function = None
        kernel._link(interface, Library(code, (FUNCTION,), kernel._machine))
        return kernel

    @property
    def code(self) -> bytes:
        """The object file."""
        return self._code or object_code(self.text, self._machine)

    def _link(self, program: Program, linked: Library) -> None:
        self.program, self._library = program, linked
        self._buffers = (*program.inputs, *program.outputs)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(self._buffers),
                                     *[ctypes.c_int64] * len(program.parameters))
        self._function = prototype(self._library.address(FUNCTION))

    def __call__(self, *foreign: Any, **symbols: int) -> None:
        """Raises ValueError for an array that does not fit, MemoryError when there is no memory
        for the program's local buffers, MachineError when the operating system refuses the
        processor's tile registers.
        """
        if len(foreign) != len(self._buffers):
            names = ", ".join(buffer.name for buffer in self._buffers)
            raise ValueError(f"Arrays of {self.program.name} must be {names}, "
                             f"not {len(foreign)} arrays")
        arrays = [shared(buffer.name, array) for buffer, array in zip(self._buffers, foreign)]
        values = self._values(dict(zip(self._buffers, arrays)), symbols)
        for buffer, array in zip(self._buffers, arrays):
            _require(buffer, array, values)
        for buffer, array in zip(self.program.outputs, arrays[len(self.program.inputs):]):
            if not array.flags.writeable:
                raise ValueError(f"Array {buffer.name} must be writeable")
        status = self._function(*(array.ctypes.data for array in arrays), *values.values())
        if status:
            raise refusal(status, self.program.name)

    @property
    def address(self) -> int:
        """The address of its function."""
        return self._library.address(FUNCTION)

    def _values(self, arrays: Mapping[Buffer, np.ndarray],
                given: Mapping[str, int]) -> dict[Symbol, int]:
        """Values of the parameters, in order."""
        name = self.program.name
        sizes = {Symbol(symbol): value for symbol, value in given.items()}
        if unknown := [symbol.name for symbol in sizes if symbol not in self.program.parameters]:
            raise ValueError(f"Parameter of {name} must be one of "
                             f"{', '.join(p.name for p in self.program.parameters) or 'none'}, "
                             f"not {unknown[0]!r}")
        for buffer, array in arrays.items():
            for extent, size in zip(buffer.shape, array.shape):
                if isinstance(extent, Symbol):
                    sizes.setdefault(extent, size)
        for symbol in self.program.parameters:
            if sizes.get(symbol, 0) < 1:
                raise ValueError(f"Parameter {symbol.name} of {name} must be given, a positive "
                                 f"integer, not {sizes.get(symbol)!r}")
        return {symbol: sizes[symbol] for symbol in self.program.parameters}

    def compute(self, inputs: Mapping[str, Any], **symbols: int) -> dict[str, np.ndarray]:
        """Outputs by name. Inputs may have any memory layout, but their types are not converted."""
        for buffer in self.program.inputs:
            if buffer.name not in inputs:
                raise ValueError(f"Inputs of {self.program.name} must hold {buffer.name!r}, "
                                 f"not only {sorted(inputs)}")
        given = {b: shared(b.name, inputs[b.name]) for b in self.program.inputs}
        values = self._values(given, symbols)
        outputs = {b.name: np.empty(_shape(b, values), numpy_dtype(b.dtype))
                   for b in self.program.outputs}
        arrays = [np.require(array, requirements=["C", "A"]) for array in given.values()]
        self(*arrays, *outputs.values(), **symbols)
        return outputs


def refusal(status: int, name: str) -> Exception:
    """The meaning of a status other than 0, of the kernel of this name."""
    if status == OUT_OF_MEMORY:
        return MemoryError(f"{name} cannot allocate its local buffers")
    assert status == REFUSED
    return MachineError(f"{name} needs the tile registers of AMX, which the operating system "
                        f"refuses: set {WITHOUT}=amx-tile to do without")


def _shape(buffer: Buffer, values: Mapping[Symbol, int]) -> tuple[int, ...]:
    """The shape for these values of the parameters."""
    if not values:
        return buffer.shape
    bound: dict[Var, Expr] = {symbol: Const(int(value), INDEX) for symbol, value in values.items()}
    extents = (simplify(substitute(as_expr(extent, INDEX), bound)) for extent in buffer.shape)
    return tuple(int(extent.value) for extent in extents if isinstance(extent, Const))


def _require(buffer: Buffer, array: np.ndarray, values: Mapping[Symbol, int]) -> None:
    shape = _shape(buffer, values)
    if array.shape != shape or array.dtype != numpy_dtype(buffer.dtype):
        raise ValueError(f"Array {buffer.name} must be {buffer.dtype}{list(shape)}, "
                         f"not {array.dtype}{list(array.shape)}")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ValueError(f"Array {buffer.name} must be dense, aligned and in row-major order")


def require(program: Program, machine: Processor) -> None:
    """Raise MachineError if `machine` lacks what an intrinsic of the program needs."""
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, Tensorized) and stmt.intrinsic is not None:
            missing = [feature for feature in stmt.intrinsic.needs if not machine.has(feature)]
            if missing:
                raise MachineError(f"{stmt.intrinsic.name} in {program.name} needs "
                                   f"{', '.join(missing)}, which this processor lacks or was told "
                                   f"to do without ({WITHOUT})")


def build(program: Program, machine: Processor | None = None, contract: bool = False,
          strict: bool = False, in_place: Collection[str] = (), link: bool = True) -> Kernel:
    """Compile `program` for this computer; texts are compiled once.

    `machine` may be ``host().without(...)``, to see the code for a processor without some feature.
    With `contract` a product may be fused with a sum that it is part of (see `floats`). The first
    output may be the array of an input that is `in_place` (see `emit`). Intrinsics that the machine
    lacks are replaced by their loop nests, or refused with MachineError if `strict`. A kernel for
    another computer is written, without `link`: it has `text` and `code`, and cannot be called.
    """
    return Kernel(program, machine, contract, strict, in_place, link)
