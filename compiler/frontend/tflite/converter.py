"""A TensorFlow Lite subgraph as an ONNX model, operation by operation.

Images lie in NHWC there and in NCHW in ONNX. Each tensor has a name in the form that it was made
in, and gets one in the other with its first reader that wants that; what follows a convolution
element by element stays in its form, so that transposes stand only where forms meet.

A quantized tensor is what the file stores. An operator reads it through DequantizeLinear and
computes in float, and QuantizeLinear stores the result: integer operators are made of this by the
graph pass `integerize`, as for any network.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.onnx.nodes.maps import OWN
from compiler.frontend.onnx.nodes.writer import Loaded, OnnxWriter, typed
from compiler.frontend.tflite import schema
from compiler.frontend.tflite.registry import OPERATORS
from compiler.frontend.tflite.schema import TensorScales, TfliteOperation, TfliteTensor

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)        # to channels first, and back
STORED = ("int8", "uint8", "int16")
CONTRADICTIONS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


@dataclass(frozen=True)
class DividedImage:
    """An image that was divided into blocks before a convolution and is put together behind it:
    the convolution is one of the whole image, dilated by the block, with these pads.
    """

    image: int
    block: tuple[int, ...]
    pads: tuple[int, ...]


def convert(path: Path) -> Loaded:
    """The ONNX model of a .tflite file. Raises ImportRefused for what is no such file; operators
    that are not taken stand in the model, for the importer to refuse.
    """
    return Converter(schema.read(path), path.stem).run()


class Converter:
    """Its methods are what the functions of operators write with. Tensors are called by their
    places in the file. `first` asks for the NCHW form of a tensor of rank 4.
    """

    def __init__(self, graph: schema.Subgraph, name: str):
        self.graph, self.write = graph, OnnxWriter(name)
        self.tensors = graph.tensors
        self.stored: dict[tuple[int, bool], str] = {}
        self.reals: dict[tuple[int, bool], str] = {}
        self.constants = {place: tensor.array for place, tensor in enumerate(self.tensors)
                          if tensor.array is not None and not tensor.is_variable}
        self.names = dict.fromkeys(range(len(self.tensors)), "")      # of inputs and outputs
        self.dilated: dict[int, DividedImage] = {}
        self.kernel = ""
        self.readers: dict[int, list[TfliteOperation]] = {}
        for operation in graph.operations:
            for place in operation.inputs:
                self.readers.setdefault(place, []).append(operation)

    def run(self) -> Loaded:
        extents = {}
        for named, places in ((self.graph.input_names, self.graph.inputs),
                              (self.graph.output_names, self.graph.outputs)):
            for place in places:
                self.names[place] = self.names[place] or self.write.fresh(
                    named.get(place) or self.tensors[place].name)
        for place in self.graph.inputs:
            extents.update(self._input(place))
        for operation in self.graph.operations:
            self._convert(operation)
        for place in dict.fromkeys(self.graph.outputs):
            self._output(place)
        return Loaded(self.write.model(), extents)

    def _input(self, place: int) -> dict[str, int]:
        tensor, name = self.tensors[place], self.names[place]
        self.write.add_input(name, _dtype(tensor), _open_shape(tensor))
        self.stored[place, False] = name
        return {f"{name}.{axis}": tensor.shape[axis] for axis, extent
                in enumerate(tensor.signature) if extent < 0}

    def _output(self, place: int) -> None:
        tensor, name = self.tensors[place], self.names[place]
        self.write.begin(name)
        try:
            made = self.value(place)
        except NodeRefused:                 # made by what is refused
            return
        if made != name:
            self.write.node("Identity", [made], name)
        self.write.add_output(name, _dtype(tensor), _open_shape(tensor))

    def _convert(self, operation: TfliteOperation) -> None:
        self.write.begin(self._name(operation))
        self.kernel = self._kernel(operation)
        kept = len(self.write.nodes)
        try:
            rule = OPERATORS.get(operation.code)
            if rule is None:
                raise NodeRefused("operator is not supported")
            for place in (*operation.inputs, *operation.outputs):
                self._require_usable(place)
            rule(self, operation)
        except (NodeRefused, *CONTRADICTIONS) as error:
            del self.write.nodes[kept:]
            self._refuse(operation, error)

    def _kernel(self, operation: TfliteOperation) -> str:
        """The operation's name in `compiler/graph/integerize/litert.py`."""
        real = operation.code == "QUANTIZE" and not self.is_quantized(operation.input(0))
        return "QUANTIZE_REAL" if real else operation.code

    def _require_usable(self, place: int) -> None:
        if place < 0:
            return
        tensor = self.tensors[place]
        if tensor.dtype is None:
            raise NodeRefused(f"tensor {tensor.name!r} must be of numbers, not {tensor.kind}")
        if tensor.is_sparse:
            raise NodeRefused(f"tensor {tensor.name!r} must be stored dense")

    def _name(self, operation: TfliteOperation) -> str:
        """The name of the tensor that it makes: operators of TensorFlow Lite have none. Of names
        that the converter joined, the last."""
        place = next((place for place in operation.outputs if place >= 0), None)
        name = "" if place is None else self.names[place] or self.tensors[place].name
        return re.split(";", name)[-1].strip("/") or operation.code.lower()

    def _refuse(self, operation: TfliteOperation, error: Exception) -> None:
        reason = str(error) if isinstance(error, NodeRefused) else (
            f"its inputs and options contradict each other ({type(error).__name__}: {error})")
        told = []
        for place in operation.outputs:
            tensor = self.tensors[place]
            name = self.names[place] or self.write.fresh(tensor.name)
            told.append(typed(name, tensor.dtype or np.float32, tensor.shape))
            self.stored[place, False] = name
        made = {name for node in self.write.nodes for name in node.output}
        given = {value.name for value in (*self.write.inputs, *self.write.constants)}
        inputs = [name for place in operation.inputs
                  if (name := self.stored.get((place, False), "")) in made | given]
        self.write.refuse(operation.code, inputs, told, reason)

    # ---- reading -------------------------------------------------------------------------------

    def tensor(self, place: int) -> TfliteTensor:
        return self.tensors[place]

    def rank(self, place: int) -> int:
        return len(self.tensors[place].shape)

    def array(self, place: int) -> np.ndarray | None:
        """The elements of a constant as they are stored; None where they are computed."""
        return self.constants.get(place)

    def integers(self, place: int, role: str) -> list[int]:
        """The elements of a constant of integers."""
        array = self.array(place)
        if array is None or array.dtype.kind not in "iu":
            raise NodeRefused(f"its {role} must be a constant of integers")
        return [int(element) for element in array.reshape(-1)]

    def is_quantized(self, place: int) -> bool:
        tensor = self.tensors[place]
        return tensor.quantization is not None and str(tensor.dtype) in STORED

    def scales(self, place: int) -> TensorScales:
        """Scales and zero points of a quantized tensor."""
        quantization = self.tensors[place].quantization
        assert quantization is not None
        return quantization

    def is_first(self, *places: int) -> bool:
        """True if one of them was made in NCHW, and all can be had so without cost: constants, and
        tensors of rank 4.
        """
        made = any((place, True) in self.stored and self.array(place) is None for place in places)
        return made and all(self.rank(place) == 4 or self.array(place) is not None
                            and self.rank(place) < 4 for place in places)

    def value(self, place: int, first: bool = False) -> str:
        """The name of the tensor as it is stored."""
        if (place, first) not in self.stored:
            array = self.array(place)
            if array is not None:
                made = self.write.constant(_arranged(array, first), self.tensors[place].name)
            elif (place, not first) in self.stored:
                made = self.write.node("Transpose", [self.stored[place, not first]],
                                       perm=FIRST if first else LAST)
            else:
                raise NodeRefused(f"its input {self.tensors[place].name!r} must be defined before "
                                  "its use")
            self.stored[place, first] = made
        return self.stored[place, first]

    def real(self, place: int, first: bool = False) -> str:
        """The name of the tensor in float, or of its type where it is not quantized."""
        if not self.is_quantized(place):
            return self.value(place, first)
        if (place, first) not in self.reals:
            tensor, quantization = self.tensors[place], self.scales(place)
            if not quantization.per_tensor and self.array(place) is None:
                raise NodeRefused(f"tensor {tensor.name!r} must have one scale, as it is computed")
            if first and quantization.block:
                raise NodeRefused(f"tensor {tensor.name!r} must have no blocks beside an image")
            axis = 0 if quantization.per_tensor else quantization.axis
            if first and not quantization.per_tensor:
                axis = FIRST.index(axis + 4 - self.rank(place))
            self.reals[place, first] = self.dequantized(self.value(place, first), place, axis)
        return self.reals[place, first]

    def dequantized(self, stored: str, place: int, axis: int = 0,
                    perm: Sequence[int] | None = None) -> str:
        """Elements with the scales of a tensor, which lie along this axis if there are several. The
        axes of blocks are permuted as those of the elements.
        """
        block = self.scales(place).block
        blocks: dict[str, Any] = {"block_size": block} if block else {}
        return self.write.node("DequantizeLinear", [stored, *self._parameters(place, perm)],
                               axis=axis, **blocks)

    def _parameters(self, place: int, perm: Sequence[int] | None = None) -> list[str]:
        tensor, quantization = self.tensors[place], self.scales(place)
        assert tensor.dtype is not None
        scale, zero = quantization.scale, quantization.zero.astype(tensor.dtype)
        if quantization.per_tensor:
            scale, zero = scale.reshape(()), zero.reshape(())
        elif quantization.block and perm is not None:
            scale, zero = scale.transpose(perm), zero.transpose(perm)
        return [self.write.constant(scale), self.write.constant(zero)]

    def weights(self, place: int, perm: Sequence[int]) -> str:
        """A constant or computed operand in float, its axes permuted."""
        array = self.array(place)
        if array is None:
            return self.write.node("Transpose", [self.real(place)], perm=perm)
        arranged = self.write.constant(array.transpose(perm), self.tensors[place].name)
        if not self.is_quantized(place):
            return arranged
        return self.dequantized(arranged, place, list(perm).index(self.scales(place).axis), perm)

    def bias(self, place: int) -> str:
        """A bias in float, of integers where 32 bits hold them."""
        tensor, array = self.tensors[place], self.array(place)
        if tensor.quantization is None or array is None or array.dtype.kind == "f":
            return self.value(place)
        if array.dtype == np.int32:
            return self.dequantized(self.value(place), place, 0)
        scale = tensor.quantization.scale
        if np.any(array.astype(np.int32) != array):
            return self.write.constant((array * scale.astype(np.float64)).astype(np.float32),
                                       tensor.name)
        return self.write.node("DequantizeLinear", [
            self.write.constant(array.astype(np.int32), tensor.name), self.write.constant(
                scale.reshape(()) if tensor.quantization.per_tensor else scale)], axis=0)

    # ---- writing -------------------------------------------------------------------------------

    def define(self, place: int, made: str, first: bool = False) -> None:
        """The tensor is this float value, which is quantized if the file says so."""
        if self.is_quantized(place):
            if not self.scales(place).per_tensor:
                raise NodeRefused("its result must have one scale")
            made = self._quantized(place, made)
        self.define_stored(place, made, first)

    def define_stored(self, place: int, made: str, first: bool = False) -> None:
        """The tensor is this value, stored as the file stores it."""
        if not first and self.names[place] and self.write.nodes \
                and made in self.write.nodes[-1].output and made not in self.names.values():
            outputs = self.write.nodes[-1].output           # results are called as the file does
            outputs[list(outputs).index(made)] = self.names[place]
            self._rename(made, self.names[place])
            made = self.names[place]
        self.stored[place, first] = made
        self.constants.pop(place, None)

    def _rename(self, old: str, new: str) -> None:
        """Whoever reads a value from now on finds its new name."""
        for known in (self.stored, self.reals):
            known.update({key: new for key, name in known.items() if name == old})

    def alias(self, target: int, source: int) -> None:
        """The tensor is another one, in all its forms."""
        for first in (False, True):
            if (source, first) in self.stored:
                self.define_stored(target, self.stored[source, first], first)

    def only_reader(self, place: int) -> TfliteOperation | None:
        """The operation that alone reads a tensor, where there is one."""
        readers = self.readers.get(place, [])
        return readers[0] if len(readers) == 1 and place not in self.graph.outputs else None

    def through(self, source: int, target: int, build: Callable[[str], str],
                first: bool = False) -> None:
        """`target` is made of `source` by moving elements; passes over the graph move stored ones
        where both have the same scale.
        """
        self.define(target, build(self.real(source, first)), first)

    def shape(self, place: int) -> str:
        """The name of a tensor of extents as ONNX wants it, constant or computed."""
        array = self.array(place)
        if array is not None:
            return self.write.integers(*(int(extent) for extent in array.reshape(-1)))
        return self.write.node("Cast", [self.value(place)], to=onnx.TensorProto.INT64)

    def converted(self, made: str, place: int) -> str:
        """The value in the type of a tensor."""
        dtype = self.tensors[place].dtype
        assert dtype is not None
        return self.write.node("Cast", [made], to=onnx.helper.np_dtype_to_tensor_dtype(dtype))

    def define_reshaped(self, place: int, made: str) -> None:
        """The tensor is this float value in another shape, quantized before it gets it."""
        shape = self.write.integers(*self.extents(place))
        if self.is_quantized(place):
            made = self._quantized(place, made)
        self.define_stored(place, self.write.node("Reshape", [made, shape]))

    def _quantized(self, place: int, made: str) -> str:
        """A float value as the tensor stores it; of int8 it says which kernel of LiteRT rounds."""
        narrow = self.tensors[place].dtype == np.int8
        told = {"domain": OWN, "litert": self.kernel} if narrow else {}
        return self.write.node("QuantizeLinear", [made, *self._parameters(place)], **told)

    def extents(self, place: int) -> list[int]:
        """The shape of a tensor for a reshape, with -1 for one open dimension."""
        signature = list(self.tensors[place].signature)
        if signature.count(-1) > 1:
            raise NodeRefused("its result must have one open dimension at most")
        return signature


def axis_of(axis: int, rank: int, first: bool) -> int:
    """The place of an axis of the file."""
    if not -rank <= axis < rank:
        raise NodeRefused(f"axis must be -{rank} to {rank - 1}, not {axis}")
    axis %= rank
    return FIRST.index(axis) if first else axis


def _arranged(array: np.ndarray, first: bool) -> np.ndarray:
    """A constant for operands in NCHW, if so, which broadcasts as before."""
    if not first:
        return array
    return array.reshape((1,) * (4 - array.ndim) + array.shape).transpose(FIRST)


def _dtype(tensor: TfliteTensor) -> np.dtype:
    return np.dtype(np.float32) if tensor.dtype is None else tensor.dtype


def _open_shape(tensor: TfliteTensor) -> list[int | None]:
    return [None if extent < 0 else extent for extent in tensor.signature]
