"""The contents of TensorFlow Lite files: tensors, operators, signatures, as plain records.

The file is a flatbuffer, which the package `tflite` reads (extra `tflite`). Nothing in it is
trusted: a table that leads outside the file, or says that it is longer than the file, is refused.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from compiler.frontend.building.refusal import ImportRefused

MAGIC, MAGIC_PLACE = b"TFL3", 4
DAMAGED = (struct.error, ValueError, TypeError, LookupError, OverflowError, AttributeError,
           MemoryError, UnicodeDecodeError)
DTYPES = {"FLOAT32": np.float32, "FLOAT16": np.float16, "FLOAT64": np.float64,
          "BFLOAT16": ml_dtypes.bfloat16, "INT8": np.int8, "UINT8": np.uint8, "INT16": np.int16,
          "UINT16": np.uint16, "INT32": np.int32, "UINT32": np.uint32, "INT64": np.int64,
          "UINT64": np.uint64, "BOOL": np.bool_, "INT4": np.int8, "INT2": np.int8,
          "UINT4": np.uint8}
PACKED = {"INT4": 4, "INT2": 2, "UINT4": 4}
"""Bits of the types that have several elements in a byte."""

NEWER_TYPES = {19: "INT2", 20: "UINT4"}
NEWER_DETAILS = {2: "blocks", 3: "scales of several axes"}
"""What the package does not know: numbers of types, and of tables behind `Details`."""


@dataclass(frozen=True)
class TensorScales:
    """Scales and zero points: one of each, or one a place of `axis`, or one for each `block`
    elements along `axis`, which is the last one: then they have as many axes as the tensor.
    """

    scale: np.ndarray
    zero: np.ndarray
    axis: int
    block: int = 0

    @property
    def per_tensor(self) -> bool:
        return self.scale.size == 1 and not self.block


@dataclass(frozen=True)
class TfliteTensor:
    """`signature` has -1 for open dimensions, where `shape` has the extent that the file was made
    with. `dtype` is None for types that arrays lack, which `kind` names.
    """

    name: str
    kind: str
    dtype: np.dtype | None
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    quantization: TensorScales | None
    array: np.ndarray | None
    is_variable: bool
    is_sparse: bool

    @property
    def is_open(self) -> bool:
        return -1 in self.signature


@dataclass(frozen=True)
class TfliteOperation:
    """A node. `inputs` are places in the subgraph's tensors, -1 where one is left out."""

    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any = field(repr=False)

    def option(self, name: str, default: Any = 0) -> Any:
        """A field of its options, by the schema's name; the default where it has none."""
        if self.options is None:
            return default
        try:
            return getattr(self.options, name)()
        except struct.error as error:
            raise ValueError(f"its options are damaged: {error}") from None

    def input(self, place: int) -> int:
        """The tensor of an input, -1 where there is none."""
        return self.inputs[place] if place < len(self.inputs) else -1


@dataclass(frozen=True)
class Subgraph:
    """`names` are those that the file's signature gives inputs and outputs."""

    tensors: tuple[TfliteTensor, ...]
    operations: tuple[TfliteOperation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_names: dict[int, str]
    output_names: dict[int, str]


def read(path: Path) -> Subgraph:
    """The file's one subgraph. Raises ImportRefused."""
    try:
        import tflite  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportRefused(f"{path}: a TensorFlow Lite file needs the package tflite, which is "
                            "not installed; install lockstep-hw[tflite]") from None
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be read: {error.strerror or error}") from None
    if data[MAGIC_PLACE:MAGIC_PLACE + len(MAGIC)] != MAGIC:
        raise ImportRefused(f"{path}: is not a TensorFlow Lite file; give a model in .tflite "
                            "format")
    try:
        return _Reader(tflite, data).subgraph()
    except ImportRefused as error:
        raise ImportRefused(f"{path}: {error}") from None
    except DAMAGED as error:
        raise ImportRefused(f"{path}: is damaged: {type(error).__name__}: {str(error)[:100]}; "
                            "convert the model again") from None


class _Reader:
    def __init__(self, tflite: Any, data: bytes):
        self.tflite, self.data = tflite, data
        self.model = tflite.Model.GetRootAs(data, 0)
        self.kinds = {value: name for name, value in vars(tflite.TensorType).items()
                      if isinstance(value, int)} | NEWER_TYPES
        self.codes = {value: name for name, value in vars(tflite.BuiltinOperator).items()
                      if isinstance(value, int)}
        self.options = {value: name for name, value in vars(tflite.BuiltinOptions).items()
                        if isinstance(value, int)}

    def subgraph(self) -> Subgraph:
        count = self.model.SubgraphsLength()
        if count < 1:
            raise ImportRefused("has no subgraph; convert the model again")
        graph = self.model.Subgraphs(0)
        inputs, outputs = self._numbers(graph, "Inputs"), self._numbers(graph, "Outputs")
        if not outputs:
            raise ImportRefused("has no outputs; convert the model again")
        tensors = tuple(map(self._tensor, self._each(graph, "Tensors")))
        operations = tuple(map(self._operation, self._each(graph, "Operators")))
        places = [*inputs, *outputs, *(place for operation in operations
                                       for place in (*operation.inputs, *operation.outputs))]
        if not all(-1 <= place < len(tensors) for place in places) or min(
                (*inputs, *outputs), default=0) < 0:
            raise ValueError("an operator names a tensor that is not there")
        return Subgraph(tensors, operations, inputs, outputs,
                        *(self._signature("Inputs"), self._signature("Outputs")))

    def _each(self, table: Any, name: str) -> list[Any]:
        """The tables of a vector, which must fit into the file."""
        count = getattr(table, f"{name}Length")()
        if not 0 <= count <= len(self.data) // 4:
            raise ValueError(f"{name} says that it has {count:,} entries")
        at: Callable[[int], Any] = getattr(table, name)
        return [at(place) for place in range(count)]

    def _numbers(self, table: Any, name: str) -> tuple[int, ...]:
        array = getattr(table, f"{name}AsNumpy")()
        return () if isinstance(array, int) else tuple(int(number) for number in array)

    def _tensor(self, table: Any) -> TfliteTensor:
        kind, dtype = self._type(table)
        shape = self._numbers(table, "Shape")
        signature = self._numbers(table, "ShapeSignature") or shape
        if min(shape, default=0) < 0 or len(signature) != len(shape):
            raise ValueError(f"a tensor has the shape {shape}")
        name = (table.Name() or b"").decode(errors="replace")
        quantization = self._quantization(table.Quantization(), shape, name)
        return TfliteTensor(name, kind, dtype, shape, signature, quantization,
                      self._array(table.Buffer(), dtype, kind, shape, name), table.IsVariable(),
                      table.Sparsity() is not None)

    def _quantization(self, table: Any, shape: Sequence[int], name: str) -> TensorScales | None:
        if table is None:
            return None
        details = NEWER_DETAILS.get(table.DetailsType())
        if details == "blocks":
            return self._blocks(table.Details(), shape, name)
        if details is not None:
            raise ImportRefused(f"tensor {name!r} must have scales of one axis, not {details}")
        if not table.ScaleLength():
            return None
        scale = np.array(table.ScaleAsNumpy(), np.float32)
        zero = np.array(table.ZeroPointAsNumpy(), np.int64) if table.ZeroPointLength() else \
            np.zeros(scale.size, np.int64)
        if zero.size not in (1, scale.size):
            raise ValueError(f"{scale.size} scales and {zero.size} zero points")
        return TensorScales(scale, np.broadcast_to(zero, scale.shape), table.QuantizedDimension())

    def _blocks(self, details: Any, shape: Sequence[int], name: str) -> TensorScales:
        """The scales and zero points of blocks of the last axis, which are tensors themselves."""
        from flatbuffers.number_types import Int32Flags

        scales, zeros, block = (details.Get(Int32Flags, details.Pos + place) if place else default
                                for place, default in zip(map(details.Offset, (4, 6, 8)),
                                                          (0, -1, 0)))
        if block < 1 or not shape or shape[-1] % block:
            raise ImportRefused(f"tensor {name!r} must have blocks that its last axis holds whole, "
                                f"not of {block} elements")
        grid = (*shape[:-1], shape[-1] // block)
        scale, zero = (self._constant(place) for place in (scales, zeros))
        if scale is None:
            raise ValueError(f"the blocks of tensor {name!r} have no scales")
        zero = np.zeros((), np.int64) if zero is None or not zero.size else zero
        return TensorScales(scale.astype(np.float32).reshape(grid), np.broadcast_to(
            zero.astype(np.int64).reshape(grid if zero.size > 1 else ()), grid),
            len(shape) - 1, block)

    def _constant(self, place: int) -> np.ndarray | None:
        """The elements of a tensor; None for -1."""
        if not -1 <= place < self.model.Subgraphs(0).TensorsLength():
            raise ValueError("blocks name a tensor that is not there")
        if place < 0:
            return None
        table = self.model.Subgraphs(0).Tensors(place)
        kind, dtype = self._type(table)
        return self._array(table.Buffer(), dtype, kind, self._numbers(table, "Shape"), "scales")

    def _type(self, table: Any) -> tuple[str, np.dtype | None]:
        """The name of a tensor's type, and the type of its array, if there is one."""
        kind = self.kinds.get(table.Type(), str(table.Type()))
        return kind, np.dtype(DTYPES[kind]) if kind in DTYPES else None

    def _array(self, place: int, dtype: np.dtype | None, kind: str, shape: Sequence[int],
               name: str) -> np.ndarray | None:
        """The elements of a constant, where the file has them; they are not copied."""
        if not 0 <= place < self.model.BuffersLength():
            raise ValueError(f"tensor {name!r} names a buffer that is not there")
        buffer = self.model.Buffers(place)
        data = None
        if buffer.DataLength():
            data = buffer.DataAsNumpy()
        elif buffer.Offset() > 1:                       # 1 says: none
            end = buffer.Offset() + buffer.Size()
            if end > len(self.data):
                raise ValueError(f"tensor {name!r} lies behind the end of the file")
            data = np.frombuffer(self.data, np.uint8, buffer.Size(), buffer.Offset())
        if data is None or dtype is None:
            return None
        if kind in PACKED:
            made = _unpacked(data, shape, PACKED[kind])
            return made if dtype.kind == "i" else made.view(dtype) & (1 << PACKED[kind]) - 1
        elements = data[:len(data) // dtype.itemsize * dtype.itemsize].view(dtype)
        return elements.reshape(shape)

    def _operation(self, table: Any) -> TfliteOperation:
        code = self.model.OperatorCodes(self._code_place(table))
        number = max(_builtin_code(code), code.DeprecatedBuiltinCode())
        name = self.codes.get(number, f"operator {number}")
        if name == "CUSTOM":
            name = f"CUSTOM {(code.CustomCode() or b'').decode(errors='replace')}"
        return TfliteOperation(name, self._numbers(table, "Inputs"),
                               self._numbers(table, "Outputs"), self._options(table))

    def _code_place(self, table: Any) -> int:
        place = table.OpcodeIndex()
        if place >= self.model.OperatorCodesLength():
            raise ValueError("an operator has a code that is not there")
        return place

    def _options(self, table: Any) -> Any:
        kind, found = self.options.get(table.BuiltinOptionsType(), "NONE"), table.BuiltinOptions()
        if kind == "NONE" or found is None or not hasattr(self.tflite, kind):
            return None
        options = getattr(self.tflite, kind)()
        options.Init(found.Bytes, found.Pos)
        return options

    def _signature(self, side: str) -> dict[int, str]:
        """Names of the tensors of the first subgraph, where the file has one signature of it."""
        found = [one for one in self._each(self.model, "SignatureDefs")
                 if one.SubgraphIndex() == 0]
        if len(found) != 1:
            return {}
        return {int(entry.TensorIndex()): entry.Name().decode(errors="replace")
                for entry in self._each(found[0], side) if entry.Name()}


def _builtin_code(code: Any) -> int:
    """The field `builtin_code` as it is stored: `BuiltinCode` of the package tflite gives the
    deprecated field in its place where it is below 127, and some writers leave that out.
    """
    from flatbuffers.number_types import Int32Flags

    place = code._tab.Offset(10)
    return code._tab.Get(Int32Flags, code._tab.Pos + place) if place else 0


def _unpacked(data: np.ndarray, shape: Sequence[int], bits: int = 4) -> np.ndarray:
    """Elements of a few bits, the lowest of each byte first, as int8."""
    low = 8 - bits
    parts = [data.view(np.int8) << low - place >> low for place in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(-1)[:int(np.prod(shape, dtype=np.int64))].reshape(shape)
